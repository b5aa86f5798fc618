-- Walk's end: the last row that a walk looked at, if it looked at as many as it
-- might. Asked only where a walk came back short: the next page begins there.
--
--   $1 integer   rows that the walk may look at
--   {part}, {after}, {key}, {order}   as in operator_walk.sql
--
-- Index: as in operator_walk.sql
select sort_key::text, event_id::text
from (
    select event_id, {key} as sort_key
    from {table}
    where {part} {after}
    order by {order}
    limit $1::int
) looked
offset $1::int - 1
