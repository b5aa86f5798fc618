-- Payload: the payload of one event as text, without the claim token.
--
--   $1 text      event_id
--   {document}   payload_json, or payload_json as jsonb without the token
--
-- Index: the primary key
select ({document})::text
from {table}
where event_id = $1::text::uuid
