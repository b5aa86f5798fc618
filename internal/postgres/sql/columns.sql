-- Columns: what the table looks like, and what our role may do with it.
--
--   $1 text   the table, quoted as SQL wants it
--   $2 text   the control table
--
-- Returns  one row a column: name, type, whether the role may SELECT and UPDATE
-- the table, whether the control table is there and may be read, the isolation
-- level of the session, the kind of the table. One row with a null name if the
-- table has no columns; none if there is no table.
select a.attname::text,
       format_type(a.atttypid, null),
       has_any_column_privilege(c.oid, 'select')::text,
       has_any_column_privilege(c.oid, 'update')::text,
       (k.oid is not null)::text,
       coalesce(has_table_privilege(k.oid, 'select'), false)::text,
       current_setting('transaction_isolation'),
       c.relkind::text
from pg_class c
left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_class k on k.oid = to_regclass($2::text)
where c.oid = to_regclass($1::text)
