package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// New makes an empty database for the test and returns its URL, for a
// superuser. The database is dropped when the test ends, open connections or not.
func New(t testing.TB) string {
	t.Helper()
	return create(t, "template0")
}

// NewFrom is New with a database in which fill was run. fill is run once for
// the test process, on a database that is then cloned for each test; it must
// close its connections. It is told from another fill by its code: let it be a
// plain function, not a closure.
func NewFrom(t testing.TB, fill func(ctx context.Context, url string) error) string {
	t.Helper()
	template, err := shared.template(fill)
	if err != nil {
		t.Fatalf("pgtest: fill the template database: %v", err)
	}
	return create(t, template)
}

func create(t testing.TB, template string) string {
	t.Helper()
	name, err := shared.create(t.Context(), template)
	if err != nil {
		t.Fatalf("pgtest: no database: %v", err)
	}
	t.Cleanup(func() {
		if err := shared.drop(context.Background(), name); err != nil {
			t.Errorf("pgtest: drop the database: %v", err)
		}
	})
	return shared.url(name)
}

// Conn connects to url, which may be any connection string, until the test ends.
func Conn(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx) // a test may have cut it on purpose
	})
	return conn
}
