package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/testkit/throwaway"
)

func TestMain(m *testing.M) { Main(m) }

func execute(t testing.TB, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func ask[T any](t testing.TB, conn *pgx.Conn, query string) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

const tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"

func TestNew(t *testing.T) {
	t.Parallel()

	t.Run("DatabasesAreEmptyAndApart", func(t *testing.T) {
		t.Parallel()
		one, two := Conn(t, New(t)), Conn(t, New(t))
		execute(t, one, "CREATE TABLE mine ()")
		if got := ask[int](t, two, tables); got != 0 {
			t.Errorf("%d tables in a new database, want none", got)
		}
	})

	t.Run("DropsTheDatabaseUnderAnOpenConnection", func(t *testing.T) {
		t.Parallel()
		var left *pgx.Conn
		var name string
		t.Run("Test", func(t *testing.T) {
			var err error
			if left, err = pgx.Connect(t.Context(), New(t)); err != nil {
				t.Fatal(err)
			}
			name = ask[string](t, left, "SELECT current_database()")
		})
		defer left.Close(t.Context())
		other := Conn(t, New(t))
		if ask[bool](t, other, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = '"+name+"')") {
			t.Errorf("%s is still there", name)
		}
	})
}

var filled int // by fill; it is safe since fill runs once

func fill(ctx context.Context, url string) error {
	filled++
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE TABLE things AS SELECT 'from the template' AS origin")
	return err
}

func fillInVain(context.Context, string) error { return errors.New("no such luck") }

func TestNewFrom(t *testing.T) {
	t.Parallel()

	t.Run("ClonesWhatWasFilledOnce", func(t *testing.T) {
		t.Parallel()
		for range 3 {
			conn := Conn(t, NewFrom(t, fill))
			if got := ask[int](t, conn, "SELECT count(*) FROM things"); got != 1 {
				t.Errorf("%d things, want the one of the template", got)
			}
			execute(t, conn, "INSERT INTO things VALUES ('from a test')")
		}
		if filled != 1 {
			t.Errorf("filled %d times, want once", filled)
		}
	})

	t.Run("FailsEveryTestWhenFillFails", func(t *testing.T) {
		t.Parallel()
		for range 2 {
			if said := fatal(t, func(t testing.TB) { NewFrom(t, fillInVain) }); !strings.Contains(said, "no such luck") {
				t.Errorf("the test failed with %q, want the error of fill", said)
			}
		}
	})
}

// fatal runs a test that is meant to end itself, and returns what it said.
func fatal(t testing.TB, test func(testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	return r.said
}

type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// inAnotherProcess runs tests of this package with other variables.
func inAnotherProcess(t *testing.T, tests string, variables ...string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", tests, "-test.count", "1")
	cmd.Env = append(os.Environ(), variables...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func TestMainWithoutAServerFails(t *testing.T) {
	t.Parallel()
	for name, variables := range map[string][]string{
		"NoBinaries":    {"TEST_DATABASE_URL=", "POSTGRES_BIN=/nowhere"},
		"NobodyAnswers": {"TEST_DATABASE_URL=postgres://postgres@127.0.0.1:1/postgres?connect_timeout=5"},
		"NoURL":         {"TEST_DATABASE_URL=host=localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := inAnotherProcess(t, "^TestNew$", variables...)
			if err == nil || !strings.Contains(output, "pgtest: no database: ") {
				t.Errorf("exit %v, output:\n%s", err, output)
			}
		})
	}
}

func TestMainUsesTheServerOfTheEnvironment(t *testing.T) {
	t.Parallel()
	server, err := throwaway.Start(t.Context(), throwaway.Options{InMemory: true, Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()

	output, err := inAnotherProcess(t, "^TestNew(From)?$", "TEST_DATABASE_URL="+server.URL("postgres"), "POSTGRES_BIN=/nowhere")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	conn := Conn(t, server.URL("postgres"))
	if left := ask[int](t, conn, "SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'"); left != 0 {
		t.Errorf("%d databases left behind", left)
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		name, err := shared.create(b.Context(), "template0")
		if err == nil {
			err = shared.drop(b.Context(), name)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
