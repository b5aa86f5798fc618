-- Status: what an operator sees first. Reads our partial indexes, never the rows
-- that are done, and of each no more than it counts.
--
--   $1 integer   where counting ends, so that the cost does not grow with what
--                waits
--
-- Returns  per part: name, count up to $1, whether there is more. Failed events
-- come by code, the first twenty codes.
-- Index: all of ours; each is read from one end, or from one code on.
with recursive
dated as (
    select count(*) as n from (
        select from {table}
        where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
          and coalesce(next_attempt_at, occurred_at) <= statement_timestamp()
        limit $1::int + 1) looked
),
undated as ( -- never tried and dated in the future: due all the same
    select count(*) as n from (
        select from {table}
        where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
          and next_attempt_at is null and occurred_at > statement_timestamp()
        limit $1::int + 1) looked
),
future as ( -- holds the undated ones once more
    select count(*) as looked, count(next_attempt_at) as n from (
        select next_attempt_at from {table}
        where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
          and coalesce(next_attempt_at, occurred_at) > statement_timestamp()
        limit $1::int + 1) looked
),
codes as ( -- from one code to the next, whatever lies between
    (select last_error_code as code, 1 as place from {table}
     where delivery_status = 'failed' and last_error_code is not null
     order by last_error_code limit 1)
    union all
    select (select last_error_code from {table}
            where delivery_status = 'failed' and last_error_code > codes.code
            order by last_error_code limit 1), place + 1
    from codes where code is not null and place <= 20
),
failed as (
    select code, (select count(*) from (
        select from {table} where delivery_status = 'failed' and last_error_code = codes.code
        limit $1::int + 1) looked) as n
    from codes where code is not null and place <= 20
    union all
    select '', (select count(*) from (
        select from {table} where delivery_status = 'failed' and last_error_code is null
        limit $1::int + 1) looked)
),
parts as (
    select 'due' as part, dated.n + undated.n as n, dated.n + undated.n > $1::int as more from dated, undated
    union all
    select 'later', n, looked > $1::int from future
    union all
    select 'suspects', count(*), count(*) > $1::int from (
        select from {table} where delivery_status = 'pending' and lost_leases >= 2 and lost_leases_at = attempts
        limit $1::int + 1) looked
    union all
    select 'leased', count(*), count(*) > $1::int from (
        select from {table} where delivery_status = 'delivering' and next_attempt_at > statement_timestamp()
        limit $1::int + 1) looked
    union all
    select 'expired', count(*), count(*) > $1::int from (
        select from {table} where delivery_status = 'delivering' and next_attempt_at <= statement_timestamp()
        limit $1::int + 1) looked
    union all
    select 'parked', count(*), count(*) > $1::int from (
        select from {table} where delivery_status = 'delivering' and next_attempt_at is null
        limit $1::int + 1) looked
    union all
    select 'failed:' || code, n, n > $1::int from failed where n > 0
    union all
    select 'failed codes', 0, exists (select from codes where code is not null and place > 20)
)
select part, least(n, $1::int)::text, more::text from parts
