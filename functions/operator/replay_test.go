package main

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/n8n"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/secret"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// Ten thousand failed events are replayed while a dispatcher runs and the service
// goes on writing: each goes out once, in its turn, and nothing else is touched.
func TestReplayOfTenThousandWhileADispatcherRuns(t *testing.T) {
	t.Parallel()
	const replayed, fresh, rate = 10_000, 500, 4000
	b := newBench(t)
	b.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json, delivery_status, attempts, last_error, last_error_code)
		select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'order.placed', now() - interval '1 day' + n * interval '1 second', '` + payload + `',
		'failed', 100, 'HTTP 503', 'connectionError' from generate_series(1, 10000) n`)
	b.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json, delivery_status, attempts, last_error_code)
		select gen_random_uuid(), 'order.placed', now(), '{}', 'failed', 100, 'malformedPayload' from generate_series(1, 50) n`)
	server := n8ntest.New(t)
	server.ForgetBodies()
	store, err := postgres.Open(config.Database{URL: b.url, Table: config.Table{Name: "outbox_events"}}, &postgres.Connector{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	target, _ := url.Parse(server.URL())
	dispatcher := &cycle.Dispatcher{
		Settings: cycle.Settings{
			Enabled: true, HTTPTimeout: 5 * time.Second, Lease: time.Minute, MaxBodyBytes: 15 << 20,
			Policy: outbox.Policy{MaxAttempts: 100, BackoffCap: time.Minute}, ClaimLimit: 500, ReclaimLimit: 500, ClaimBytes: 32 << 20,
			Concurrency: 20, MaxLostLeases: 5,
		},
		Store: store, Webhook: n8n.New(n8n.Options{URL: target, Timeout: 5 * time.Second, Connections: 20}),
		Tokens: secret.Static("token"), Observer: cycle.Discard{}, Pacer: cycle.NewPacer(),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	began := time.Now()
	var work sync.WaitGroup
	work.Go(func() {
		for done := 0; done < replayed+fresh && ctx.Err() == nil; {
			r, err := dispatcher.Run(ctx, cycle.Request{})
			if err != nil {
				t.Error(err)
				return
			}
			if r.Lost+r.Unrecorded+r.Retried+r.Failed > 0 {
				t.Errorf("%+v", r)
				return
			}
			done += r.Succeeded
			if r.Claimed == 0 {
				time.Sleep(20 * time.Millisecond) // the next tick
			}
		}
	})
	b.run("replay", "--code", "connectionError", "--limit", "10000", "--rate", "4000", "--yes").want(0, "replayed: 10,000 of 10,000 events", `"phase":"begin"`)
	b.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select gen_random_uuid(), 'order.placed', now(), '` + payload + `' from generate_series(1, 500) n`)
	work.Wait()

	if got := b.value(`select count(*) filter (where delivery_status = 'succeeded') || ' ' || count(*) filter (where delivery_status = 'failed') from outbox_events`); got != "10500 50" {
		t.Errorf("succeeded and failed: %s", got)
	}
	if got := b.value(`select count(*) from outbox_events where attempts = 101 and attempts_base = 100 and delivery_status = 'succeeded'`); got != "10000" {
		t.Errorf("%s replayed events have one attempt on top of their history", got)
	}
	for id, posts := range server.Counts() {
		if posts != 1 {
			t.Errorf("event %s was posted %d times", id, posts)
		}
	}
	// The last one is not due before its turn, whatever the dispatcher could do.
	if took, least := time.Since(began), time.Duration(float64(replayed)/rate*float64(time.Second)); took < least-time.Second/2 {
		t.Errorf("n8n got all of them within %v; at that rate they take %v", took, least)
	}
}
