-- Replay: failed events become pending again, with a fresh budget of attempts.
--
--   $1 text[]    event_id
--   $2 int[]     attempts as they were chosen
--   $3 float8[]  seconds until it is due
--
-- Returns  event_id of each row written.
-- Invariant: a row that is not failed any more, one that failed once more since,
-- and one that somebody has locked stay as they are. attempts, last_error and
-- last_error_code stay as history; budget and backoff count from attempts_base.
-- Index: the primary key
with wanted as materialized (
    select * from unnest($1::text[]::uuid[], $2::int[], $3::float8[]) as w (event_id, attempts, delay)
),
ours as materialized (
    select w.*
    from wanted w
    join {table} t on t.event_id = w.event_id
    where case -- one expression, so that no index but the primary key fits
        when t.delivery_status is distinct from 'failed' then false
        else t.attempts = w.attempts
    end
    order by t.event_id
    for update of t skip locked
)
update {table} t
set delivery_status = 'pending',
    next_attempt_at = clock_timestamp() + o.delay * interval '1 second',
    attempts_base = t.attempts,
    lost_leases = 0
from ours o
where t.event_id = o.event_id
returning t.event_id::text
