package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/pgtest"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// guarded is a server that asks for passwords, with a migrated table.
func guarded(t *testing.T) (*throwaway.Server, *fixture) {
	t.Helper()
	server := startServer(t, throwaway.Options{Password: "hunter2"})
	if err := migrated(t.Context(), server.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	return server, fixtureAt(t, server.URL("postgres"))
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// word writes a value of libpq's key=value form.
func word(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'" }

// vault is a secret that can be rotated. What was read is cached until it is
// asked for fresh.
type vault struct {
	stored, cached config.Login
	reads, fresh   atomic.Int64
}

func (v *vault) login(_ context.Context, fresh bool) (config.Login, error) {
	if v.reads.Add(1) == 1 || fresh {
		v.cached = v.stored
	}
	if fresh {
		v.fresh.Add(1)
	}
	return v.cached, nil
}

func TestAnyPasswordWorks(t *testing.T) {
	// Not parallel: one of the ways is the environment.
	server, f := guarded(t)
	f.exec("create role app login")
	f.exec("grant select, update on outbox_events to app; grant select on outbox_events_control to app")
	host := fmt.Sprintf("127.0.0.1:%d", server.Port())
	for _, password := range []string{secretPassword, " ", "%", "a+b&c=d", "'", `\`, `"`, "{}", "$1", "пароль", strings.Repeat("long", 100)} {
		f.exec("set standard_conforming_strings = on; alter role app password " + quote(password))
		kv := fmt.Sprintf("host=127.0.0.1 port=%d dbname=postgres user=app", server.Port())
		for name, d := range map[string]config.Database{
			"URL":           {URL: (&url.URL{Scheme: "postgres", User: url.UserPassword("app", password), Host: host, Path: "/postgres"}).String()},
			"Query":         {URL: "postgres://" + host + "/postgres?user=app&password=" + strings.ReplaceAll(url.QueryEscape(password), "+", "%20")},
			"Words":         {URL: kv + " password=" + word(password)},
			"Environment":   {URL: kv},
			"Secret":        {URL: "postgres:///", SecretID: "s"},
			"SecretAtAHost": {URL: "postgres://" + host + "/postgres", SecretID: "s"},
		} {
			c := &Connector{}
			switch name {
			case "Environment":
				t.Setenv("PGPASSWORD", password)
			case "Secret":
				c.Logins = func(context.Context, bool) (config.Login, error) {
					return config.Login{Host: "127.0.0.1", Port: uint16(server.Port()), Database: "postgres", User: "app", Password: password}, nil
				}
			case "SecretAtAHost": // as a secret managed by RDS holds it
				c.Logins = func(context.Context, bool) (config.Login, error) {
					return config.Login{User: "app", Password: password}, nil
				}
			}
			if got := ready(t, d, c); got != "connected" {
				t.Errorf("%q by %s: %s", password, name, got)
			}
			t.Setenv("PGPASSWORD", "")
		}
	}
	c := &Connector{Passwords: func(_ context.Context, host string, port uint16, user string) (string, error) {
		if host != "127.0.0.1" || int(port) != server.Port() || user != "app" {
			t.Errorf("a password was asked for %s:%d %s", host, port, user)
		}
		return strings.Repeat("long", 100), nil
	}}
	if got := ready(t, config.Database{URL: "postgres://app:wrong@" + host + "/postgres"}, c); got != "connected" {
		t.Errorf("made for the connection: %s", got)
	}
}

func TestARotatedLogin(t *testing.T) {
	t.Parallel()
	server, f := guarded(t)
	rotate := func(role, password string) {
		f.exec("alter role " + role + " password " + quote(password))
		f.exec("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", role)
	}
	setUp := func(role string) (*vault, *Store) {
		f.exec("create role " + role + " login password 'first'; grant select, update on outbox_events to " + role + "; grant select on outbox_events_control to " + role)
		v := &vault{stored: config.Login{Host: "127.0.0.1", Port: uint16(server.Port()), Database: "postgres", User: role, Password: "first"}}
		s := openStore(t, "postgres:///", f.name, &Connector{Logins: v.login})
		if err := s.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return v, s
	}
	t.Run("IsReadAgainOnceAndTheCallGoesOn", func(t *testing.T) {
		v, s := setUp("one")
		for round, call := range []func() error{
			func() error { _, err := s.Take(t.Context(), ask()); return err },
			func() error { _, err := s.Record(t.Context(), []outbox.Outcome{{EventID: id(1)}}); return err },
			func() error { _, err := s.Backlog(t.Context()); return err },
			func() error { s.forget(); return s.Ready(t.Context()) },
		} {
			v.stored.Password = fmt.Sprint("password ", round)
			rotate("one", v.stored.Password)
			if err := call(); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			if got := v.fresh.Swap(0); got != 1 {
				t.Errorf("round %d: read again %d times, want once", round, got)
			}
		}
	})
	t.Run("ThatNobodyStoredIsAnErrorAtOnce", func(t *testing.T) {
		v, s := setUp("two")
		f.put(1)
		rotate("two", "unknown")
		v.reads.Store(1)
		started := time.Now()
		_, err := s.Take(t.Context(), ask())
		checkSentence(t, err, `refused the password of the role "two"`)
		if reads := v.reads.Load() - 1; reads > 2 || v.fresh.Load() != 1 || time.Since(started) > 3*time.Second {
			t.Errorf("%d reads, %d of them fresh, in %v; want 2 at most, one fresh", reads, v.fresh.Load(), time.Since(started))
		}
		f.check(1, "pending", "delivery_status")
		// A login that is mended later is found without a new process.
		v.stored.Password = "unknown"
		if _, err := s.Take(t.Context(), ask()); err != nil {
			t.Error(err)
		}
	})
}

func TestASecretThatCannotBeReadSpeaksForItself(t *testing.T) {
	t.Parallel()
	reason := errors.New(`secret "db": may not be read`)
	reads := 0
	c := &Connector{Logins: func(context.Context, bool) (config.Login, error) { reads++; return config.Login{}, reason }}
	s := openStore(t, "postgres:///", config.Table{Name: "t"}, c)
	if err := s.Ready(t.Context()); !errors.Is(err, reason) || err.Error() != reason.Error() || reads != 1 {
		t.Errorf("%v after %d reads, want the reason as it is, after one", err, reads)
	}
	c = &Connector{Passwords: func(context.Context, string, uint16, string) (string, error) { return "", reason }}
	s = openStore(t, pgtest.New(t), config.Table{Name: "t"}, c)
	if _, err := s.Take(t.Context(), ask()); err != reason {
		t.Errorf("%v, want the reason as it is", err)
	}
}

func TestErrorsNameWhereTheSecretPointed(t *testing.T) {
	t.Parallel()
	c := &Connector{Logins: func(context.Context, bool) (config.Login, error) {
		return config.Login{Host: "127.0.0.1", Port: 1, User: "app", Database: "shop"}, nil
	}}
	s := openStore(t, "postgres://somebody@localhost:2/else", config.Table{Name: "t"}, c)
	checkSentence(t, s.Ready(t.Context()), "127.0.0.1:1 refuses connections")
}
