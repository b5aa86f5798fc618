-- Find: the events of these ids, whatever their status. Locks and changes
-- nothing.
--
--   $1 text[]   event_ids
--   {row}       as in operator_walk.sql
--
-- Index: the primary key
select {row}
from (select *, '' as sort_key from {table} where event_id = any ($1::text[]::uuid[])) e
