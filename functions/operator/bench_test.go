package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/testkit/pgtest"
)

func TestMain(m *testing.M) {
	// What this machine has set is not what a test means.
	for _, name := range []string{"DATABASE_URL", "NO_COLOR", "LOG_LEVEL", "HTTPS_PROXY", "HTTP_PROXY", "SUDO_USER"} {
		_ = os.Unsetenv(name)
	}
	pgtest.Main(m)
}

// bench is a database and somebody who works on it with the command line.
type bench struct {
	t        *testing.T
	url      string
	db       *pgx.Conn
	env      map[string]string
	terminal bool   // somebody sits there ...
	answer   string // ... and says this
}

func migrated(ctx context.Context, url string) error {
	s, err := postgres.Open(config.Database{URL: url, Table: config.Table{Name: "outbox_events"}}, &postgres.Connector{})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx, func(string) {})
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, url: pgtest.NewFrom(t, migrated)}
	b.db = pgtest.Conn(t, b.url)
	b.env = map[string]string{"DATABASE_URL": b.url}
	return b
}

func (b *bench) exec(sql string) {
	b.t.Helper()
	if _, err := b.db.PgConn().Exec(b.t.Context(), sql).ReadAll(); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

func (b *bench) value(sql string) (v string) {
	b.t.Helper()
	if err := b.db.QueryRow(b.t.Context(), "select coalesce(("+sql+")::text, 'null')").Scan(&v); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func eventID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

const payload = `{"correlation_id": "secret of the customer", "aggregate": {"type": "order", "id": 7}, "data": {"n": 1.50}}`

// put inserts event n with these values of columns.
func (b *bench) put(n int, status string, more ...string) {
	b.t.Helper()
	names, values := "", ""
	for i := 0; i < len(more); i += 2 {
		names, values = names+", "+more[i], values+", "+more[i+1]
	}
	if !strings.Contains(names, "occurred_at") {
		names, values = names+", occurred_at", values+", now() - interval '1 hour'"
	}
	b.exec("insert into outbox_events (event_id, event_type, payload_json, delivery_status" + names + ") values ('" + eventID(n) + "', 'order.placed', '" + payload + "', '" + status + "'" + values + ")")
}

// states returns the statuses of events 1, 2, 3, ...
func (b *bench) states() string {
	b.t.Helper()
	return b.value("select string_agg(delivery_status, ' ' order by event_id) from outbox_events")
}

// outcome of one command.
type outcome struct {
	t        *testing.T
	code     int
	out, err string
}

// run executes one command line, in this process.
func (b *bench) run(args ...string) outcome {
	b.t.Helper()
	var out, errs bytes.Buffer
	term := newTerminal(strings.NewReader(b.answer), &out, &errs, b.lookup, func(name string) string { return b.env[name] })
	term.asks = b.terminal
	code := term.run(b.t.Context(), args)
	return outcome{b.t, code, out.String(), errs.String()}
}

func (b *bench) lookup(name string) (string, bool) {
	v, ok := b.env[name]
	return v, ok
}

// want checks the exit status and what was written.
func (o outcome) want(code int, out, errs string) outcome {
	o.t.Helper()
	if o.code != code || !strings.Contains(o.out, out) || !strings.Contains(o.err, errs) {
		o.t.Errorf("exit status %d, stdout\n%s\nstderr\n%s\nwant %d, stdout that holds %q, stderr that holds %q", o.code, o.out, o.err, code, out, errs)
	}
	return o
}

// json decodes stdout.
func (o outcome) json() map[string]any {
	o.t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(o.out), &v); err != nil {
		o.t.Fatalf("stdout is no JSON object: %v\n%s", err, o.out)
	}
	return v
}

// audit returns the lines of the audit.
func (o outcome) audit() (lines []map[string]any) {
	o.t.Helper()
	dec := json.NewDecoder(strings.NewReader(o.err[max(strings.Index(o.err, "{"), 0):]))
	for {
		var line map[string]any
		if err := dec.Decode(&line); err != nil {
			if err != io.EOF && len(lines) == 0 {
				o.t.Errorf("no audit in\n%s", o.err)
			}
			return lines
		}
		if line["msg"] == "audit" {
			lines = append(lines, line)
		}
	}
}
