-- Walk: events of one part of the table in the order of an index, for people.
-- Locks and changes nothing.
--
--   $1 integer   rows to look at, at most
--   $2 integer   events to return, at most
--   {part}       which rows: the predicate of the index
--   {after}      where to begin, as a condition behind {part}; may be empty
--   {fits}       which of them are wanted
--   {key}        what is sorted by
--   {order}      the order of the index
--   {sorted}     the same by the names of the columns; they are those of looked,
--                since what is returned has the same names and is text
--   {row}        what is returned
--
-- Index: <table>_dispatch_due for pending events in due order; by id,
-- <table>_dispatch_failed for failed events of one code, else the primary key. The walk ends with $2 events or $1 rows, so that a filter which nothing
-- fits does not read the whole table.
select {row}
from (
    select event_id, event_type, delivery_status, occurred_at, next_attempt_at, attempts, attempts_base,
           lost_leases, lost_leases_at, last_error_code, last_error, external_run_id,
           {key} as sort_key,
           ({fits}) as fits
    from {table}
    where {part} {after}
    order by {order}
    limit $1::int
) looked
where fits
order by {sorted}
limit $2::int
