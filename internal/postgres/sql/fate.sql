-- Fate: why rows were not written, looked at without a lock.
--
--   $1 to $4   as in record.sql
--   $5 text[]  delivery_status that was to be written
--   $6 text[]  last_error that was to be written, empty: null
--   $7 text[]  external_run_id that was to be written if succeeded
--
-- Returns  for each row that is still there: event_id, whether it holds the
-- outcome already (the answer to a commit was lost), and whether it still carries
-- our claim (somebody else has it locked).
-- Index: the primary key
with outcome as materialized (
    select *
    from unnest($1::text[]::uuid[], $2::int[], $3::text[], $4::text[]::timestamptz[], $5::text[], $6::text[], $7::text[])
        as o (event_id, attempts, token, deadline, status, error, run_id)
)
select t.event_id::text,
       (t.attempts = o.attempts + 1
        and t.delivery_status = o.status
        and t.last_error is not distinct from nullif(o.error, '')
        and (o.status <> 'succeeded' or t.external_run_id = o.run_id))::text,
       (t.delivery_status = 'delivering'
        and t.attempts = o.attempts
        and case
            when o.token = '' then t.next_attempt_at = o.deadline
            when jsonb_typeof(t.payload_json::jsonb) = 'object' then t.payload_json::jsonb ->> '_delivery_claim_token' = o.token
            else false
        end)::text
from {table} t
join outcome o on o.event_id = t.event_id
