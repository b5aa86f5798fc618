package main_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/testkit/lambdatest"
	"outbox-dispatcher/internal/testkit/n8ntest"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// A VPC without a way to Secrets Manager: the error comes long before the function is
// killed, and says where to look.
func TestASecretsManagerThatNeverAnswersIsAnErrorInTime(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, and nobody reads
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	p := newPlace(t)
	p.insert(t, 3)
	f := lambdatest.Start(t, p.path, p.env("N8N_WEBHOOK_TRIGGER_TOKEN=", "N8N_TOKEN_SECRET_ID=a-secret", "DATABASE_URL=", "DATABASE_SECRET_ID=a-secret",
		"AWS_ENDPOINT_URL=http://"+silent.Addr().String())...)
	r := f.Invoke(`{}`, time.Minute)
	if r.OK || r.Took > 10*time.Second {
		t.Errorf("after %v: %+v", r.Took, r)
	}
	for _, want := range []string{"a-secret", "Secrets Manager did not answer in time", "VPC", `"errorType":"SecretError"`} {
		if !strings.Contains(r.Body, want) {
			t.Errorf("%q is not in %s", want, r.Body)
		}
	}
	if !strings.Contains(f.Output(), `"CloudWatchMetrics"`) {
		t.Errorf("no metrics:\n%s", f.Output())
	}
	if n := p.count(t, `delivery_status = 'pending' and not payload_json ? '_delivery_claim_token'`); n != 3 {
		t.Errorf("%d of 3 events are as they were", n)
	}
}

// Whatever keeps a POST from its answer, of the URL the host is told and nothing else.
func TestAFaultTellsNothingOfTheURLButItsHost(t *testing.T) {
	t.Parallel()
	silent := n8ntest.New(t)
	silent.ScriptAll(n8ntest.Answer{Close: n8ntest.Never})
	unknown := strings.Repeat("x", 64) + ".example" // no resolver takes it
	for name, c := range map[string]struct{ scheme, host, want string }{
		"Refused":    {"https", "127.0.0.1:1", "connection refused"},
		"DNSFailure": {"https", unknown, "DNS"},
		"Timeout":    {"http", silent.Address(), "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, xray := newPlace(t), newDaemon(t)
			p.insert(t, 2)
			f := lambdatest.Start(t, p.path, p.env("N8N_WEBHOOK_URL="+c.scheme+"://bot:hunter2@"+c.host+"/webhook/4f9c-hook?token=abc1",
				"N8N_HTTP_TIMEOUT_SECONDS=0.5", "LOG_LEVEL=debug", "AWS_XRAY_DAEMON_ADDRESS="+xray.address)...)
			r := f.Invoke(`{}`, 20*time.Second)
			if got := report(t, r.Body); got.Retried != 2 {
				t.Errorf("%+v", r)
			}
			var row string
			if err := p.db.QueryRow(t.Context(), `select last_error from outbox_events limit 1`).Scan(&row); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(row, c.host) || !strings.Contains(row, c.want) {
				t.Errorf("last_error is %q, want %q and the host", row, c.want)
			}
			for deadline := time.Now().Add(5 * time.Second); strings.Count(xray.text(), c.want) < 2 && time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond) // datagrams on their way
			}
			all := strings.Join([]string{row, r.Body, f.Output(), xray.text()}, "\n")
			for _, secret := range []string{"hunter2", "4f9c-hook", "abc1", "a-known-token"} {
				if strings.Contains(all, secret) {
					t.Errorf("%q is in %s", secret, all)
				}
			}
			if strings.Count(all, c.want) < 5 { // row, two log lines, two traces
				t.Errorf("%q is not told everywhere:\n%s", c.want, all)
			}
		})
	}
}

// Postgres goes while n8n works on an event, and stays away until the time is up: the
// invocation says so, and nothing of the event is final.
func TestADatabaseThatStaysAwayIsAnErrorAndAMetric(t *testing.T) {
	t.Parallel()
	server, err := throwaway.Start(t.Context(), throwaway.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	if err := migrated(t.Context(), server.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	p := &place{url: server.URL("postgres"), n8n: n8ntest.New(t), path: lambdatest.Build(t, "./functions/dispatcher")}
	connect := func() {
		t.Helper()
		if p.db, err = pgx.Connect(t.Context(), p.url); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.db.Close(context.Background()) })
	}
	connect()
	p.insert(t, 1)
	p.n8n.OnPost(func(post n8ntest.Post) {
		if post.Number == 1 {
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	f := lambdatest.Start(t, p.path, p.env()...)
	r := f.Invoke(`{}`, 6*time.Second)
	if r.OK || r.TimedOut || r.Took > 5500*time.Millisecond || !strings.Contains(r.Body, `"errorType":"UnrecordedError"`) {
		t.Errorf("%+v", r)
	}
	for _, metric := range []string{`"Unrecorded":1`, `"Failed":0`, `"Succeeded":0`} {
		if !strings.Contains(f.Output(), metric) {
			t.Errorf("%s is not in\n%s", metric, f.Output())
		}
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	connect()
	if p.count(t, `delivery_status = 'delivering' and attempts = 0`) != 1 {
		t.Error("the event is not what its claim made it")
	}
	p.exec(t, `update outbox_events set next_attempt_at = now() - interval '1 second'`) // the lease runs out
	if got := report(t, f.Invoke(`{}`, 20*time.Second).Body); got.Reclaimed != 1 || got.Succeeded != 1 {
		t.Errorf("afterwards %+v", got)
	}
	if posts := p.n8n.Posts(); len(posts) != 2 || !bytes.Equal(posts[0].Body, posts[1].Body) {
		t.Errorf("%d POSTs, or not of the same", len(posts))
	}
}
