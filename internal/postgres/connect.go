package postgres

import (
	"cmp"
	"context"
	"crypto/x509"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"outbox-dispatcher/internal/config"
)

const (
	// connectTimeout bounds one attempt to connect, unless PGCONNECT_TIMEOUT or
	// the URL says otherwise. In a VPC a connection takes milliseconds; what
	// takes seconds is a packet that a security group drops.
	connectTimeout = 5 * time.Second
	// pingTimeout bounds the look whether a session outlived the freeze.
	pingTimeout = 2 * time.Second
	// closeTimeout is what a session that was given up has for a polite end. Until
	// then it keeps its place in the pool, and pgx would wait for 15 s.
	closeTimeout = 500 * time.Millisecond
	// poolSize: a claim and a group of outcomes can be under way at once.
	poolSize = 2
)

// Login is what a secret holds of a database. What is empty there comes from
// DATABASE_URL or the PG variables.
type Login struct {
	Host     string
	Port     uint16
	Database string
	User     string
	Password string
}

// Logins gives a login. fresh asks to read it again, past a cache, because the
// last one was refused.
type Logins func(ctx context.Context, fresh bool) (Login, error)

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
	roots map[string]*x509.CertPool
}

// Pool returns a pool of sessions for the database settings. An error is a
// *config.SettingsError.
func (c *Connector) Pool(d config.Database) (*pgxpool.Pool, error) {
	cfg, err := parse(d.URL)
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
		return nil, settingsError("cannot be used")
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
	cc.TLSConfig = c.trust(cc.TLSConfig, cc.Host)
	for _, f := range cc.Fallbacks {
		f.TLSConfig = c.trust(f.TLSConfig, f.Host)
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
	host, port := cmp.Or(l.Host, cc.Host), cmp.Or(l.Port, cc.Port)
	if host != cc.Host || port != cc.Port {
		// TLS depends on the host: another one is parsed as if it stood in the
		// settings.
		other, err := parse(last(last(text, "host", host), "port", strconv.Itoa(int(port))))
		if err != nil {
			return err
		}
		cc.Host, cc.Port = host, port
		cc.TLSConfig, cc.Fallbacks = other.ConnConfig.TLSConfig, other.ConnConfig.Fallbacks
	}
	cc.Database = cmp.Or(l.Database, cc.Database)
	cc.User = cmp.Or(l.User, cc.User)
	cc.Password = cmp.Or(l.Password, cc.Password)
	return nil
}
