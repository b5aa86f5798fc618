-- Reclaim: rows whose lease ran out go back to pending; a suspect that has lost
-- too many leases in a row fails.
--
--   $1 integer   rows at most
--   $2 integer   leases that a row may lose in a row
--   $3 boolean   leave payload_json alone: one of them holds a token and cannot be
--                read as jsonb
--   {whom}       true, or which of them
--
-- Returns  delivery_status of each row.
-- Invariant: a row with a live lease, one locked by somebody else, and one whose
-- outcome commits in the same moment stay as they are. attempts do not change.
-- Index: <table>_dispatch_lease
with expired as materialized (
    select event_id,
           case when lost_leases_at = attempts then lost_leases + 1 else 1 end as lost
    from {table}
    where delivery_status = 'delivering'
      and next_attempt_at <= statement_timestamp()
      and {whom}
    order by next_attempt_at
    limit $1::int
    for update skip locked
)
update {table} t
set delivery_status = case when e.lost >= $2::int then 'failed' else 'pending' end,
    next_attempt_at = null,
    last_error = case
        when e.lost >= $2::int then format('The lease ran out %s times in a row and no outcome was ever recorded: the event may kill its worker. attempts stay at %s.', e.lost, t.attempts)
        else format('The lease ran out before an outcome was recorded: the worker died or was cut off. attempts stay at %s.', t.attempts)
    end,
    last_error_code = case when e.lost >= $2::int then 'leaseLostRepeatedly' else 'staleLeaseRecovered' end,
    lost_leases = e.lost,
    lost_leases_at = t.attempts,
    payload_json = case
        when e.lost < $2::int or $3::boolean then t.payload_json
        when strpos(t.payload_json::text, '_delivery_claim_token') = 0 then t.payload_json -- and so never read as jsonb
        when jsonb_typeof(t.payload_json::jsonb) = 'object' then (t.payload_json::jsonb - '_delivery_claim_token')::{json}
        else t.payload_json
    end
from expired e
where t.event_id = e.event_id
returning t.delivery_status::text
