-- Indexes: those of the table, as this server writes them.
--
--   $1 text   the table, quoted as SQL wants it
--
-- Returns  for each: what it holds and how, whether it is valid, its name.
select substring(pg_get_indexdef(i.indexrelid) from '.*( USING .*)$'), i.indisvalid::text, c.relname::text
from pg_index i
join pg_class c on c.oid = i.indexrelid
where i.indrelid = to_regclass($1::text)
