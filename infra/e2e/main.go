// Command e2e proves the dispatcher end to end: it delivers events from a real
// Postgres through the real dispatcher to a real n8n, breaks things on the way, and
// holds the table against what n8n says it ran.
//
//	go run ./infra/e2e [-short] [-timeout 15m]
//	go run ./infra/e2e -serve     n8n with our workflows and its editor, to look around
//
// It needs npm, which installs n8n on the first run, and starts everything on free
// ports of the loopback address. That install stays; all processes end with this
// one, however it ends. The exit status is 1 when something does not hold.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/postgres/throwaway"
)

func main() {
	short := flag.Bool("short", false, "leave out what stops and starts n8n")
	limit := flag.Duration("timeout", 15*time.Minute, "time for all but the install of n8n")
	serve := flag.Bool("serve", false, "start n8n with our workflows and its editor, and wait for Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	if err := run(ctx, *short, *serve, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	say("done after %s", since(began))
}

func run(ctx context.Context, short, serve bool, limit time.Duration) (err error) {
	const manifests = "infra/n8n"
	if _, err := os.Stat(manifests); err != nil {
		return fmt.Errorf("run it in the root of the project: %w", err)
	}
	p, err := install(ctx, manifests)
	if err != nil {
		return err
	}
	if !serve {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
		defer cancel()
	}
	s, err := newStage(ctx, p, serve)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return err
	}
	if serve {
		say("n8n is at %s, sign in as %s with %s; the token is %s; Ctrl-C ends it", s.n8n.url(), ownerEmail, ownerPassword, s.dispatcher.token)
		<-ctx.Done()
		return nil
	}
	if err := (&story{stage: s, excuses: map[string][]string{}}).tell(ctx, short); err != nil {
		return errors.Join(err, context.Cause(ctx), fmt.Errorf("the end of n8n's log:\n%s", tail(s.n8n.log())))
	}
	return nil
}

// stage is all that runs: Postgres with a database for the outbox and one for n8n,
// n8n with our workflows, and the dispatcher, built.
type stage struct {
	folder     string
	server     *throwaway.Server
	outbox     *table
	n8nData    *pgx.Conn
	n8n        *n8n
	editor     *editor
	dispatcher *dispatcher
	plain      workflow // published
	failing    workflow // the one with a failure branch; published when served
}

const (
	tokenHeader    = "X-Fleet-Ops-Trigger-Token"
	credentialID   = "outboxTrigger001"
	credentialFile = "infra/n8n/credential.example.json"
	plainFile      = "infra/n8n/outbox-events.workflow.json"
	failingFile    = "infra/n8n/outbox-events-with-failure.workflow.json"
)

// newStage starts everything. The caller closes what it returns, also with an
// error.
func newStage(ctx context.Context, p program, withEditor bool) (*stage, error) {
	s := &stage{}
	var err error
	if s.folder, err = os.MkdirTemp("", "outbox-dispatcher-e2e-*"); err != nil {
		return s, err
	}
	if s.server, err = throwaway.Start(ctx, throwaway.Options{Log: func(line string) { say("%s", line) }}); err != nil {
		return s, err
	}
	if s.outbox, err = newTable(ctx, s.server, "outbox"); err != nil {
		return s, err
	}
	n8nData, err := newTable(ctx, s.server, "n8n")
	if err != nil {
		return s, err
	}
	s.n8nData = n8nData.conn
	s.dispatcher = &dispatcher{folder: s.folder, database: s.outbox.url, token: "first-token-of-the-e2e-run"}
	if err := build(ctx, s.folder); err != nil {
		return s, err
	}
	if err := s.dispatcher.migrate(ctx); err != nil {
		return s, err
	}
	return s, s.startN8N(ctx, p, withEditor)
}

// startN8N makes a new n8n with our credential and workflows, as the README says.
func (s *stage) startN8N(ctx context.Context, p program, withEditor bool) error {
	folder := filepath.Join(s.folder, "n8n")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	var err error
	if s.n8n, err = newN8N(p, folder, s.server.Port(), "n8n", withEditor); err != nil {
		return err
	}
	say("importing the credential and the workflows")
	if err := s.n8n.importCredential(ctx, credentialFile, s.dispatcher.token); err != nil {
		return err
	}
	if s.plain, err = s.n8n.importWorkflow(ctx, plainFile); err != nil {
		return err
	}
	if s.failing, err = s.n8n.importWorkflow(ctx, failingFile); err != nil {
		return err
	}
	if err := s.n8n.publish(ctx, s.plain); err != nil {
		return err
	}
	s.dispatcher.webhook = s.n8n.webhook(s.plain.path())
	began := time.Now()
	if err := s.n8n.start(); err != nil {
		return err
	}
	if err := s.n8n.await(ctx, s.plain.path(), true); err != nil {
		return err
	}
	say("n8n was ready after %s", since(began))
	s.editor = &editor{url: s.n8n.url()}
	if err := s.editor.setUp(ctx); err != nil {
		return err
	}
	if withEditor {
		return s.publishNow(ctx, s.failing)
	}
	return nil
}

// publishNow makes a workflow active and waits until its webhook is there, which
// comes a moment later.
func (s *stage) publishNow(ctx context.Context, w workflow) error {
	if err := s.editor.publish(ctx, w); err != nil {
		return err
	}
	return s.n8n.await(ctx, w.path(), true)
}

// unpublishNow is the reverse.
func (s *stage) unpublishNow(ctx context.Context, w workflow) error {
	if err := s.editor.unpublish(ctx, w); err != nil {
		return err
	}
	return s.n8n.await(ctx, w.path(), false)
}

// close ends what was started and removes what was written.
func (s *stage) close() error {
	var errs []error
	if s.n8n != nil {
		errs = append(errs, s.n8n.kill())
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	if s.folder != "" {
		errs = append(errs, os.RemoveAll(s.folder))
	}
	return errors.Join(errs...)
}

// newTable makes a database and connects to it.
func newTable(ctx context.Context, server *throwaway.Server, database string) (*table, error) {
	admin, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "create database "+pgx.Identifier{database}.Sanitize()); err != nil {
		return nil, err
	}
	t := &table{url: server.URL(database)}
	t.conn, err = pgx.Connect(ctx, t.url)
	return t, err
}

// say tells people what goes on.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }

// pause waits, or returns the error of ctx if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
