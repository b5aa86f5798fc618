-- History: every change of a row, so that what became of an event can be told
-- from the outside. The trigger also refuses what may never happen.
create table history (
    event_id uuid not null,
    was      text not null,
    became   text not null,
    attempt  boolean not null,  -- an attempt was counted
    code     text,              -- last_error_code afterwards
    lease    boolean not null   -- a lease was lost
);
create index on history (event_id);
create function note() returns trigger language plpgsql as $$
begin
    if new.attempts not in (old.attempts, old.attempts + 1) then
        raise exception 'attempts went from % to %', old.attempts, new.attempts;
    end if;
    if old.delivery_status in ('succeeded', 'failed') and new is distinct from old then
        raise exception 'a row that was % changed', old.delivery_status;
    end if;
    insert into history values (new.event_id, old.delivery_status, new.delivery_status, new.attempts > old.attempts, new.last_error_code,
        (new.lost_leases, new.lost_leases_at) is distinct from (old.lost_leases, old.lost_leases_at));
    return new;
end $$;
create trigger note before update on outbox_events for each row execute function note();
