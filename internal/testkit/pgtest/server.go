package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/testkit/throwaway"
)

// shared is the server of this test process.
var shared = server{run: strings.ToLower(rand.Text()[:8])}

// server hands out databases.
type server struct {
	// run tells our databases from those of other test processes on the server
	// of TEST_DATABASE_URL.
	run string

	mu        sync.Mutex
	started   bool
	failed    error             // of the start; it is not tried again for each test
	own       *throwaway.Server // nil with TEST_DATABASE_URL
	base      *url.URL
	admin     *pgx.Conn
	count     int
	templates map[uintptr]template
}

// template is a database to clone, or why there is none.
type template struct {
	name string
	err  error
}

// patience bounds each step. A CREATE DATABASE takes some 30 ms, on a machine
// that runs every package's tests at once ten times that.
const patience = time.Minute

// start makes sure that there is a server with a connection to it. The caller
// holds mu.
func (s *server) start(ctx context.Context) error {
	if !s.started {
		s.started = true
		s.failed = s.find(ctx)
	}
	if s.failed != nil {
		return s.failed
	}
	if s.admin != nil && !s.admin.IsClosed() {
		return nil
	}
	var err error
	s.admin, err = pgx.Connect(ctx, s.base.String())
	return err
}

func (s *server) find(ctx context.Context) error {
	text := os.Getenv("TEST_DATABASE_URL")
	if text == "" {
		own, err := throwaway.Start(ctx, throwaway.Options{InMemory: true})
		if err != nil {
			return err
		}
		s.own = own
		text = own.URL("postgres")
	}
	base, err := url.Parse(text)
	if err != nil || base.Host == "" {
		// The text may hold a password: it is not shown.
		return errors.New("TEST_DATABASE_URL is no URL such as postgres://user@host:5432/postgres")
	}
	s.base = base
	return nil
}

// url is the connection string of a database, which create has made.
func (s *server) url(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base.JoinPath("..", name).String()
}

// create makes a database as a copy of another and returns its name.
func (s *server) create(ctx context.Context, template string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.createLocked(ctx, template)
}

func (s *server) createLocked(ctx context.Context, template string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.start(ctx); err != nil {
		return "", err
	}
	s.count++
	name := fmt.Sprintf("test_%s_%d", s.run, s.count)
	_, err := s.admin.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template)
	return name, err
}

func (s *server) drop(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropLocked(ctx, name)
}

func (s *server) dropLocked(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.start(ctx); err != nil {
		return err
	}
	_, err := s.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	return err
}

// template returns the name of the database that fill has filled.
func (s *server) template(fill func(context.Context, string) error) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := reflect.ValueOf(fill).Pointer()
	made, ok := s.templates[key]
	if !ok {
		// Not bound to the test that happens to be the first.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		made.name, made.err = s.createLocked(ctx, "template0")
		if made.err == nil {
			made.err = fill(ctx, s.base.JoinPath("..", made.name).String())
		}
		if s.templates == nil {
			s.templates = map[uintptr]template{}
		}
		s.templates[key] = made
	}
	return made.name, made.err
}

// close ends the throw-away server, or takes our templates off the other.
func (s *server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	if s.own == nil {
		for _, made := range s.templates {
			errs = append(errs, s.dropLocked(ctx, made.name))
		}
	}
	if s.admin != nil {
		errs = append(errs, s.admin.Close(ctx))
	}
	if s.own != nil {
		errs = append(errs, s.own.Close())
	}
	return errors.Join(errs...)
}
