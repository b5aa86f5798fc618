package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/testkit/pgtest"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// secretPassword has all that URLs, quotes and formats take for something else.
const secretPassword = `p@ss/w:rd#1?x%41 '\` + "`\"é"

// checkSentence fails the test unless err is one sentence of ours that holds what
// it should and nothing of the password.
func checkSentence(t *testing.T, err error, wants ...string) {
	t.Helper()
	var known *DatabaseError
	if !errors.As(err, &known) {
		t.Errorf("%T %v, want an *DatabaseError", err, err)
		return
	}
	text := err.Error()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q, want %q in it", text, want)
		}
	}
	for _, piece := range []string{"p@ss", "w:rd", "rd#1", "x%41", "'\\", "p%40ss", "hunter2"} {
		if strings.Contains(text, piece) {
			t.Errorf("%q holds %q of the password", text, piece)
		}
	}
	if strings.ContainsAny(text, "\n\r\t") {
		t.Errorf("%q is more than a line", text)
	}
}

// silence keeps a connection open, which nobody would do for it otherwise, and says
// nothing.
func silence(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// listener answers connections in its own way.
func listener(t *testing.T, answer func(net.Conn)) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func TestSentencesOfAConnection(t *testing.T) {
	t.Parallel()
	server := startServer(t, throwaway.Options{Password: "hunter2", HBA: []string{"host all stranger 127.0.0.1/32 reject"}})
	admin := pgtest.Conn(t, server.URL("postgres"))
	for _, sql := range []string{"create role app login password 'hunter2'", "create role narrow login password 'hunter2' connection limit 0", "create role stranger login", "create database closed allow_connections false"} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	login := func(change func(*config.Login)) func(context.Context, bool) (config.Login, error) {
		l := config.Login{Host: "127.0.0.1", Port: uint16(server.Port()), Database: "postgres", User: "app", Password: "hunter2"}
		change(&l)
		return func(context.Context, bool) (config.Login, error) { return l, nil }
	}
	nobody := listener(t, silence)
	hangsUp := listener(t, func(c net.Conn) { _ = c.Close() })
	for _, try := range []struct {
		name   string
		change func(*config.Login)
		wants  []string
	}{
		{"WrongPassword", func(l *config.Login) { l.Password = secretPassword }, []string{"127.0.0.1:", "refused the password of the role \"app\""}},
		{"UnknownRole", func(l *config.Login) { l.User = "ghost"; l.Password = secretPassword }, []string{"refused the password of the role \"ghost\""}}, // Postgres does not tell either
		{"RoleThatIsRejected", func(l *config.Login) { l.User = "stranger" }, []string{"does not let the role \"stranger\" in", "pg_hba.conf"}},
		{"UnknownDatabase", func(l *config.Login) { l.Database = "nothing" }, []string{"has no database \"nothing\""}},
		{"ClosedDatabase", func(l *config.Login) { l.Database = "closed" }, []string{"55000", "closed"}},
		{"NoConnectionLeft", func(l *config.Login) { l.User = "narrow" }, []string{"has no connection left for this role"}},
		{"NobodyListens", func(l *config.Login) { l.Port = 1 }, []string{"127.0.0.1:1 refuses connections"}},
		{"UnknownHost", func(l *config.Login) { l.Host = "db.invalid"; l.Password = secretPassword }, []string{"db.invalid", "cannot be resolved"}},
		{"NoAnswer", func(l *config.Login) { l.Port = uint16(nobody) }, []string{"did not answer in time", "security groups"}},
		{"HangsUp", func(l *config.Login) { l.Port = uint16(hangsUp) }, []string{"closed the connection"}},
	} {
		t.Run(try.name, func(t *testing.T) {
			t.Parallel()
			timeout := "20"
			if try.name == "NoAnswer" {
				timeout = "1"
			}
			s := openStore(t, "postgres:///?host=127.0.0.1&connect_timeout="+timeout, config.Table{Name: "outbox_events"}, &Connector{Logins: login(try.change)})
			checkSentence(t, s.Ready(t.Context()), try.wants...)
			_, err := s.Take(t.Context(), ask())
			checkSentence(t, err, try.wants...)
			_, err = s.Record(t.Context(), nil)
			checkSentence(t, err, try.wants...)
			checkSentence(t, s.Migrate(t.Context(), func(string) {}), try.wants...)
			_, err = s.Status(t.Context())
			checkSentence(t, err, try.wants...)
		})
	}
	t.Run("WhatTheServerQuotesOfTheStart", func(t *testing.T) {
		s := openStore(t, with(server.URL("postgres"), "options=-c%20hunter2%3Dx"), config.Table{Name: "outbox_events"}, &Connector{})
		checkSentence(t, s.Ready(t.Context()), `refused a session with the database "postgres": SQLSTATE 42704`)
	})
	t.Run("ToldToEnd", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := openStore(t, server.URL("postgres"), config.Table{Name: "outbox_events"}, &Connector{})
		checkSentence(t, s.Ready(ctx), "told to end")
	})
}

func TestSentencesOfTheTable(t *testing.T) {
	t.Parallel()
	for _, try := range []struct {
		name, sql string
		wants     []string
	}{
		{"Missing", "drop table outbox_events", []string{`the table "outbox_events" is not there`, "OUTBOX_TABLE", "operator migrate"}},
		{"OutOfSight", "create schema hidden; alter table outbox_events set schema hidden", []string{"search path"}},
		{"WithoutAColumn", "alter table outbox_events drop last_error_code", []string{`the table "outbox_events" lacks last_error_code`}},
		{"WithoutOurColumn", "alter table outbox_events drop attempts_base", []string{"lacks attempts_base; run `operator migrate`"}},
		{"WithoutAny", "drop table outbox_events; create table outbox_events ()", []string{"lacks event_id, event_type"}},
		{"WithAWrongType", "alter table outbox_events alter last_error type integer using null", []string{"the column last_error", "the type integer", "text or character varying"}},
		{"WithoutSelect", "revoke select on outbox_events from {role}", []string{"may not SELECT and UPDATE \"outbox_events\"; grant it both"}},
		{"WithoutUpdate", "revoke update on outbox_events from {role}", []string{"may not SELECT and UPDATE"}},
		{"WithoutTheControlTable", "revoke select on outbox_events_control from {role}", []string{`may not SELECT "outbox_events_control"`}},
		{"WithoutAColumnToRead", "revoke select on outbox_events from {role}; grant select (event_id) on outbox_events to {role}", []string{"lacks a right", "permission denied for table outbox_events"}},
		{"WithoutItsSchema", "revoke usage on schema public from public", []string{"is not there, or not on the search path"}},
		{"ReadOnly", "do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$", []string{"is read-only", "connect to the writer"}},
		{"BehindATriggerThatFails", "create function no() returns trigger language plpgsql as $$ begin raise exception 'not today' using errcode = 'P0042'; end $$; create trigger no before update on outbox_events execute function no()", []string{"P0042", "not today"}},
		{"OutOfDisk", "create function no() returns trigger language plpgsql as $$ begin raise exception 'no space left' using errcode = '53100'; end $$; create trigger no before update on outbox_events execute function no()", []string{"53100", "no space left"}},
	} {
		t.Run(try.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.put(1)
			before := f.image(1)
			url := f.role("app", "grant select, update on outbox_events to {role}", "grant select on outbox_events_control to {role}")
			warm := f.open(url)
			if err := warm.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.exec(strings.ReplaceAll(try.sql, "{role}", "app_"+f.value("current_database()")))
			for name, s := range map[string]*Store{"cold": f.open(url), "warm": warm} {
				if name == "warm" && try.name == "ReadOnly" {
					s.pool.Reset() // a session keeps what it began with
				}
				_, err := s.Take(t.Context(), ask(reclaiming(10)))
				checkSentence(t, err, try.wants...)
			}
			if f.value("to_regclass('outbox_events') is not null and exists (select from pg_attribute where attrelid = to_regclass('outbox_events') and attname = 'event_id')") == "true" &&
				!strings.HasPrefix(try.name, "With") {
				f.unchanged(1, before)
			}
		})
	}
}
