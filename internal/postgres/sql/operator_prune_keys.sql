-- Prune by keys: as operator_prune.sql, where rows cannot be read by ranges of
-- ctid (a server before 14): in the order of event_id, which reads about one
-- block a row.
--
--   $1 text      event_id behind which to begin
--   {after}      event_id > $1; at the start, every row
--   $2 integer   rows to look at, at most
--   $3 text      rows that occurred before this time are old
--   $4 boolean   failed rows as well
--   {lock}       for update of t skip locked; empty in a dry run
--   {gone}       the delete, by event_id; in a dry run the rows themselves
--
-- Returns  rows deleted (or counted), rows looked at, the last event_id looked at.
-- Invariant: as in operator_prune.sql.
-- Index: the primary key
with looked as materialized (
    select event_id
    from {table}
    where {after}
    order by event_id
    limit $2::int
),
old as materialized (
    select t.event_id
    from looked l
    join {table} t on t.event_id = l.event_id
    where case -- one expression, so that no index but the primary key fits
        when t.delivery_status = 'succeeded' or ($4::boolean and t.delivery_status = 'failed') then t.occurred_at < $3::text::timestamptz
        else false
    end
    {lock}
),
gone as (
    {gone}
)
select (select count(*) from gone)::text,
       (select count(*) from looked)::text,
       (select event_id from looked order by event_id desc limit 1)::text,
       -- A delete that a crash takes back is made again by the next prune: its
       -- commit need not wait for the disk, where it would keep a claim waiting.
       set_config('synchronous_commit', 'off', true)
