package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/testkit/lambdatest"
	"outbox-dispatcher/internal/testkit/n8ntest"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// Faults that people met in programs of this kind, played with the real bootstrap.
// What one package can show alone is tested there.

// shared is the Postgres of these tests; one at a time has its table.
var shared struct {
	sync.Mutex
	scope
	server *throwaway.Server
}

// withPlace gives a test the table, an n8n and a function.
func withPlace(t *testing.T, lease time.Duration, settings []string, f func(p *place)) {
	t.Helper()
	bootstrap := lambdatest.Build(t, "./functions/dispatcher")
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		var err error
		if shared.server, err = startPostgres(context.Background(), &shared.scope); err != nil {
			t.Fatal(err)
		}
	}
	err := within(func(s *scope) error {
		p, err := newPlace(s, shared.server, bootstrap, lease, settings...)
		if err == nil {
			f(p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func eventID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask returns the one value that a query yields.
func ask[T any](t *testing.T, p *place, sql string, args ...any) (v T) {
	t.Helper()
	must(t, p.session(func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, sql, args...).Scan(&v) }))
	return v
}

// invoke does one invocation and returns its report.
func invoke(t *testing.T, f *lambdatest.Function, event string) (r cycle.Report) {
	t.Helper()
	result := f.Invoke(event, enough)
	if err := json.Unmarshal([]byte(result.Body), &r); !result.OK || err != nil {
		t.Fatalf("the invocation ended with %+v", result)
	}
	return r
}

// settled reports what does not hold at the end.
func settled(t *testing.T, p *place, events int) {
	t.Helper()
	fates, err := p.fates()
	must(t, err)
	for _, problem := range judge(fates, events, 0).problems {
		t.Error(problem)
	}
}

// A batch shares one lease, which the slow answers of n8n outlast. What cannot be
// sent within it is given back, and a second instance that comes when it has run
// out finds nothing that is still out.
func TestABatchThatOutlastsItsLease(t *testing.T) {
	t.Parallel()
	const post = 2 * time.Second
	withPlace(t, post+2*time.Second, []string{"N8N_HTTP_TIMEOUT_SECONDS=2"}, func(p *place) {
		must(t, p.insert(1, 5))
		p.n8n.SetLatency(1500 * time.Millisecond)
		second := make(chan cycle.Report, 1)
		time.AfterFunc(4500*time.Millisecond, func() {
			r, _ := p.invoke(p.rival)
			second <- r
		})
		first := invoke(t, p.function, `{}`)
		if r := <-second; first.Succeeded+r.Succeeded == 0 || first.Lost+r.Lost > 0 || first.Succeeded+first.Released != 5 {
			t.Errorf("reports %+v and %+v", first, r)
		}
		p.n8n.SetLatency(0)
		invoke(t, p.function, `{}`)
		if p.n8n.Overlaps() != 0 || p.n8n.Count() != 5 {
			t.Errorf("%d POSTs for 5 events, %d while another of the same was out", p.n8n.Count(), p.n8n.Overlaps())
		}
		settled(t, p, 5)
	})
}

// Three ticks at the same moment, with an event of yesterday: each event goes out
// once.
func TestTicksThatOverlap(t *testing.T) {
	t.Parallel()
	withPlace(t, longLease, []string{"DISPATCH_CLAIM_LIMIT=10"}, func(p *place) {
		must(t, p.insert(1, 100))
		p.n8n.SetLatency(5 * time.Millisecond)
		third := p.start(p.aside, p.postgres.URL("postgres"))
		var all sync.WaitGroup
		for _, f := range []*lambdatest.Function{p.function, p.rival, third} {
			all.Go(func() {
				for range 15 { // a claim comes back short where another holds the rows
					if r := f.Invoke(`{"source":"aws.scheduler","time":"2020-01-01T00:00:00Z"}`, enough); !r.OK {
						t.Errorf("%+v", r)
					}
				}
			})
		}
		all.Wait()
		if p.n8n.Count() != 100 {
			t.Errorf("%d POSTs for 100 events", p.n8n.Count())
		}
		settled(t, p, 100)
	})
}

// A webhook that is not registered yet, then an edge that gave up while the
// workflow went on, then an acknowledgement: three attempts of the same POST.
func TestErrorPagesAreAttempts(t *testing.T) {
	t.Parallel()
	withPlace(t, longLease, nil, func(p *place) {
		must(t, p.insert(1, 1))
		page := "<html>\r\n<head>\x01\x02<title>\nA timeout occurred</title>" + strings.Repeat("<p>524</p>\r\n", 30_000)
		p.n8n.Script(eventID(1),
			n8ntest.Answer{Status: 404, Body: `{"code":404,"message":"The requested webhook is not registered."}`, Times: 1},
			n8ntest.Answer{Status: 524, Body: page, Header: map[string]string{"Content-Type": "text/html"}, Times: 1})
		for _, status := range []string{"404", "524"} {
			invoke(t, p.function, `{}`)
			text := ask[string](t, p, `select delivery_status || ' ' || last_error_code || ' ' || last_error from outbox_events`)
			if !strings.HasPrefix(text, "pending connectionError HTTP "+status) || len([]rune(text)) > 2030 || strings.ContainsAny(text, "\r\n\x01") {
				t.Errorf("after the %s the row says %q", status, text)
			}
			must(t, p.timePasses())
		}
		invoke(t, p.function, `{}`)
		posts := p.n8n.Posts()
		if len(posts) != 3 || !bytes.Equal(posts[0].Body, posts[1].Body) || !bytes.Equal(posts[0].Body, posts[2].Body) {
			t.Errorf("%d POSTs, or not the same", len(posts))
		}
		settled(t, p, 1)
	})
}

// An answer without end, and ten megabytes that unpack to ten gigabytes: a failed
// attempt each, some megabytes of memory, and the others go out.
func TestAnswersWithoutEnd(t *testing.T) {
	t.Parallel()
	withPlace(t, longLease, nil, func(p *place) {
		must(t, p.insert(1, 20))
		member := n8ntest.Gzip(make([]byte, 16<<20))
		p.n8n.Script(eventID(3), n8ntest.Answer{Body: `{"ok":true,"pad":"` + strings.Repeat("a", 64<<10), Repeat: 1 << 30})
		p.n8n.Script(eventID(5), n8ntest.Answer{Body: string(member), Repeat: 10 << 30 / (16 << 20), Header: map[string]string{"Content-Encoding": "gzip"}})
		invoke(t, p.function, `{"dry_run":true}`)
		before := p.function.PeakMemory()
		if r := invoke(t, p.function, `{}`); r.Succeeded != 18 || r.Retried != 2 {
			t.Errorf("report %+v", r)
		}
		if rise := p.function.PeakMemory() - before; rise > 20<<20 {
			t.Errorf("it took %d MB more", rise>>20)
		}
		for _, n := range []int{3, 5} {
			if text := ask[string](t, p, `select last_error from outbox_events where event_id = $1`, eventID(n)); !strings.Contains(text, "too large") {
				t.Errorf("event %d: %q", n, text)
			}
		}
	})
}

// A server that refuses a large body before it has read it, by a 413 and the end of
// the connection: what the client sees is a matter of luck, what the row says is
// not.
func TestAnEarlyRefusalOfALargeBody(t *testing.T) {
	t.Parallel()
	refusing := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		if r.ContentLength > 1<<20 {
			fmt.Fprint(conn, "HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = refusing.Serve(listener) }()
	t.Cleanup(func() { refusing.Close() })
	const large, rounds = 10, 2
	settings := []string{"N8N_WEBHOOK_URL=http://" + listener.Addr().String(), "N8N_MAX_ATTEMPTS=2"}
	withPlace(t, longLease, settings, func(p *place) {
		must(t, p.insert(1, 5)) // small ones, which fail in their own way
		must(t, p.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
			select gen_random_uuid(), 'large', now(), jsonb_build_object('correlation_id', 'c', 'aggregate', null, 'data', repeat('x', 4000000)) from generate_series(1, $1::int)`, large))
		for range rounds * 3 { // three refusals in a row that look like no answer end an invocation
			invoke(t, p.function, `{}`)
			must(t, p.timePasses())
		}
		if n := ask[int](t, p, `select count(*)::int from outbox_events where delivery_status = 'failed' and attempts = 2 and last_error_code = 'connectionError' and last_error <> ''`); n != large+5 {
			t.Errorf("%d of %d events came to their end", n, large+5)
		}
	})
}

// Delays do not overflow, whatever the attempts, and follow the database's clock.
func TestDelaysOfManyAttempts(t *testing.T) {
	t.Parallel()
	withPlace(t, longLease, []string{"N8N_MAX_ATTEMPTS=2000"}, func(p *place) {
		cases := []struct {
			attempts   int
			retryAfter string
			want       float64 // seconds
		}{
			{0, "", 2}, {3, "", 16}, {5, "", 60}, {6, "", 60}, {34, "", 60}, {62, "", 60}, {63, "", 60}, {1100, "", 60},
			{0, "120", 120}, {5, "1", 60}, {0, "Thu, 01 Jan 2099 00:00:00 GMT", 3600}, {0, "-1", 2}, {0, "abc", 2},
		}
		for i, c := range cases {
			must(t, p.exec(`truncate outbox_events`))
			must(t, p.insert(i+1, i+1))
			must(t, p.exec(`update outbox_events set attempts = 1`)) // the history allows one at a time
			must(t, p.exec(`alter table outbox_events disable trigger note`))
			must(t, p.exec(`update outbox_events set attempts = $1`, c.attempts))
			must(t, p.exec(`alter table outbox_events enable trigger note`))
			answer := n8ntest.Answer{Status: 500}
			if c.retryAfter != "" {
				answer = n8ntest.Answer{Status: 429, Header: map[string]string{"Retry-After": c.retryAfter}}
			}
			p.n8n.Script(eventID(i+1), answer)
			invoke(t, p.function, `{}`)
			got := ask[float64](t, p, `select extract(epoch from next_attempt_at - clock_timestamp())::float8 from outbox_events where attempts = $1`, c.attempts+1)
			if got > c.want || got < c.want-10 {
				t.Errorf("after %d attempts and Retry-After %q the next one is in %.1f s, want %v", c.attempts+1, c.retryAfter, got, c.want)
			}
		}
	})
}

// A producer whose transaction lasts long commits an event that is older than what
// has gone out already: it goes out all the same.
func TestAnOlderEventThatCommitsLate(t *testing.T) {
	t.Parallel()
	withPlace(t, longLease, nil, func(p *place) {
		must(t, p.session(func(ctx context.Context, conn *pgx.Conn) error {
			tx, err := conn.Begin(ctx)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `insert into outbox_events (event_id, event_type, occurred_at, payload_json)
				values ($1, 't', now() - interval '1 day', '{"correlation_id": 1, "aggregate": 2, "data": 3}')`, eventID(1)); err != nil {
				return err
			}
			if err := p.insert(2, 5); err != nil {
				return err
			}
			if r := invoke(t, p.function, `{}`); r.Succeeded != 4 {
				t.Errorf("report %+v", r)
			}
			return tx.Commit(ctx)
		}))
		if r := invoke(t, p.function, `{}`); r.Succeeded != 1 {
			t.Errorf("report %+v", r)
		}
		settled(t, p, 5)
	})
}
