-- Settings: bound what follows in the same transaction, and let the database
-- speak one language, whatever the role or the server has set.
--
--   $1 text   statement_timeout in milliseconds: a claim that the client gave up
--             must not commit later
--   $2 text   lock_timeout in milliseconds: no statement waits for a row; this
--             is for locks on the whole table (ALTER TABLE)
--
-- All local to the transaction, so that a pooler in between can hand the session
-- to somebody else. The planner settings keep plans on the partial indexes where
-- the statistics are old or missing; JIT costs more than it saves here.
select set_config('statement_timeout', $1, true),
       set_config('lock_timeout', $2, true),
       set_config('TimeZone', 'UTC', true),
       set_config('DateStyle', 'ISO', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('jit', 'off', true)
