-- Status: what an operator sees first. Reads our partial indexes, never the rows
-- that are done.
--
-- Returns  per part: name and count.
select 'due', (count(*) filter (where next_attempt_at is null or next_attempt_at <= statement_timestamp()))::text
from {table} where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
union all
select 'later', (count(*) filter (where next_attempt_at > statement_timestamp()))::text
from {table} where delivery_status = 'pending' and (lost_leases < 2 or lost_leases_at <> attempts)
union all
select 'suspects', count(*)::text
from {table} where delivery_status = 'pending' and lost_leases >= 2 and lost_leases_at = attempts
union all
select 'leased', count(*)::text
from {table} where delivery_status = 'delivering' and next_attempt_at > statement_timestamp()
union all
select 'expired', count(*)::text
from {table} where delivery_status = 'delivering' and next_attempt_at <= statement_timestamp()
union all
select 'parked', count(*)::text
from {table} where delivery_status = 'delivering' and next_attempt_at is null
union all
select 'failed:' || coalesce(last_error_code, ''), count(*)::text
from {table} where delivery_status = 'failed' group by last_error_code
