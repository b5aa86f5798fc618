-- Choose: events that a person wants to change, those that occurred first first.
-- Locks and changes nothing; the change that follows looks at each row again.
--
--   $1 integer   rows to look at, at most
--   $2 integer   events to return, at most
--   {looked}     the rows, from one or more parts of the table
--
-- Returns  event_id, event_type, attempts, last_error_code, occurred_at, how many
-- fit in all, whether $1 rows were looked at so that more may fit. One row with
-- nulls if none fits.
-- Index: the partial indexes of the parts in {looked}
with looked as materialized (
    select * from ({looked}) parts limit $1::int
),
fitting as materialized (
    select * from looked where fits
),
chosen as materialized (
    select * from fitting order by occurred_at, event_id limit $2::int
)
select c.event_id::text, c.event_type::text, c.attempts::text, c.last_error_code::text, c.occurred_at::text,
       size.fitting::text, (size.looked >= $1::int)::text
from (select (select count(*) from fitting) as fitting, (select count(*) from looked) as looked) size
left join chosen c on true
order by c.occurred_at, c.event_id
