-- Backlog: what waits, and what a claim has to know besides its rows.
--
--   $1 integer   where counting ends, so that the cost does not grow with the
--                table
--   {paused}     whether an operator paused the dispatcher
--
-- Returns  rows due, age in seconds of the one due for longest, parked rows (a
-- lease without deadline), rows failed, whether suspects are due, whether the
-- dispatcher is paused, the time.
-- Index: all of ours; each is read from one end, or up to $1 entries.
select
    ((select count(*) from (
        select from {table}
        where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
          and coalesce(next_attempt_at, occurred_at) <= statement_timestamp()
        limit $1::int) dated)
   + (select count(*) from (
        select from {table}
        where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
          and next_attempt_at is null and occurred_at > statement_timestamp()
        limit $1::int) undated)
   + (select count(*) from (
        select from {table}
        where delivery_status = 'pending' and lost_leases >= 2 and lost_leases_at = attempts
          and (next_attempt_at is null or next_attempt_at <= statement_timestamp())
        limit $1::int) suspects))::text,
    coalesce(extract(epoch from statement_timestamp() - least(
        (select coalesce(next_attempt_at, occurred_at) from {table}
         where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
           and coalesce(next_attempt_at, occurred_at) <= statement_timestamp()
           and coalesce(next_attempt_at, occurred_at) > '-infinity'
         order by coalesce(next_attempt_at, occurred_at), event_id limit 1),
        (select coalesce(next_attempt_at, occurred_at) from {table}
         where delivery_status = 'pending' and lost_leases >= 2 and lost_leases_at = attempts
           and coalesce(next_attempt_at, occurred_at) <= statement_timestamp()
           and coalesce(next_attempt_at, occurred_at) > '-infinity'
         order by lost_leases, coalesce(next_attempt_at, occurred_at), event_id limit 1))), 0)::text,
    (select count(*) from (
        select from {table}
        where delivery_status = 'delivering' and next_attempt_at is null limit $1::int) parked)::text,
    (select count(*) from (
        select from {table}
        where delivery_status = 'failed' limit $1::int) failed)::text,
    exists (select from {table}
        where delivery_status = 'pending' and lost_leases >= 2 and lost_leases_at = attempts
          and (next_attempt_at is null or next_attempt_at <= statement_timestamp()))::text,
    ({paused})::text,
    statement_timestamp()::text
