-- Release: events that were claimed and not tried go back as they were.
--
--   $1 uuid[]    event_id
--   $2 int[]     attempts as claimed
--   $3 text[]    claim token; empty: the payload holds none
--   $4 text[]    next_attempt_at as the claim set it
--   $5 text[]    next_attempt_at before the claim, empty: null
--
-- Returns  event_id of each row written.
-- Invariant: as in record.sql. Counts and errors stay as they are.
-- Index: the primary key
with unsent as materialized (
    select *
    from unnest($1::text[]::uuid[], $2::int[], $3::text[], $4::text[]::timestamptz[], $5::text[])
        as u (event_id, attempts, token, deadline, due)
),
ours as materialized (
    select u.*
    from unsent u
    join {table} t on t.event_id = u.event_id
    where case -- one expression, so that no index but the primary key fits
        when t.delivery_status is distinct from 'delivering' or t.attempts is distinct from u.attempts then false
        when u.token = '' then t.next_attempt_at = u.deadline
        when jsonb_typeof(t.payload_json::jsonb) = 'object' then t.payload_json::jsonb ->> '_delivery_claim_token' = u.token
        else false
    end
    order by t.event_id
    for update of t skip locked
)
update {table} t
set delivery_status = 'pending',
    next_attempt_at = nullif(u.due, '')::timestamptz,
    payload_json = case
        when u.token = '' then t.payload_json
        else (t.payload_json::jsonb - '_delivery_claim_token')::{json}
    end
from ours u
where t.event_id = u.event_id
returning t.event_id::text
