-- Sort: events of one part of the table in an order that no index has, for
-- people. Locks and changes nothing.
--
--   $1 integer   rows to look at, at most
--   $2 integer   events to return, at most
--   {part}       which rows: the predicate of the index
--   {after}      where to begin, as a condition; may be empty
--   {fits}, {key}, {sorted}, {row}   as in operator_walk.sql
--
-- Returns  first whether $1 rows were looked at, so that there may be more; then
-- as in operator_walk.sql. One row with nulls if no event fits.
-- Index: the partial index of {part}
with looked as materialized (
    select event_id, event_type, delivery_status, occurred_at, next_attempt_at, attempts, attempts_base,
           lost_leases, lost_leases_at, last_error_code, last_error, external_run_id,
           {key} as sort_key,
           ({fits}) as fits
    from {table}
    where {part}
    limit $1::int
),
fitting as materialized (
    select * from looked where fits {after} order by {sorted} limit $2::int
)
select (size.rows >= $1::int)::text, {row}
from (select count(*) as rows from looked) size
left join fitting looked on true
order by {sorted}
