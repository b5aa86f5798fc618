package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"outbox-dispatcher/internal/testkit/throwaway"
)

// startPostgres returns the URL of a database of its own.
func startPostgres(t *testing.T) string {
	t.Helper()
	server, err := throwaway.Start(t.Context(), throwaway.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL("postgres")
}

func openTable(t *testing.T, g given) *table {
	t.Helper()
	table, err := openGiven(t.Context(), quiet(), g)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.close() })
	return table
}

// quiet is a screen that nobody watches.
func quiet() *screen {
	return newScreen(&bytes.Buffer{}, func(string) string { return "" }, context.CancelFunc(func() {}))
}

// number runs a query that returns one.
func number(t *testing.T, table *table, query string) (n int) {
	t.Helper()
	if err := table.pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func execute(t *testing.T, table *table, statement string) {
	t.Helper()
	if _, err := table.pool.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

const insertForeign = `insert into outbox_events (event_id, event_type, occurred_at, payload_json)
	values ('11111111-2222-4333-8444-555555555555', 'real.event', now(), '{}')`

func TestGivenTable(t *testing.T) {
	t.Parallel()
	url := startPostgres(t)
	g := given{databaseURL: url}

	// The steps build on each other: one database, as a user has it.
	table := openTable(t, g)
	if !table.ours {
		t.Fatal("a missing table is not taken for ours")
	}
	if err := table.prepare(t.Context(), quiet()); err != nil {
		t.Fatal(err)
	}
	want := len(samples())
	if n := number(t, table, "select count(*) from outbox_events"); n != want {
		t.Errorf("%d rows after the first run, want %d", n, want)
	}

	t.Run("SamplesOfAnEarlierRunStartAgain", func(t *testing.T) {
		execute(t, table, "update outbox_events set delivery_status = 'failed', attempts = 77")
		again := openTable(t, g)
		if !again.ours {
			t.Fatal("a table that holds samples alone is not taken for ours")
		}
		if err := again.prepare(t.Context(), quiet()); err != nil {
			t.Fatal(err)
		}
		if n := number(t, again, "select count(*) from outbox_events"); n != want {
			t.Errorf("%d rows after the second run, want %d", n, want)
		}
		if n := number(t, again, "select count(*) from outbox_events where attempts = 77"); n != 0 {
			t.Errorf("%d rows are as the earlier run left them", n)
		}
	})

	t.Run("EventsOfSomebodyElseNeverGoToTheStandIn", func(t *testing.T) {
		execute(t, table, insertForeign)
		_, err := openGiven(t.Context(), quiet(), g)
		if err == nil || !strings.Contains(err.Error(), "set N8N_WEBHOOK_URL") {
			t.Fatalf("err = %v, want one that says what to set", err)
		}
	})

	t.Run("EventsOfSomebodyElseGetNoSamplesBesideThem", func(t *testing.T) {
		execute(t, table, "update outbox_events set attempts = 77")
		yours := openTable(t, given{databaseURL: url, webhookURL: "https://n8n.example/webhook/x"})
		if yours.ours {
			t.Fatal("a table with other events is taken for ours")
		}
		if err := yours.prepare(t.Context(), quiet()); err != nil {
			t.Fatal(err)
		}
		if n := number(t, yours, "select count(*) from outbox_events where attempts = 77"); n != want+1 {
			t.Errorf("%d of %d rows are as they were", n, want+1)
		}
		if len(yours.show) == 0 || len(yours.samples) != 0 {
			t.Errorf("%d rows are shown with %d samples, want some and none", len(yours.show), len(yours.samples))
		}
	})

	t.Run("SomebodyElsesTableIsNotMigrated", func(t *testing.T) {
		execute(t, table, "alter table outbox_events drop column lost_leases")
		_, err := openGiven(t.Context(), quiet(), given{databaseURL: url, webhookURL: "https://n8n.example/webhook/x"})
		if err == nil || !strings.Contains(err.Error(), "lost_leases") {
			t.Fatalf("err = %v, want one that names the column", err)
		}
		if n := number(t, table, "select count(*) from information_schema.columns where table_name = 'outbox_events' and column_name = 'lost_leases'"); n != 0 {
			t.Error("the column was added")
		}
	})

	t.Run("ADatabaseThatIsAwayIsNamed", func(t *testing.T) {
		_, err := openGiven(t.Context(), quiet(), given{databaseURL: "postgres://me:secret@127.0.0.1:1/db"})
		if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1 refuses connections") || strings.Contains(err.Error(), "secret") {
			t.Errorf("err = %v, want a sentence with the address and without the password", err)
		}
	})
}
