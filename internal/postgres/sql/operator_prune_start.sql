-- Prune's start: what a walk through the table has to know.
--
--   $1 integer   days
--   $2 text      the table
--
-- Returns  the time so many days ago, the version of the server, the blocks of
-- the table, whether it is an ordinary table.
select (statement_timestamp() - $1::int * interval '1 day')::text,
       current_setting('server_version_num'),
       (pg_relation_size(c.oid) / current_setting('block_size')::int)::text,
       (c.relkind = 'r')::text
from pg_class c
where c.oid = to_regclass($2::text)
