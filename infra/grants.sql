-- Roles of the dispatcher and of the operator, with exactly what each needs. Run it with psql, as the owner of the table,
-- after `operator migrate`; again at any time, also beside live traffic:
--
--   psql "$DATABASE_URL" -f infra/grants.sql
--   psql "$DATABASE_URL" -v schema=sales -v table=outbox_events -v dispatcher=my_dispatcher -v operator=my_operator -f infra/grants.sql
--
-- A role that is not there is made, without a password: set one with \password, and put it into the role's secret. With
-- -v iam=true the roles may log in with RDS IAM authentication instead.

\set ON_ERROR_STOP on
\if :{?schema} \else \set schema public \endif
\if :{?table} \else \set table outbox_events \endif
\if :{?control} \else \set control :table _control \endif
\if :{?dispatcher} \else \set dispatcher outbox_dispatcher \endif
\if :{?operator} \else \set operator outbox_operator \endif
\if :{?iam} \else \set iam false \endif

-- Each of the two must be there; else one sentence, and nothing is done.
select format('do $do$ begin raise exception using message = %L; end $do$',
              format('there is no table %I.%I here: give -v schema=... and -v table=..., or run operator migrate first', :'schema', name))
from (values (:'table'), (:'control')) as wanted (name)
where to_regclass(format('%I.%I', :'schema', name)) is null \gexec

-- One transaction: who works meanwhile never sees the moment between revoke and grant.
begin;

select format('create role %I login', name) from (values (:'dispatcher'), (:'operator')) as wanted (name)
where not exists (select from pg_roles where rolname = name) \gexec
\if :iam
    grant rds_iam to :"dispatcher", :"operator";
\endif

grant connect on database :"DBNAME" to :"dispatcher", :"operator";
grant usage on schema :"schema" to :"dispatcher", :"operator";

revoke all on :"schema".:"table", :"schema".:"control" from :"dispatcher", :"operator";

-- The dispatcher claims and records; it can neither add an event nor delete one, and it only reads whether it is paused.
grant select, update on :"schema".:"table" to :"dispatcher";
grant select on :"schema".:"control" to :"dispatcher";

-- The operator replays, cancels and prunes, and it pauses. It cannot add an event either.
grant select, update, delete on :"schema".:"table" to :"operator";
grant select, insert, update on :"schema".:"control" to :"operator";

commit;
