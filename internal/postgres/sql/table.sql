-- Table: as the service makes it, with our three columns. Only used where there
-- is none yet.
create table if not exists {table} (
    event_id        uuid primary key,
    event_type      text not null,
    occurred_at     timestamptz not null,
    payload_json    jsonb not null,
    delivery_status text not null default 'pending',  -- pending | delivering | succeeded | failed
    attempts        integer not null default 0,
    next_attempt_at timestamptz,                      -- pending: not before; delivering: end of the lease
    last_error      text,
    last_error_code text,
    external_run_id text,
    lost_leases     integer not null default 0,       -- leases lost in a row ...
    lost_leases_at  integer not null default 0,       -- ... while attempts had this value
    attempts_base   integer not null default 0        -- attempts made before the last replay
)
