package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// place is what is measured on: Postgres, the sink, the bootstrap.
type place struct {
	server     *throwaway.Server
	postmaster int // process id
	version    string
	sink       *sinkProcess
	root       string // of the dispatcher's module
	folder     string // for what is made on the way
	bootstrap  string
}

// parameters of Postgres. fsync and synchronous_commit stay on, as in production.
var parameters = map[string]string{
	"shared_buffers": "1GB",
	// No checkpoint in the middle of a run.
	"max_wal_size": "8GB",
	// A table that is filled in the transaction that truncates it needs no log:
	// ten million rows in minutes. What is measured is logged as ever.
	"wal_level": "minimal", "max_wal_senders": "0",
	// Every run starts vacuumed and lasts seconds; a vacuum would fall into one of
	// them by chance.
	"autovacuum": "off",
}

func newPlace(ctx context.Context) (p *place, err error) {
	p = &place{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "outbox-dispatcher").Output()
	if err != nil {
		return p, err
	}
	p.root = strings.TrimSpace(string(root))
	if p.folder, err = os.MkdirTemp("", "outbox-bench-"); err != nil {
		return p, err
	}
	if p.bootstrap, err = p.build(ctx); err != nil {
		return p, err
	}
	if p.server, err = throwaway.Start(ctx, throwaway.Options{Durable: true, Parameters: parameters}); err != nil {
		return p, err
	}
	db, err := p.connect(ctx, "postgres")
	if err != nil {
		return p, err
	}
	defer db.Close(ctx)
	p.postmaster = parentOf(int(db.PgConn().PID()))
	p.version = db.PgConn().ParameterStatus("server_version")
	p.sink, err = startSink()
	return p, err
}

func (p *place) close() {
	if p.sink != nil {
		p.sink.close()
	}
	if p.server != nil {
		_ = p.server.Close()
	}
	if p.folder != "" {
		_ = os.RemoveAll(p.folder)
	}
}

// build compiles the bootstrap as it is deployed, for this machine.
func (p *place) build(ctx context.Context) (string, error) {
	path := filepath.Join(p.folder, "bootstrap")
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags=-s -w", "-o", path, "./functions/dispatcher")
	cmd.Dir = p.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the bootstrap: %w\n%s", err, bytes.TrimSpace(out))
	}
	return path, nil
}

func (p *place) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, p.server.URL(database))
}

// database makes a database anew, with our table in it, and connects to it.
func (p *place) database(ctx context.Context, name string) (*pgx.Conn, error) {
	admin, err := p.connect(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	defer admin.Close(ctx)
	if err := execAll(ctx, admin, "drop database if exists "+name+" with (force)", "create database "+name); err != nil {
		return nil, err
	}
	s, err := p.store(name)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Migrate(ctx, func(string) {}); err != nil {
		return nil, err
	}
	return p.connect(ctx, name)
}

// store opens the table of a database as the dispatcher does.
func (p *place) store(database string) (*postgres.Store, error) {
	return postgres.Open(config.Database{URL: p.server.URL(database), Table: config.Table{Name: "outbox_events"}}, &postgres.Connector{})
}

// machine says what the figures were measured on.
func (p *place) machine() string {
	model := "unknown CPU"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.Trim(name, " \t\n:")
				break
			}
		}
	}
	cores, _ := exec.Command("nproc").Output()
	n, _ := strconv.Atoi(strings.TrimSpace(string(cores)))
	return fmt.Sprintf("%d cores (%s), shared by contender, Postgres %s (fsync on) and sink, all on loopback", n, model, p.version)
}
