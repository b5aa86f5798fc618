-- Rest: what is left of the time goes to the next statement, so that a round trip
-- is bounded as a whole. A claim that the client gave up must not commit later.
--
--   $1 text   milliseconds for the round trip, as in settings.sql
select set_config('statement_timeout',
    greatest(1, $1::text::int - ceil(extract(epoch from clock_timestamp() - now()) * 1000))::int::text, true)
