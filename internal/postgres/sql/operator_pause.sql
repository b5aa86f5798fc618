-- Pause: writes the one row that the dispatcher reads with each claim. A pause
-- without a reason leaves one that is there already as it is, with its reason.
--
--   $1 boolean   paused
--   $2 text      reason; empty: none
--   $3 text      who
--
-- Returns  what was there before: paused, reason, who, when. One row with nulls if
-- there was nothing.
-- Index: the primary key of the control table
with before as materialized (
    select paused, reason, changed_by, changed_at from {control}
),
written as (
    insert into {control} as c (paused, reason, changed_by, changed_at)
    values ($1::boolean, nullif($2::text, ''), $3::text, clock_timestamp())
    on conflict (only_row) do update
    set paused = excluded.paused, reason = excluded.reason, changed_by = excluded.changed_by, changed_at = excluded.changed_at
    where not (c.paused and excluded.paused and excluded.reason is null)
)
select b.paused::text, b.reason::text, b.changed_by::text, b.changed_at::text
from (select) one
left join before b on true
