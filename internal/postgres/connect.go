package postgres

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres/rdsroots"
)

const (
	// connectTimeout bounds one attempt to connect, unless PGCONNECT_TIMEOUT or
	// the URL says otherwise. In a VPC a connection takes milliseconds; what
	// takes seconds is a packet that a security group drops.
	connectTimeout = 5 * time.Second
	// pingTimeout bounds the look whether a session outlived the freeze.
	pingTimeout = 2 * time.Second
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

	mu    sync.Mutex
	fresh bool // the last login was refused
	roots map[string]*x509.CertPool
}

// Pool returns a pool of sessions for the database settings. An error is a
// *config.SettingsError.
func (c *Connector) Pool(d config.Database) (*pgxpool.Pool, error) {
	cfg, err := parse(d)
	if err != nil {
		return nil, err
	}
	rootFile := os.Getenv("PGSSLROOTCERT") // pgx has read it; ours are added
	cfg.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) error {
		if err := c.login(ctx, cc); err != nil {
			return err
		}
		if c.Passwords != nil {
			password, err := c.Passwords(ctx, cc.Host, cc.Port, cc.User)
			if err != nil {
				return err
			}
			cc.Password = password
		}
		return c.trust(cc, rootFile)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, settingsError("cannot be used: " + err.Error())
	}
	return pool, nil
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
func (c *Connector) login(ctx context.Context, cc *pgx.ConnConfig) error {
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
	if l.Host != "" && l.Host != cc.Host {
		cc.Host = l.Host
		cc.Fallbacks = nil
	}
	if l.Port != 0 {
		cc.Port = l.Port
	}
	if l.Database != "" {
		cc.Database = l.Database
	}
	if l.User != "" {
		cc.User = l.User
	}
	if l.Password != "" {
		cc.Password = l.Password
	}
	return nil
}

// trust puts the host name and the roots into the TLS settings.
func (c *Connector) trust(cc *pgx.ConnConfig, rootFile string) error {
	if cc.TLSConfig == nil || (cc.TLSConfig.InsecureSkipVerify && cc.TLSConfig.VerifyPeerCertificate == nil) {
		return nil // sslmode disable or require: nothing is verified
	}
	roots, err := c.rootsFor(cc.Host, rootFile)
	if err != nil {
		return err
	}
	full := cc.TLSConfig.VerifyPeerCertificate == nil
	cc.TLSConfig = cc.TLSConfig.Clone()
	cc.TLSConfig.RootCAs = roots
	if !full {
		cc.TLSConfig.VerifyPeerCertificate = verifyAuthority(roots)
		return nil
	}
	cc.TLSConfig.ServerName = cc.Host
	for _, f := range cc.Fallbacks {
		if f.TLSConfig != nil {
			f.TLSConfig = f.TLSConfig.Clone()
			f.TLSConfig.RootCAs = roots
		}
	}
	return nil
}

// verifyAuthority checks the chain and not the host name: sslmode verify-ca. The
// check of pgx holds on to its own roots.
func verifyAuthority(roots *x509.CertPool) func([][]byte, [][]*x509.Certificate) error {
	return func(raw [][]byte, _ [][]*x509.Certificate) error {
		chain := make([]*x509.Certificate, len(raw))
		others := x509.NewCertPool()
		for i, der := range raw {
			cert, err := x509.ParseCertificate(der)
			if err != nil {
				return err
			}
			if chain[i] = cert; i > 0 {
				others.AddCert(cert)
			}
		}
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: others})
		return err
	}
}

// rootsFor returns the roots to trust for a host, parsed once.
func (c *Connector) rootsFor(host, rootFile string) (*x509.CertPool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pool := c.roots[host]; pool != nil {
		return pool, nil
	}
	pool := x509.NewCertPool()
	rds := strings.HasSuffix(host, ".rds.amazonaws.com") || strings.HasSuffix(host, ".rds.amazonaws.com.cn")
	if !rds || strings.Contains(host, ".proxy-") {
		// RDS Proxy and every other host use public roots.
		if system, err := x509.SystemCertPool(); err == nil {
			pool = system
		}
	}
	rdsroots.Append(pool, host)
	if rootFile != "" && rootFile != "system" {
		pem, err := os.ReadFile(rootFile)
		if err != nil || !pool.AppendCertsFromPEM(pem) {
			return nil, settingsError("PGSSLROOTCERT holds no certificate that can be read")
		}
	}
	if c.roots == nil {
		c.roots = map[string]*x509.CertPool{}
	}
	c.roots[host] = pool
	return pool, nil
}

// parse reads the settings as libpq means them, but without sslmode it is
// verify-full off loopback: libpq would fall back to plain text there.
func parse(d config.Database) (*pgxpool.Config, error) {
	cfg, err := parseString(d.URL)
	if err != nil {
		return nil, err
	}
	if !modeSet(d.URL) && (d.SecretID != "" && d.URL == "" && os.Getenv("PGHOST") == "" || remote(cfg.ConnConfig.Config)) {
		if cfg, err = parseString(withVerifyFull(d.URL)); err != nil {
			return nil, err
		}
	}
	cc := cfg.ConnConfig
	if !strings.Contains(d.URL, "default_query_exec_mode") {
		// No named statements: they break behind a transaction pooler, pin a
		// session of RDS Proxy, and go stale when a column is added.
		cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectTimeout
	}
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "outbox-dispatcher"
	}
	if !strings.Contains(d.URL, "pool_max_conns") {
		cfg.MaxConns = poolSize
	}
	cfg.PingTimeout = pingTimeout
	return cfg, nil
}

func parseString(s string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(s)
	if err == nil {
		return cfg, nil
	}
	// The text of the error can hold a piece of the URL.
	var file *fs.PathError
	if errors.As(err, &file) {
		return nil, settingsError("names a file that cannot be read: " + file.Path)
	}
	return nil, settingsError("cannot be read: neither a URL such as postgres://user@host:5432/database nor libpq's key=value form")
}

// modeSet reports whether somebody chose an sslmode.
func modeSet(s string) bool {
	return strings.Contains(s, "sslmode=") || os.Getenv("PGSSLMODE") != "" || os.Getenv("PGSERVICE") != "" || strings.Contains(s, "service=")
}

// remote reports whether a connection would leave this machine.
func remote(c pgconn.Config) bool {
	network, _ := pgconn.NetworkAddress(c.Host, c.Port)
	return network != "unix" && !config.IsLoopback(c.Host)
}

func withVerifyFull(s string) string {
	if strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://") {
		u, err := url.Parse(s)
		if err != nil {
			return s
		}
		q := u.Query()
		q.Set("sslmode", "verify-full")
		u.RawQuery = q.Encode()
		return u.String()
	}
	return strings.TrimSpace(s + " sslmode=verify-full")
}

func settingsError(problem string) error {
	if !strings.HasPrefix(problem, "PG") {
		problem = "DATABASE_URL or a PG variable " + problem
	}
	return &config.SettingsError{Problems: []string{problem}}
}
