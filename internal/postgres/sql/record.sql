-- Record: the outcomes of a group, each only if its row still carries our claim.
--
--   $1 uuid[]    event_id
--   $2 int[]     attempts as claimed
--   $3 text[]    claim token; empty: the payload holds none
--   $4 text[]    next_attempt_at as the claim set it, which fences where there is
--                no token
--   $5 text[]    delivery_status: succeeded, failed or pending
--   $6 text[]    last_error_code, empty: null
--   $7 text[]    last_error, empty: null
--   $8 text[]    external_run_id if succeeded
--   $9 float8[]  seconds until the next attempt if pending
--
-- Returns  event_id of each row written.
-- Invariant: rows are locked in the order of event_id and none is waited for, so
-- that no two statements can lock each other out. Everything in payload_json but
-- the token stays as it is now.
-- Index: the primary key
with outcome as materialized (
    select *
    from unnest($1::text[]::uuid[], $2::int[], $3::text[], $4::text[]::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[], $9::float8[])
        as o (event_id, attempts, token, deadline, status, code, error, run_id, delay)
),
ours as materialized (
    select o.*
    from outcome o
    join {table} t on t.event_id = o.event_id
    where case -- one expression, so that no index but the primary key fits
        when t.delivery_status is distinct from 'delivering' or t.attempts is distinct from o.attempts then false
        when o.token = '' then t.next_attempt_at = o.deadline
        when jsonb_typeof(t.payload_json::jsonb) = 'object' then t.payload_json::jsonb ->> '_delivery_claim_token' = o.token
        else false
    end
    order by t.event_id
    for update of t skip locked
)
update {table} t
set delivery_status = o.status,
    attempts = o.attempts + 1,
    next_attempt_at = case when o.status = 'pending' then clock_timestamp() + o.delay * interval '1 second' end,
    last_error = nullif(o.error, ''),
    last_error_code = nullif(o.code, ''),
    external_run_id = case when o.status = 'succeeded' then o.run_id else t.external_run_id end,
    payload_json = case
        when o.token = '' then t.payload_json
        else (t.payload_json::jsonb - '_delivery_claim_token')::{json}
    end
from ours o
where t.event_id = o.event_id
returning t.event_id::text
