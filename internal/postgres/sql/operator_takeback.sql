-- Take back: one delivering event becomes pending, due at once, and its claim
-- token goes, so that an outcome of whoever held it is dropped.
--
--   $1 text      event_id
--   $2 boolean   also a live lease, and a row that is parked without a deadline
--   $3 text      last_error
--   {stripped}   payload_json without the claim token, or as it is where Postgres
--                cannot read it
--
-- Returns  event_id if the row was written.
-- Invariant: a row that is not delivering, or that somebody has locked, stays as
-- it is. A lease that ran out counts as lost, as in reclaim.sql; one taken by
-- force does not. attempts do not change.
-- Index: the primary key
with ours as materialized (
    select event_id, coalesce(next_attempt_at <= statement_timestamp(), false) as expired
    from {table}
    where event_id = $1::text::uuid
      and case -- one expression, so that no index but the primary key fits
          when delivery_status is distinct from 'delivering' then false
          else $2::boolean or next_attempt_at <= statement_timestamp()
      end
    for update skip locked
)
update {table} t
set delivery_status = 'pending',
    next_attempt_at = null,
    last_error_code = 'staleLeaseRecovered',
    last_error = $3::text,
    lost_leases = case
        when not o.expired then t.lost_leases
        when t.lost_leases_at = t.attempts then t.lost_leases + 1
        else 1
    end,
    lost_leases_at = case when o.expired then t.attempts else t.lost_leases_at end,
    payload_json = {stripped}
from ours o
where t.event_id = o.event_id
returning t.event_id::text
