package postgres

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres/dsn"
)

// closeTimeout is what a session that was given up has for a polite end. Until
// then it keeps its place in the pool, and pgx would wait for 15 s.
const closeTimeout = 500 * time.Millisecond

// Logins gives a login. fresh asks to read it again, past a cache, because the
// last one was refused.
type Logins func(ctx context.Context, fresh bool) (config.Login, error)

// Passwords gives a password made for one connection, such as an IAM token.
type Passwords func(ctx context.Context, host string, port uint16, user string) (string, error)

// Connector opens sessions. Make it once; nothing is sent before it is used.
type Connector struct {
	Logins    Logins    // nil: none
	Passwords Passwords // nil: none

	dial pgconn.DialFunc // of a test, which is given the host by its name; nil: as it comes

	mu    sync.Mutex
	fresh bool // the last login was refused
	aimed *aim // at this the last connection went
}

// Pool returns a pool of sessions for the database settings. An error is a
// *config.SettingsError.
func (c *Connector) Pool(d config.Database) (*pgxpool.Pool, error) {
	cfg, err := dsn.Parse(d.URL, config.Environ, config.Login{})
	if err != nil {
		return nil, err
	}
	cfg.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) error {
		if err := c.prepare(ctx, cc, d.URL); err != nil {
			return &setupError{err}
		}
		return nil
	}
	cfg.BeforeClose = hurry
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, &config.SettingsError{Problems: []string{"DATABASE_URL and the PG variables cannot be used"}}
	}
	return pool, nil
}

// hurry ends a session that was given up: what died unnoticed, with the network
// before it, never answers a farewell.
func hurry(conn *pgx.Conn) {
	if !conn.IsClosed() {
		return // it is well, and ends within milliseconds
	}
	select {
	case <-conn.PgConn().CleanupDone():
	case <-time.After(closeTimeout):
		_ = conn.PgConn().Conn().Close()
	}
}

// setupError is an error of what goes before a connection: a secret that cannot
// be read, a setting that turns out wrong. It speaks for itself.
type setupError struct{ err error }

func (e *setupError) Error() string { return e.err.Error() }

func (e *setupError) Unwrap() error { return e.err }

// prepare makes the settings of one connection complete.
func (c *Connector) prepare(ctx context.Context, cc *pgx.ConnConfig, text string) error {
	if err := c.login(ctx, cc, text); err != nil {
		return err
	}
	c.mu.Lock()
	c.aimed = aimOf(cc)
	c.mu.Unlock()
	if c.Passwords != nil {
		password, err := c.Passwords(ctx, cc.Host, cc.Port, cc.User)
		if err != nil {
			return err
		}
		cc.Password = password
	}
	if c.dial != nil {
		cc.DialFunc = c.dial
		cc.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	return nil
}

// aim is what a person has to know of a connection.
type aim struct {
	where          string // host:port
	user, database string
}

func aimOf(cc *pgx.ConnConfig) *aim {
	return &aim{net.JoinHostPort(cc.Host, strconv.Itoa(int(cc.Port))), cc.User, cc.Database}
}

// aim returns where the last connection went, or would go by the settings.
func (c *Connector) aim(settings *pgx.ConnConfig) *aim {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aimed != nil {
		return c.aimed
	}
	return aimOf(settings)
}

// renew makes the next connection ask for a fresh login. False: there is no
// other login to be had.
func (c *Connector) renew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh = true
	return c.Logins != nil
}

// login fills in what the secret holds.
func (c *Connector) login(ctx context.Context, cc *pgx.ConnConfig, text string) error {
	if c.Logins == nil {
		return nil
	}
	c.mu.Lock()
	fresh := c.fresh
	c.fresh = false
	c.mu.Unlock()
	l, err := c.Logins(ctx, fresh)
	if err != nil {
		return err
	}
	cfg, err := dsn.Parse(text, config.Environ, l)
	if err != nil {
		return err
	}
	o := cfg.ConnConfig
	cc.Host, cc.Port, cc.Database, cc.User, cc.Password = o.Host, o.Port, o.Database, o.User, o.Password
	cc.TLSConfig, cc.Fallbacks, cc.LookupFunc = o.TLSConfig, o.Fallbacks, o.LookupFunc
	return nil
}
