-- Shape: the columns of the table, for a doctor.
--
--   $1 text   the table, quoted as SQL wants it
--   $2 text   the control table
--
-- Returns  for each column: name, type, the kind of the table, whether the control
-- table is there. None if there is no table.
select a.attname::text, format_type(a.atttypid, null), c.relkind::text, (to_regclass($2::text) is not null)::text
from pg_class c
left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.oid = to_regclass($1::text)
