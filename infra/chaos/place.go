package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/testkit/lambdatest"
	"outbox-dispatcher/internal/testkit/n8ntest"
	"outbox-dispatcher/internal/testkit/throwaway"
)

const (
	token = "a-known-token"
	// postTimeout is short, so that a fault is over soon, and long for a machine
	// that does other things too.
	postTimeout = 1500 * time.Millisecond
	longLease   = time.Minute
	// enough is the time of an invocation to which nothing happens.
	enough = 30 * time.Second
)

//go:embed history.sql
var historySQL string

// place is what a function has around it: a Postgres with the table in it, an
// n8n, and a stretch of network to each that can fail.
type place struct {
	postgres  *throwaway.Server
	bootstrap string
	lease     time.Duration

	n8n            *n8ntest.Server
	formerN8Ns     []*n8ntest.Server
	toPostgres     *proxy
	toN8N          *proxy
	aside          *proxy               // another way to n8n, which never fails
	function       *lambdatest.Function // which meets the faults
	rival          *lambdatest.Function // which goes another way
	scope          *scope
	environment    []string
	rivalsReports  []cycle.Report
	openAtStrike   int
	strikeTroubles []error
}

// startPostgres starts a server that keeps what it has committed when it is
// killed, and makes the table in it.
func startPostgres(ctx context.Context, s *scope) (*throwaway.Server, error) {
	server, err := throwaway.Start(ctx, throwaway.Options{Durable: true, InMemory: true})
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { _ = server.Close() }) // what it leaves, the next one sweeps away
	store, err := postgres.Open(config.Database{URL: server.URL("postgres"), Table: config.Table{Name: "outbox_events"}}, &postgres.Connector{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if err := store.Migrate(ctx, func(string) {}); err != nil {
		return nil, err
	}
	p := place{postgres: server}
	return server, p.exec(historySQL)
}

// newPlace makes a place on an empty table.
func newPlace(s *scope, server *throwaway.Server, bootstrap string, lease time.Duration, settings ...string) (*place, error) {
	p := &place{postgres: server, bootstrap: bootstrap, lease: lease, scope: s}
	if err := p.exec(`truncate outbox_events, outbox_events_control, history`); err != nil {
		return nil, err
	}
	var err error
	if p.n8n, err = n8ntest.Start(); err != nil {
		return nil, err
	}
	s.Cleanup(p.n8n.Close)
	p.n8n.RequireToken(token)
	if p.toPostgres, err = startProxy(fmt.Sprintf("127.0.0.1:%d", server.Port()), postgresMessages{}); err != nil {
		return nil, err
	}
	s.Cleanup(p.toPostgres.close)
	if p.toN8N, err = startProxy(p.n8n.Address(), httpMessages{}); err != nil {
		return nil, err
	}
	s.Cleanup(p.toN8N.close)
	if p.aside, err = startProxy(p.n8n.Address(), httpMessages{}); err != nil {
		return nil, err
	}
	s.Cleanup(p.aside.close)
	p.environment = append([]string{
		"N8N_WEBHOOK_TRIGGER_TOKEN=" + token, "METRICS_STACK=chaos",
		"N8N_HTTP_TIMEOUT_SECONDS=" + seconds(postTimeout), "N8N_DELIVERY_LEASE_SECONDS=" + seconds(lease),
	}, settings...)
	p.function = p.start(p.toN8N, "postgres://postgres@"+p.toPostgres.address()+"/postgres?sslmode=disable")
	p.rival = p.start(p.aside, server.URL("postgres"))
	return p, nil
}

func seconds(d time.Duration) string { return fmt.Sprint(d.Seconds()) }

func (p *place) start(n8n *proxy, database string) *lambdatest.Function {
	return lambdatest.Start(p.scope, p.bootstrap, append([]string{"N8N_WEBHOOK_URL=http://" + n8n.address() + n8ntest.Path, "DATABASE_URL=" + database}, p.environment...)...)
}

// exec runs statements in a session of its own: the server may have been killed
// since the last one.
func (p *place) exec(sql string, args ...any) error {
	return p.session(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	})
}

func (p *place) session(f func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.postgres.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return f(ctx, conn)
}

// insert inserts due events n0 to n1.
func (p *place) insert(n0, n1 int) error {
	return p.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'vehicle.updated', now() - interval '1 hour' + n * interval '1 millisecond',
		       '{"correlation_id": "c", "aggregate": {"type": "vehicle"}, "data": {"n": 1}}' from generate_series($1::int, $2::int) n`, n0, n1)
}

// timePasses lets leases run out and delays pass.
func (p *place) timePasses() error {
	return p.exec(`update outbox_events set next_attempt_at = now() - interval '1 second' where next_attempt_at > now()`)
}

// invoke does one invocation to which nothing should happen.
func (p *place) invoke(f *lambdatest.Function) (cycle.Report, error) {
	var r cycle.Report
	result := f.Invoke(`{"max_cycles":0}`, enough)
	if !result.OK {
		return r, fmt.Errorf("an invocation to which nothing happened ended with %+v", result)
	}
	return r, json.Unmarshal([]byte(result.Body), &r)
}

// n8nUp starts n8n again. Where somebody else has its port meanwhile, for a
// connection that goes out, another n8n takes its place.
func (p *place) n8nUp() (err error) {
	for range 20 {
		if err = p.n8n.Up(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	other, err := n8ntest.Start()
	if err != nil {
		return err
	}
	p.scope.Cleanup(other.Close)
	other.RequireToken(token)
	other.ForgetBodies()
	p.formerN8Ns = append(p.formerN8Ns, p.n8n)
	p.n8n = other
	p.toN8N.aim(other.Address())
	p.aside.aim(other.Address())
	return nil
}

// postsOf is how often n8n got an event whole.
func (p *place) postsOf(id string) int {
	n := p.n8n.PostsOf(id)
	for _, former := range p.formerN8Ns {
		n += former.PostsOf(id)
	}
	return n
}

// overlaps is how many POSTs came while another of the same event was out.
func (p *place) overlaps() int {
	n := p.n8n.Overlaps()
	for _, former := range p.formerN8Ns {
		n += former.Overlaps()
	}
	return n
}

// trouble notes an error of what a strike does.
func (p *place) trouble(err error) {
	if err != nil {
		p.strikeTroubles = append(p.strikeTroubles, err)
	}
}
