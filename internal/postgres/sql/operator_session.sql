-- Session: what a doctor wants to know of a session.
--
-- Returns  role, whether it is a superuser, database, version, whether the server
-- takes no writes, the time.
select session_user::text,
       coalesce((select rolsuper from pg_roles where rolname = session_user), false)::text,
       current_database()::text,
       current_setting('server_version'),
       (pg_is_in_recovery() or current_setting('transaction_read_only') = 'on')::text,
       clock_timestamp()::text
