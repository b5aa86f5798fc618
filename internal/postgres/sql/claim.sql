-- Claim: due rows become ours for the length of a lease.
--
--   $1 integer   rows at most, exactly
--   $2 bigint    payload bytes at most, but one row at least
--   $3 bigint    largest payload that is loaded, bytes
--   $4 float8    lease, seconds
--   $5 text      only what was due at this time; empty: now
--   {which}      which rows: the suspects, or all others
--   {order}      of the rows; suspects that lost the fewest leases go first
--   {document}   payload_json as jsonb, or null where Postgres cannot read it
--   {running}    true unless an operator paused the dispatcher
--
-- Returns  all that delivery needs, as text, so that every protocol mode reads it
-- the same way. A payload that is no object holds no token: token is null. One
-- above $3 is not loaded: its three values are null and size tells why.
-- The last column tells whether $2 ended the batch.
-- Order: by due time (next_attempt_at; occurred_at if it was never tried), then
-- event_id. dated covers all that became due in the past; undated are rows that
-- were never tried and that their producer dated in the future.
-- Invariant: each row is locked before it is looked at, and none is waited for.
-- MATERIALIZED keeps a planner from running a LIMIT more than once.
-- Index: <table>_dispatch_due, _dispatch_undated, _dispatch_suspect
with dated as materialized (
    select event_id, event_type, occurred_at, next_attempt_at, attempts, attempts_base, payload_json,
           coalesce(next_attempt_at, occurred_at) as due_at
    from {table}
    where delivery_status = 'pending'
      and {which}
      and coalesce(next_attempt_at, occurred_at) <= least(statement_timestamp(), nullif($5::text, '')::timestamptz)
      and {running}
    order by {order}
    limit $1::int
    for update skip locked
),
undated as materialized (
    select event_id, event_type, occurred_at, next_attempt_at, attempts, attempts_base, payload_json,
           occurred_at as due_at
    from {table}
    where delivery_status = 'pending'
      and {which}
      and next_attempt_at is null
      and occurred_at > statement_timestamp()
      and {running}
    order by occurred_at, event_id
    limit $1::int - (select count(*) from dated)
    for update skip locked
),
placed as materialized (
    select due.*, row_number() over (order by due_at, event_id) as place
    from (select * from dated union all select * from undated) due
),
-- The size of what would be loaded, in claim order and no further than the batch
-- goes: cut stops reading at the first row that is too much. The texts are made
-- again for the batch instead of carried along, because a window that outgrows
-- work_mem would read every row.
measured as materialized (
    select d.place, sum(p.size) over (rows unbounded preceding) as running
    from placed d
    cross join lateral (
        select coalesce(octet_length((document -> 'correlation_id')::text), 0)::bigint
             + coalesce(octet_length((document -> 'aggregate')::text), 0)
             + coalesce(octet_length((document -> 'data')::text), 0) as size
        from (select {document} as document offset 0) doc
        offset 0
    ) p
),
cut as materialized (
    select place from measured where place > 1 and running > $2::bigint limit 1
)
-- The batch is the rows before the cut. It is not joined to what was measured:
-- a planner that takes it for one row would compare each row with each.
update {table} t
set delivery_status = 'delivering',
    next_attempt_at = deadline.at,
    payload_json = case
        when b.token is null then t.payload_json
        else (t.payload_json::jsonb || jsonb_build_object('_delivery_claim_token', b.token))::{json}
    end
from (
         select d.*, p.*,
                coalesce(octet_length(correlation), 0)::bigint
              + coalesce(octet_length(aggregate), 0)
              + coalesce(octet_length(data), 0) as size,
                case when kind = 'object' then gen_random_uuid()::text end as token
         from placed d
         cross join lateral (
             select jsonb_typeof(document) as kind,
                    (document -> 'correlation_id')::text as correlation,
                    (document -> 'aggregate')::text as aggregate,
                    (document -> 'data')::text as data
             from (select {document} as document offset 0) doc
             offset 0
         ) p
         where d.place <= coalesce((select place - 1 from cut), $1::int)
         offset 0
     ) b,
     (select clock_timestamp() + $4::float8 * interval '1 second' as at offset 0) deadline
where t.event_id = b.event_id
returning b.place::text,
          b.event_id::text,
          b.event_type::text,
          b.occurred_at::text,
          b.attempts::text,
          b.attempts_base::text,
          b.next_attempt_at::text,
          t.next_attempt_at::text,
          b.token,
          b.kind,
          b.size::text,
          case when b.size <= $3::bigint then b.correlation end,
          case when b.size <= $3::bigint then b.aggregate end,
          case when b.size <= $3::bigint then b.data end,
          (exists (select from cut))::text
