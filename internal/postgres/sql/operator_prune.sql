-- Prune: deletes old rows among those that lie next to each other.
--
--   $1 text      ctid behind which to begin
--   $2 text      ctid before which to end
--   $3 integer   rows at most
--   $4 text      rows that occurred before this time are old
--   $5 boolean   failed rows as well
--   {lock}       for update skip locked; empty in a dry run
--   {gone}       the delete, by ctid; in a dry run the rows themselves
--
-- Returns  rows deleted (or counted), rows that were old, the ctid of the last of
-- them.
-- Invariant: each row is locked before it is deleted, and none is waited for.
-- Index: none: a range of ctid is read as it lies on the disk, which Postgres can
-- do since 14. No index holds succeeded rows, and by the primary key each would
-- be a block of its own, in the order of random ids.
with old as materialized (
    select ctid as place
    from {table}
    where ctid > $1::text::tid and ctid < $2::text::tid
      and (delivery_status = 'succeeded' or ($5::boolean and delivery_status = 'failed'))
      and occurred_at < $4::text::timestamptz
    limit $3::int
    {lock}
),
gone as (
    {gone}
)
select (select count(*) from gone)::text,
       (select count(*) from old)::text,
       (select max(place) from old)::text,
       -- A delete that a crash takes back is made again by the next prune: its
       -- commit need not wait for the disk, where it would keep a claim waiting.
       set_config('synchronous_commit', 'off', true)
