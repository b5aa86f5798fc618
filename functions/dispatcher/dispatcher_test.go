package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/testkit/lambdatest"
	"outbox-dispatcher/internal/testkit/n8ntest"
	"outbox-dispatcher/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, lambdatest.Clean) }

func migrated(ctx context.Context, url string) error {
	s, err := postgres.Open(config.Database{URL: url, Table: config.Table{Name: "outbox_events"}}, &postgres.Connector{})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx, func(string) {})
}

// place is what a function needs around it.
type place struct {
	url  string
	db   *pgx.Conn
	n8n  *n8ntest.Server
	path string // of the bootstrap
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{url: pgtest.NewFrom(t, migrated), n8n: n8ntest.New(t), path: lambdatest.Build(t, "./functions/dispatcher")}
	p.db = pgtest.Conn(t, p.url)
	p.n8n.RequireToken("a-known-token")
	return p
}

// env is the environment of the function; more overrides it.
func (p *place) env(more ...string) []string {
	return append([]string{
		"DATABASE_URL=" + p.url, "N8N_WEBHOOK_URL=" + p.n8n.URL(), "N8N_WEBHOOK_TRIGGER_TOKEN=a-known-token",
		"N8N_HTTP_TIMEOUT_SECONDS=2", "N8N_DELIVERY_LEASE_SECONDS=60", "METRICS_STACK=test",
	}, more...)
}

func (p *place) insert(t *testing.T, n int) {
	t.Helper()
	p.exec(t, `insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 't', now() - interval '1 hour' + n * interval '1 second',
		       '{"correlation_id": "c", "aggregate": null, "data": {}}' from generate_series(1, $1::int) n`, n)
}

func (p *place) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := p.db.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (p *place) count(t *testing.T, where string) (n int) {
	t.Helper()
	if err := p.db.QueryRow(context.Background(), `select count(*)::int from outbox_events where `+where).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func report(t *testing.T, body string) (r cycle.Report) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("no report: %s", body)
	}
	return r
}

func TestFunction(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	f := lambdatest.Start(t, p.path, p.env()...)
	p.insert(t, 3)

	r := f.Invoke(`{"version":"0","id":"1","detail-type":"Scheduled Event","source":"aws.events","detail":{}}`, 20*time.Second)
	if got := report(t, r.Body); !r.OK || got.Succeeded != 3 || got.Stopped != cycle.Drained {
		t.Errorf("a scheduled event: %+v", r)
	}
	if r = f.Invoke(`{}`, 20*time.Second); !r.OK || report(t, r.Body).Claimed != 0 {
		t.Errorf("{}: %+v", r)
	}
	if r = f.Invoke(`{"dry_run":true}`, 20*time.Second); !r.OK || report(t, r.Body).DryRun == nil {
		t.Errorf("a dry run: %+v", r)
	}
	if r = f.Invoke(`{"max_cycle":0}`, 20*time.Second); r.OK || !strings.Contains(r.Body, `max_cycle`) || !strings.Contains(r.Body, `"errorType":"EventError"`) {
		t.Errorf("an unknown member: %+v", r)
	}
	if strings.Contains(f.Output(), "a-known-token") {
		t.Error("the token is in the output")
	}
	for _, line := range strings.Split(strings.TrimSpace(f.Output()), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line that is no JSON: %s", line)
		}
	}
}

func TestWrongSettingsAreOneErrorThatNamesThemAll(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.insert(t, 1)
	f := lambdatest.Start(t, p.path, p.env("N8N_HTTP_TIMEOUT_SECONDS=soon", "DISPATCH_CONCURRENCY=0")...)
	r := f.Invoke(`{}`, 10*time.Second)
	for _, name := range []string{"N8N_HTTP_TIMEOUT_SECONDS", "DISPATCH_CONCURRENCY", `"errorType":"SettingsError"`} {
		if r.OK || !strings.Contains(r.Body, name) {
			t.Errorf("%s is missing: %+v", name, r)
		}
	}
	if p.count(t, `delivery_status = 'pending'`) != 1 {
		t.Error("the event was touched")
	}
}

// An event at which n8n kills the dispatcher, among fifty good ones: the good ones go
// out, none of them fails, and the killer does after as few POSTs as may be set.
func TestAKillerAmongGoodEvents(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.insert(t, 51)
	f := lambdatest.Start(t, p.path, p.env(fmt.Sprintf("DISPATCH_MAX_LOST_LEASES=%d", cycle.MinLostLeases))...)
	killer := id(26)
	p.n8n.OnPost(func(post n8ntest.Post) {
		if post.EventID == killer {
			f.Kill()
		}
	})
	for range 12 {
		f.Invoke(`{"max_cycles":0}`, 20*time.Second)
		p.exec(t, `update outbox_events set next_attempt_at = now() - interval '1 second' where delivery_status = 'delivering'`)
	}
	if n := p.count(t, `delivery_status = 'succeeded'`); n != 50 {
		t.Errorf("%d of 50 good events went out", n)
	}
	if n := p.count(t, `event_id = '`+killer+`' and delivery_status = 'failed' and last_error_code = 'leaseLostRepeatedly'`); n != 1 {
		t.Error("the killer did not fail")
	}
	if n := p.n8n.PostsOf(killer); n > cycle.MinLostLeases {
		t.Errorf("the killer was sent %d times", n)
	}
}

// An event may ask for more in flight than the setting: connections are used again all
// the same, and the memory stays small.
func TestMemory(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.n8n.ForgetBodies()
	p.exec(t, `insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select gen_random_uuid(), 't', now(), jsonb_build_object('correlation_id', 'c', 'aggregate', null, 'data', repeat('x', 4096)) from generate_series(1, 1000)`)
	f := lambdatest.Start(t, p.path, p.env("DISPATCH_CONCURRENCY=2")...)
	if got := report(t, f.Invoke(`{"max_cycles":0,"concurrency":100}`, 20*time.Second).Body); got.Succeeded != 1000 {
		t.Errorf("report %+v", got)
	}
	if peak := f.PeakMemory(); peak == 0 || peak > 64<<20 {
		t.Errorf("1,000 events of 4 KB took %d MB", peak>>20)
	}
	if n := p.n8n.Connections(); n > 400 {
		t.Errorf("%d connections for 1,000 POSTs, 100 at once", n)
	}
}

func TestLargePayloadsStayWithinTheMemoryOfTheFunction(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.n8n.ForgetBodies()
	const events = 12 // of 15 MB each: 180 MB pass through
	p.exec(t, `insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select gen_random_uuid(), 't', now(), jsonb_build_object('correlation_id', 'c', 'aggregate', null, 'data', repeat('x', 15 * 1000 * 1000)) from generate_series(1, $1::int)`, events)
	f := lambdatest.Start(t, p.path, p.env("N8N_HTTP_TIMEOUT_SECONDS=10", "N8N_DELIVERY_LEASE_SECONDS=180", fmt.Sprintf("DISPATCH_CLAIM_BYTES=%d", cycle.MaxClaimBytes))...)
	if r := f.Invoke(`{"max_cycles":0}`, 120*time.Second); !r.OK || report(t, r.Body).Succeeded != events {
		t.Errorf("result %+v\n%s", r, f.Output())
	}
	if peak := f.PeakMemory(); peak == 0 || peak > 256<<20 {
		t.Errorf("the events took %d MB", peak>>20)
	}
}

// Outside Lambda the program does one invocation: the report on stdout, logs on
// stderr, an exit status.
func TestLocalRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.insert(t, 2)
	run := func(env []string, args ...string) (stdout, stderr string, status int) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, p.path, args...)
		cmd.Env = env
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run() // the exit status tells
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	event := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(event, []byte(`{"claim_limit": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := run(p.env(), "--event", event)
	if got := report(t, stdout); status != 0 || got.Succeeded != 1 || got.Stopped != cycle.CycleLimit {
		t.Errorf("status %d, report %s, stderr %s", status, stdout, stderr)
	}
	stdout, stderr, status = run(p.env("DATABASE_URL=postgres://nobody:hunter2@127.0.0.1:1/x"))
	if status != 1 || stdout != "" || !strings.Contains(stderr, "127.0.0.1:1 refuses connections") || strings.Contains(stderr, "hunter2") {
		t.Errorf("no database: status %d, stdout %q, stderr %s", status, stdout, stderr)
	}
	stdout, stderr, status = run(p.env(), "--event", event+".missing")
	if status != 1 || stdout != "" || !strings.Contains(stderr, "event.json.missing") {
		t.Errorf("no event file: status %d, stderr %s", status, stderr)
	}
	stdout, stderr, status = run(p.env("N8N_HTTP_TIMEOUT_SECONDS=30"), "--timeout", "20s")
	if status != 1 || stdout != "" || !strings.Contains(stderr, "N8N_HTTP_TIMEOUT_SECONDS") {
		t.Errorf("too little time: status %d, stdout %q, stderr %s", status, stdout, stderr)
	}
}

// A server sends bytes behind its answer, and in them what it was sent. net/http
// logs them; nothing of it reaches ours.
func TestAnAnswerWithSomethingBehindItTellsNoSecret(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.insert(t, 3)
	behind := strings.ReplaceAll(n8ntest.Ack, "{{id}}", id(1))
	p.n8n.Script(id(1), n8ntest.Answer{
		Raw:  fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(behind)),
		Body: n8ntest.Ack + "HTTP/1.1 200 a-known-token\r\n",
	})
	f := lambdatest.Start(t, p.path, p.env()...)
	for range 2 {
		f.Invoke(`{}`, 20*time.Second)
	}
	if p.count(t, `delivery_status = 'succeeded'`) != 3 {
		t.Errorf("not all went out:\n%s", f.Output())
	}
	if strings.Contains(f.Output(), "a-known-token") || strings.Contains(f.Output(), "Unsolicited") {
		t.Errorf("the output repeats it:\n%s", f.Output())
	}
}
