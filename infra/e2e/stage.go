package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/testkit/throwaway"
)

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
	outbox, err := database(ctx, s.server, "outbox")
	if err != nil {
		return s, err
	}
	s.outbox = &table{conn: outbox}
	if s.n8nData, err = database(ctx, s.server, "n8n"); err != nil {
		return s, err
	}
	s.dispatcher = &dispatcher{folder: s.folder, database: s.server.URL("outbox"), token: "first-token-of-the-e2e-run"}
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

// database makes one and connects to it.
func database(ctx context.Context, server *throwaway.Server, name string) (*pgx.Conn, error) {
	admin, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "create database "+pgx.Identifier{name}.Sanitize()); err != nil {
		return nil, err
	}
	return pgx.Connect(ctx, server.URL(name))
}
