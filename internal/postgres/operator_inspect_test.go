package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/operator"
)

func TestSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s, err := d.store.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Role == "" || !s.Superuser || s.Database == "" || s.Version == "" || s.ReadOnly || s.TLS != "" || !s.Local || s.Ahead.Abs() > 5*time.Second || s.RoundTrip <= 0 {
		t.Errorf("%+v", s)
	}
	d.exec("alter role current_user in database " + d.value("select quote_ident(current_database())") + " set default_transaction_read_only = on")
	if s, err = d.open(d.url).Session(t.Context()); err != nil || !s.ReadOnly {
		t.Errorf("%+v, %v", s, err)
	}
}

// as makes a role with these grants and returns a store that logs in as it.
func (d *desk) as(role string, grants ...string) (name string) {
	d.t.Helper()
	name = role + "_" + d.value("select current_database()")
	d.exec("create role " + name + " login password 'pw'")
	d.t.Cleanup(func() {
		ctx := context.Background() // the test's own has ended by now
		c, err := pgx.Connect(ctx, d.url)
		if err == nil {
			_, err = c.Exec(ctx, "drop owned by "+name+"; drop role "+name)
			_ = c.Close(ctx)
		}
		if err != nil {
			d.t.Error(err)
		}
	})
	for _, g := range grants {
		d.exec(strings.ReplaceAll(g, "{role}", name))
	}
	return name
}

func (d *desk) login(name string) string {
	u, err := url.Parse(d.url)
	if err != nil {
		d.t.Fatal(err)
	}
	u.User = url.UserPassword(name, "pw")
	return u.String()
}

func TestInspect(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	dispatcher := d.as("dispatcher", "grant select, update on outbox_events to {role}", "grant select on outbox_events_control to {role}")
	people := d.as("people", "grant select, update, delete on outbox_events to {role}", "grant select, insert, update on outbox_events_control to {role}")
	got, err := d.open(d.login(dispatcher)).Inspect(t.Context(), []string{dispatcher, people, "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	if !got.Exists || !got.Ordinary || len(got.Problems)+len(got.Missing) > 0 || !got.HasControl || got.IndexesUnknown != "" || len(got.Indexes) != 5 || len(got.Rights) != 2 {
		t.Errorf("%+v", got)
	}
	for _, i := range got.Indexes {
		if !i.There || !i.Valid {
			t.Errorf("%+v", i)
		}
	}
	want := map[string]operator.Rights{
		dispatcher: {Role: dispatcher, Schema: true, Select: true, Update: true, ReadsControl: true},
		people:     {Role: people, Schema: true, Select: true, Update: true, Delete: true, ReadsControl: true, WritesControl: true},
	}
	for _, r := range got.Rights {
		if r != want[r.Role] {
			t.Errorf("%+v", r)
		}
	}
}

func TestInspectFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, sql, want string }{
		{"NoTable", "drop table outbox_events", "false false [] [] false []"},
		{"Partitioned", "drop table outbox_events; create table outbox_events (event_id uuid) partition by hash (event_id)", "true false"},
		{"AMissingColumn", "alter table outbox_events drop column attempts cascade", "true true [it lacks the column attempts] [] true []"},
		{"AWrongType", "alter table outbox_events alter column event_type type bytea using event_type::bytea", "true true [the column event_type of \"outbox_events\" has the type bytea; it must be text or character varying]"},
		{"OurColumn", "alter table outbox_events drop column attempts_base", "true true [] [attempts_base] true"},
		{"NoControl", "drop table outbox_events_control", "true true [] [] false"},
		{"AnIndexIsMissing", "drop index outbox_events_dispatch_lease", "{outbox_events_dispatch_lease false false}"},
		{"AnIndexIsInvalid", "update pg_index set indisvalid = false where indexrelid = 'outbox_events_dispatch_due'::regclass", "{outbox_events_dispatch_due true false}"},
		{"AnIndexOfAnotherName", "alter index outbox_events_dispatch_due rename to mine", "{mine true true}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.exec(c.sql)
			i, err := d.store.Inspect(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(i.Exists, i.Ordinary, i.Problems, i.Missing, i.HasControl, i.Indexes, i.IndexesUnknown); !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}

	t.Run("WithoutTheRightToCompare", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.exec("revoke temporary on database " + d.value("select quote_ident(current_database())") + " from public")
		role := d.as("poor", "grant select, update on outbox_events to {role}")
		i, err := d.open(d.login(role)).Inspect(t.Context(), []string{role})
		if err != nil || i.IndexesUnknown == "" {
			t.Errorf("%+v, %v", i, err)
		}
	})
}
