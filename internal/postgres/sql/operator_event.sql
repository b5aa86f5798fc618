-- Event: one event for a person, without its payload. Locks and changes nothing.
--
--   $1 text      event_id
--   $2 integer   where counting ends
--   {paused}     whether an operator paused the dispatcher
--   {row}        as in operator_walk.sql
--   {document}   payload_json as jsonb, or null where Postgres cannot read it
--
-- Returns  as operator_walk.sql; then the size of the payload as text in bytes,
-- its kind, its keys as a JSON array (the claim token is none of them), whether
-- it holds a claim token, how many due events go out before this one, whether
-- the dispatcher is paused.
-- Index: the primary key; <table>_dispatch_due for the count
select {row},
       octet_length(payload_json::text)::text,
       coalesce(jsonb_typeof({document}), 'unreadable'),
       case when jsonb_typeof({document}) = 'object' then
           (select coalesce(jsonb_agg(k order by k), '[]') from jsonb_object_keys({document}) k where k <> '_delivery_claim_token')::text
       end,
       (case when jsonb_typeof({document}) = 'object' then {document} ? '_delivery_claim_token' else false end)::text,
       (case when delivery_status = 'pending' then
           (select count(*) from (
               select from {table} o
               where o.delivery_status = 'pending' and (o.lost_leases < 2 or o.lost_leases_at <> o.attempts)
                 and coalesce(o.next_attempt_at, o.occurred_at) <= statement_timestamp()
                 and (coalesce(o.next_attempt_at, o.occurred_at), o.event_id) < (coalesce(e.next_attempt_at, e.occurred_at), e.event_id)
               limit $2::int) earlier)
        else 0 end)::text,
       ({paused})::text
from (select *, '' as sort_key from {table} where event_id = $1::text::uuid) e
