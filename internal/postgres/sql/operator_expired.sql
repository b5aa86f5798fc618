-- Expired: leases that ran out. Locks and changes nothing.
--
--   $1 integer   where counting ends
--
-- Index: <table>_dispatch_lease
select count(*)::text
from (
    select from {table}
    where delivery_status = 'delivering' and next_attempt_at <= statement_timestamp()
    limit $1::int
) expired
