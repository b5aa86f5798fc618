-- Due: what a claim would take, for a dry run. Locks and changes nothing.
--
--   $1 integer   rows at most
--
-- Returns  event_id, event_type, attempts, age in seconds since it became due,
-- whether it is a suspect; in claim order, suspects last.
-- Index: <table>_dispatch_due and _dispatch_undated, _dispatch_suspect
(select event_id::text, event_type::text, attempts::text,
        case when coalesce(next_attempt_at, occurred_at) > '-infinity'
             then extract(epoch from statement_timestamp() - coalesce(next_attempt_at, occurred_at)) else 0 end::text,
        'false'
 from {table}
 where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
   and coalesce(next_attempt_at, occurred_at) <= statement_timestamp()
 order by coalesce(next_attempt_at, occurred_at), event_id
 limit $1::int)
union all
(select event_id::text, event_type::text, attempts::text, '0', 'false'
 from {table}
 where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
   and next_attempt_at is null and occurred_at > statement_timestamp()
 order by occurred_at, event_id
 limit $1::int)
union all
(select event_id::text, event_type::text, attempts::text, '0', 'true'
 from {table}
 where delivery_status = 'pending' and lost_leases >= 2 and lost_leases_at = attempts
   and (next_attempt_at is null or next_attempt_at <= statement_timestamp())
 order by lost_leases, coalesce(next_attempt_at, occurred_at), event_id
 limit $1::int)
