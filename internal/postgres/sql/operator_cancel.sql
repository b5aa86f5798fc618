-- Cancel: pending events become failed, because a person says so.
--
--   $1 text[]   event_id
--   $2 int[]    attempts as they were chosen
--   $3 text     last_error_code
--   $4 text     last_error
--
-- Returns  event_id of each row written.
-- Invariant: a row that is not pending any more, one that was tried since, and one
-- that somebody has locked, such as a claim, stay as they are. attempts do not
-- change.
-- Index: the primary key
with wanted as materialized (
    select * from unnest($1::text[]::uuid[], $2::int[]) as w (event_id, attempts)
),
ours as materialized (
    select w.event_id
    from wanted w
    join {table} t on t.event_id = w.event_id
    where case -- one expression, so that no index but the primary key fits
        when t.delivery_status is distinct from 'pending' then false
        else t.attempts = w.attempts
    end
    order by t.event_id
    for update of t skip locked
)
update {table} t
set delivery_status = 'failed',
    next_attempt_at = null,
    last_error_code = $3::text,
    last_error = $4::text
from ours o
where t.event_id = o.event_id
returning t.event_id::text
