"""grants.sql on a real Postgres: each role can do what it must, and nothing else."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from stack import ROOT


def binaries() -> Path:
    """Of the newest Postgres there is. None is a failure and no reason to skip."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name)) or [Path(p).parent for p in [shutil.which("postgres")] if p]
    assert found, "there is no Postgres on this machine (Debian: apt-get install postgresql)"
    return found[-1]


# Postgres refuses to run as root.
AS_SOMEBODY = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}


class Server:
    def __init__(self, folder: Path):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.folder = folder
        data = str(folder / "data")
        subprocess.run([binaries() / "initdb", "-D", data, "-U", "owner", "-A", "trust", "--no-sync"], check=True, capture_output=True, cwd=folder, **AS_SOMEBODY)
        self.process = subprocess.Popen(
            [binaries() / "postgres", "-D", data, "-p", str(self.port), "-k", str(folder), "-c", "listen_addresses=", "-c", "fsync=off"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **AS_SOMEBODY,
        )
        for _ in range(200):
            if self.psql("select 1", check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise AssertionError("Postgres did not start")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)

    def psql(self, sql: str = "", *args: str, database="postgres", role="owner", check=True):
        command = [str(binaries() / "psql"), "-X", "-A", "-t", "-q", "-h", str(self.folder), "-p", str(self.port), "-U", role, "-d", database, "-v", "ON_ERROR_STOP=1"]
        command += ["-c", sql] if sql else []
        done = subprocess.run([*command, *args], capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr
        return done

    def grant(self, *variables: str, database: str, check=True):
        settings = [x for v in variables for x in ("-v", v)]
        return self.psql("", *settings, "-f", str(ROOT / "infra/grants.sql"), database=database, check=check)


@pytest.fixture(scope="module")
def server():
    folder = Path(tempfile.mkdtemp(prefix="grants-"))  # pytest's own is closed to others than root
    if AS_SOMEBODY:
        shutil.chown(folder, "nobody")
    server = Server(folder)
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def database(server, request):
    name = f"d{abs(hash(request.node.name))}"
    server.psql(f"create database {name}")
    yield name
    server.psql(f"drop database {name} with (force)")
    for role in server.psql("select rolname from pg_roles where rolname !~ '^pg_' and rolname <> 'owner'").stdout.splitlines():
        server.psql(f'drop role "{role}"')


def make_tables(server, database, table="outbox_events", control="outbox_events_control", schema="public"):
    server.psql(
        f"""create schema if not exists "{schema}";
            create table "{schema}"."{table}" (event_id int primary key, delivery_status text not null default 'pending');
            create table "{schema}"."{control}" (only_row boolean primary key default true, paused boolean not null default false);
            create table "{schema}".orders (id int);
            insert into "{schema}"."{table}" values (1), (2)""",
        database=database,
    )


CLAIM = "update outbox_events set delivery_status = 'delivering' where event_id in (select event_id from outbox_events for update skip locked)"
PAUSE = "insert into outbox_events_control (paused) values (true) on conflict (only_row) do update set paused = excluded.paused"


@pytest.mark.parametrize("role, allowed, refused", [
    ("outbox_dispatcher",
     ["select * from outbox_events", CLAIM, "select paused from outbox_events_control"],
     ["insert into outbox_events values (3)", "delete from outbox_events", "truncate outbox_events", PAUSE,
      "update outbox_events_control set paused = true", "delete from outbox_events_control", "select * from orders",
      "create table mine (id int)", "alter table outbox_events add column x int"]),
    ("outbox_operator",
     ["select * from outbox_events", CLAIM, "delete from outbox_events where event_id = 2", PAUSE, PAUSE, "select * from outbox_events_control"],
     ["insert into outbox_events values (3)", "truncate outbox_events", "delete from outbox_events_control", "select * from orders",
      "create table mine (id int)", "alter table outbox_events add column x int"]),
])
def test_each_role_can_do_what_it_must_and_no_more(server, database, role, allowed, refused):
    make_tables(server, database)
    server.grant(database=database)
    server.grant(database=database)  # again, without effect
    for sql in allowed:
        server.psql(sql, database=database, role=role)
    for sql in refused:
        done = server.psql(sql, database=database, role=role, check=False)
        assert "permission denied" in done.stderr or "must be owner" in done.stderr, f"{role}: {sql}: {done.stderr or 'allowed'}"


def test_takes_back_what_was_granted_by_hand(server, database):
    make_tables(server, database)
    server.psql("create role outbox_dispatcher login; grant all on outbox_events, outbox_events_control to outbox_dispatcher", database=database)
    server.grant(database=database)
    rights = server.psql("select table_name, string_agg(privilege_type, ' ' order by privilege_type) from information_schema.role_table_grants where grantee = 'outbox_dispatcher' group by 1 order by 1", database=database)
    assert rights.stdout.split("\n")[:2] == ["outbox_events|SELECT UPDATE", "outbox_events_control|SELECT"]


def test_names_that_need_quotes(server, database):
    make_tables(server, database, table='Out"Box Events'.replace('"', '""'), control='Out"Box Events_control'.replace('"', '""'), schema="Sales")
    server.grant("schema=Sales", 'table=Out"Box Events', "dispatcher=The Dispatcher", "operator=operator-2", database=database)
    server.psql('select * from "Sales"."Out""Box Events"', database=database, role="The Dispatcher")
    server.psql('delete from "Sales"."Out""Box Events"', database=database, role="operator-2")
    assert server.psql('delete from "Sales"."Out""Box Events"', database=database, role="The Dispatcher", check=False).returncode != 0


def test_iam_authentication(server, database):
    make_tables(server, database)
    server.psql("create role rds_iam", database=database)
    server.grant("iam=true", database=database)
    assert server.psql("select pg_has_role('outbox_dispatcher', 'rds_iam', 'member') and pg_has_role('outbox_operator', 'rds_iam', 'member')").stdout.strip() == "t"


@pytest.mark.parametrize("missing", ["outbox_events", "outbox_events_control"])
def test_a_missing_table_is_named_and_nothing_is_done(server, database, missing):
    make_tables(server, database)
    server.psql(f"drop table {missing}", database=database)
    done = server.grant(database=database, check=False)
    assert done.returncode != 0 and f"there is no table public.{missing} here" in done.stderr and "operator migrate" in done.stderr
    assert server.psql("select count(*) from pg_roles where rolname like 'outbox%'").stdout.strip() == "0"
