-- Control: one row that says whether the dispatcher is paused. The dispatcher
-- reads it with each claim; an operator writes it. No row means running.
create table if not exists {control} (
    only_row   boolean primary key default true check (only_row),
    paused     boolean not null default false,
    reason     text,
    changed_by text not null default session_user,
    changed_at timestamptz not null default now()
)
