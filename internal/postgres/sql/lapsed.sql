-- Lapsed: rows whose lease ran out, for a reclaim that goes part by part because
-- one of them cannot be changed.
--
--   $1 integer   rows at most
--
-- Returns  event_id. Locks nothing.
-- Index: <table>_dispatch_lease
select event_id::text
from {table}
where delivery_status = 'delivering'
  and next_attempt_at <= statement_timestamp()
order by next_attempt_at
limit $1::int
