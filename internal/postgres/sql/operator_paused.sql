-- Paused: who paused the dispatcher, when and why. No row: nobody ever did.
select paused::text, reason::text, changed_by::text, changed_at::text
from {control}
