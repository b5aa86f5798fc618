package throwaway

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(actAsParent) != "" {
		parent()
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, options Options) *Server {
	t.Helper()
	options.InMemory = true
	options.Log = func(line string) { t.Log(line) }
	s, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func value[T any](t *testing.T, conn *pgx.Conn, query string) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func execute(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// running reports whether a process does anything still; a zombie, which waits
// for whoever adopted it, does not.
func running(t *testing.T, pid int) bool {
	t.Helper()
	// ps exits with 1 where there is no such process.
	state, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return len(state) > 0 && state[0] != 'Z'
}

// eventually waits for what the operating system does in its own time.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 10 s still not: %s", what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestStart(t *testing.T) {
	t.Parallel()

	t.Run("ServersAtTheSameTimeAreIndependent", func(t *testing.T) {
		t.Parallel()
		one, two := start(t, Options{}), start(t, Options{})
		execute(t, connect(t, one.URL("postgres")), "CREATE TABLE only_in_one ()")
		if value[bool](t, connect(t, two.URL("postgres")), "SELECT to_regclass('only_in_one') IS NOT NULL") {
			t.Error("the table of one server is seen in the other")
		}
	})

	t.Run("SetsParameters", func(t *testing.T) {
		t.Parallel()
		s := start(t, Options{Parameters: map[string]string{"max_connections": "7", "application_name": "it's me"}})
		conn := connect(t, s.URL("postgres"))
		for setting, want := range map[string]string{"max_connections": "7", "fsync": "off", "TimeZone": "UTC", "application_name": "it's me"} {
			if got := value[string](t, conn, "SHOW "+setting); got != want {
				t.Errorf("%s is %q, want %q", setting, got, want)
			}
		}
	})

	t.Run("AsksForThePassword", func(t *testing.T) {
		t.Parallel()
		s := start(t, Options{Password: "o'clock @ 5:00/€"})
		connect(t, s.URL("postgres"))
		wrong := strings.Replace(s.URL("postgres"), "o%27clock", "wrong", 1)
		_, err := pgx.Connect(t.Context(), wrong)
		if refused := new(pgconn.PgError); !errors.As(err, &refused) || refused.Code != "28P01" {
			t.Errorf("with a wrong password: %v, want invalid_password", err)
		}
	})

	t.Run("ObeysHBALines", func(t *testing.T) {
		t.Parallel()
		s := start(t, Options{HBA: []string{"host all stranger 127.0.0.1/32 reject"}})
		execute(t, connect(t, s.URL("postgres")), "CREATE ROLE stranger LOGIN")
		if _, err := pgx.Connect(t.Context(), strings.Replace(s.URL("postgres"), "postgres@", "stranger@", 1)); err == nil {
			t.Error("the stranger was let in")
		}
	})

	t.Run("TellsWhyItFailedAndLeavesNothing", func(t *testing.T) {
		t.Parallel()
		var lines []string
		_, err := Start(t.Context(), Options{
			Parameters: map[string]string{"no_such_setting": "1"},
			Log:        func(line string) { lines = append(lines, line) },
		})
		if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
			t.Errorf("got %v, want the end of the log of Postgres", err)
		}
		if len(lines) != 1 || !strings.HasPrefix(lines[0], "using Postgres ") {
			t.Errorf("it said %q, want which Postgres it used", lines)
		}
	})

	t.Run("GivesUpWithItsContext", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Start(ctx, Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

// Not parallel: the goroutines of other tests would be seen.
func TestServerKeepsNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := start(t, Options{})
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before)
}

func TestClose(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	conn := connect(t, s.URL("postgres"))
	pids := []int{s.process.pid, s.watchdog.cmd.Process.Pid, value[int](t, conn, "SELECT pg_backend_pid()")}

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if running(t, pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	if exists(s.folder.path) {
		t.Errorf("%s is still there", s.folder.path)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if err := s.Restart(t.Context()); err == nil {
		t.Error("it started again after Close")
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Durable: true})
	url := s.URL("postgres")
	execute(t, connect(t, url), "CREATE TABLE kept (by_whom text)")

	for name, end := range map[string]func() error{"Stop": s.Stop, "Kill": s.Kill, "NothingBefore": func() error { return nil }} {
		before := connect(t, url)
		execute(t, before, "INSERT INTO kept VALUES ('"+name+"')")
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name != "NothingBefore" {
			if _, err := pgx.Connect(t.Context(), url); err == nil {
				t.Errorf("%s: it still answers", name)
			}
			if err := end(); err != nil {
				t.Errorf("%s of a stopped server: %v", name, err)
			}
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatalf("Restart after %s: %v", name, err)
		}
		if _, err := before.Exec(t.Context(), "SELECT 1"); err == nil {
			t.Errorf("%s: a connection outlived it", name)
		}
		if !value[bool](t, connect(t, url), "SELECT EXISTS (SELECT FROM kept WHERE by_whom = '"+name+"')") {
			t.Errorf("%s: what was committed before is gone", name)
		}
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	t.Run("EndsAStatementThatIsBusy", func(t *testing.T) {
		t.Parallel()
		s := start(t, Options{})
		conn := connect(t, s.URL("postgres"))
		backend := value[int](t, conn, "SELECT pg_backend_pid()")
		answered := make(chan error, 1)
		go func() {
			// It waits for nothing and so would not notice that the postmaster died.
			_, err := conn.Exec(context.Background(), "SELECT count(*) FROM generate_series(1, 1e10::bigint)")
			answered <- err
		}()
		watching := connect(t, s.URL("postgres"))
		eventually(t, "the statement runs", func() bool {
			return value[bool](t, watching, "SELECT state = 'active' FROM pg_stat_activity WHERE pid = "+strconv.Itoa(backend))
		})

		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err == nil {
			t.Error("the statement came to its end")
		}
		eventually(t, "its backend is gone", func() bool { return !running(t, backend) })
	})

	t.Run("IsMendedWhenTheServerDiedByItself", func(t *testing.T) {
		t.Parallel()
		s := start(t, Options{})
		s.process.signal(9)
		eventually(t, "it is gone", func() bool { return !running(t, s.process.pid) })
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		connect(t, s.URL("postgres"))
	})
}
