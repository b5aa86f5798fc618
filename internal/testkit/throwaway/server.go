// Package throwaway runs a Postgres server that exists only as long as the
// process that started it: for tests, and for a try-out on a laptop.
//
// A server has a folder of its own under the temporary one, listens on a
// free port of 127.0.0.1, and is gone, process and folder, after Close. Where
// the process dies without a Close, even by SIGKILL, a watchdog does the same
// in its place; what a dead watchdog leaves, the next Start sweeps away.
//
//	Start --> running --Stop, Kill--> stopped --Restart--> running
//	             |                       |
//	             +--------- Close -------+--> gone
//
// It keeps no goroutine of its own, so that a test may look for leaked ones
// while a server runs.
package throwaway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser is the role that URL names.
const superuser = "postgres"

const (
	// A warm start takes 0.3 s; a cold, busy machine is given a hundred times that.
	startTimeout = 30 * time.Second
	// A fast shutdown writes a checkpoint, which a full disk cache can slow down.
	stopTimeout = 20 * time.Second
)

// Server is a running, or stopped, throw-away Postgres. Its methods may be
// called from several goroutines.
type Server struct {
	options  Options
	binaries binaries
	identity identity
	folder   *folder
	watchdog *watchdog
	port     int

	mu      sync.Mutex
	process *process // nil while stopped
	closed  bool
}

// Start makes a new server and returns once it answers queries. ctx bounds the
// start only; without a deadline it gets 30 s, a download of the binaries
// apart. The caller must Close the server.
//
// It works as root as well, which Postgres itself refuses: see identities.
func Start(ctx context.Context, options Options) (_ *Server, err error) {
	found, err := findBinaries(ctx, options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	parent := parentFolder(options)
	sweep(parent)
	s := &Server{options: options, binaries: found}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.folder, err = newFolder(parent); err != nil {
		return nil, err
	}
	if s.watchdog, err = startWatchdog(s.folder.path); err != nil {
		return nil, err
	}
	version, err := s.takeIdentity(ctx)
	if err != nil {
		return nil, err
	}
	options.logf("using Postgres %s from %s%s", version, found.folder, s.identity.note())
	if err := s.makeCluster(ctx, version); err != nil {
		return nil, err
	}
	if err := s.launchOnFreePort(ctx); err != nil {
		return nil, err
	}
	options.logf("Postgres listens on 127.0.0.1:%d, its data lies in %s", s.port, s.dataFolder())
	return s, nil
}

// URL is the connection string of a database, for the superuser and without
// TLS, also where Options.TLS is set.
func (s *Server) URL(database string) string {
	return s.url(database, "disable")
}

func (s *Server) url(database, sslmode string) string {
	user := url.User(superuser)
	if s.options.Password != "" {
		user = url.UserPassword(superuser, s.options.Password)
	}
	return (&url.URL{
		Scheme:   "postgres",
		User:     user,
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=" + sslmode,
	}).String()
}

// Port is the TCP port on 127.0.0.1. It stays the same over a Restart.
func (s *Server) Port() int { return s.port }

// Stop shuts the server down as a maintenance would: connections are cut, open
// transactions roll back, everything committed is kept. On a stopped server it
// does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(syscall.SIGINT) // Postgres' "fast" shutdown
}

// Kill ends the server and all its backends with SIGKILL, as the kernel does
// when memory runs out. No statement goes on behind it. Without
// Options.Durable the commits of the last moments may be lost. On a stopped
// server it does nothing.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	// While the postmaster stands still it starts no new backend, nor does it
	// take the death of the first one as a crash to recover from.
	s.process.freeze()
	for _, pid := range children(s.process.pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // one that ended by itself is as good
	}
	return s.end(syscall.SIGKILL)
}

// Restart starts the server again, on the same port with the same data, after
// it has stopped a running one. ctx is used as in Start.
func (s *Server) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("restart Postgres: it is closed")
	}
	if err := s.end(syscall.SIGINT); err != nil {
		return err
	}
	// Backends that a Kill has just ended may for a moment still hold the shared
	// memory, or the port; Postgres then refuses to start.
	const patience = 50
	var err error
	for range patience {
		if err = s.launch(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// Close ends the server at once and removes its folder. A second Close does
// nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.end(syscall.SIGQUIT) // Postgres' "immediate" shutdown
	if s.folder != nil {
		err = errors.Join(err, s.folder.remove())
	}
	if s.watchdog != nil {
		err = errors.Join(err, s.watchdog.dismiss())
	}
	return err
}

// end sends a signal and waits until the server is gone. The caller holds mu.
func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	s.process.signal(signal)
	ended := s.process.wait(stopTimeout)
	if !ended {
		s.process.signal(syscall.SIGKILL)
		s.process.wait(stopTimeout)
	}
	s.process = nil
	err := s.watchdog.watch(0)
	if !ended {
		err = errors.Join(err, fmt.Errorf("stop Postgres: killed, since it did not end within %v", stopTimeout))
	}
	return err
}

// launchOnFreePort starts the server for the first time. Somebody else can take
// the port between the look and the start: then another one is tried.
func (s *Server) launchOnFreePort(ctx context.Context) error {
	for {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.port = port
		err = s.launch(ctx)
		if err == nil || isFree(port) || ctx.Err() != nil {
			return err
		}
	}
}

// launch starts the server process and waits for its first answer.
func (s *Server) launch(ctx context.Context) error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	defer log.Close()

	// Not bound to ctx: the server outlives its start.
	cmd := s.identity.command(context.WithoutCancel(ctx), s.folder.path, s.binaries.postgres(), s.arguments()...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	s.process = newProcess(cmd.Process)
	err = s.watchdog.watch(s.process.pid)
	if err == nil {
		err = s.awaitAnswer(ctx)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start Postgres: %w", err), s.end(syscall.SIGQUIT))
	}
	return nil
}

// awaitAnswer returns once a query is answered by this very server: another
// one may have been quicker to take the port.
func (s *Server) awaitAnswer(ctx context.Context) error {
	for {
		if s.process.exited() {
			return fmt.Errorf("it ended by itself; the end of its log:\n%s", tail(s.logFile()))
		}
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer in time (%w); the last error was: %w; the end of its log:\n%s", ctx.Err(), err, tail(s.logFile()))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *Server) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	sslmode := "disable"
	if s.options.TLS != nil {
		sslmode = "prefer" // the caller's HBA lines may ask for either
	}
	conn, err := pgx.Connect(ctx, s.url(superuser, sslmode))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var folder string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&folder); err != nil {
		return err
	}
	if folder != s.dataFolder() {
		return fmt.Errorf("port %d belongs to another Postgres, of %s", s.port, folder)
	}
	return nil
}

func (s *Server) dataFolder() string { return filepath.Join(s.folder.path, "data") }

func (s *Server) logFile() string { return filepath.Join(s.folder.path, "postgres.log") }

// tail is the end of a log file, for an error message.
func tail(path string) string {
	const enough = 2000
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-enough):])
}
