// Package dsn turns DATABASE_URL, the PG* variables and the login of a secret into the
// settings of sessions with Postgres, as libpq means them. It connects to nothing.
//
// It departs from libpq where that would be unsafe: without an sslmode it is verify-full
// off loopback, where libpq would fall back to plain text. No error holds a value.
package dsn

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgservicefile"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres/rdsroots"
)

// defaults hold where nothing else is said.
var defaults = map[string]string{
	"application_name": "outbox-dispatcher",
	// One attempt to connect: in a VPC it takes milliseconds, and what takes seconds is a
	// packet that a security group drops.
	"connect_timeout": "5",
	// No named statements: they break behind a transaction pooler, pin a session of RDS
	// Proxy, and go stale when a column is added.
	"default_query_exec_mode": "exec",
	// A claim and a group of outcomes can be under way at once.
	"pool_max_conns": "2",
	// Whether a session outlived the freeze is known soon.
	"pool_ping_timeout": "2s",
}

// settings are values by the name of their parameter.
type settings map[string]string

// Parse returns the settings of a pool. What the login of a secret holds wins over text,
// text over the service that it names, and that over env, which is the environment of this
// process or more. An error is a *config.SettingsError.
func Parse(text string, env config.Lookup, login config.Login) (*pgxpool.Config, error) {
	params, problem := read(text)
	if problem != "" {
		return nil, failure("DATABASE_URL " + problem)
	}
	s := settings{}
	s.add(settings{"host": login.Host, "dbname": login.Database, "user": login.User, "password": login.Password})
	if login.Port != 0 {
		s["port"] = strconv.Itoa(int(login.Port))
	}
	s.add(params)
	for _, name := range []string{"service", "servicefile"} {
		value, _ := env(parameters[name].env)
		s.add(settings{name: value})
	}
	if s["service"] != "" && !s.addService() {
		return nil, failure("DATABASE_URL (service) or PGSERVICE names a service that the service file does not have")
	}
	for name, p := range parameters {
		value, _ := env(p.env)
		s.add(settings{name: value})
	}
	if login.Host != "" {
		delete(s, "hostaddr") // of another host
	}
	if problems := s.problems(); len(problems) > 0 {
		return nil, failure(problems...)
	}
	return s.config()
}

func failure(problems ...string) error { return &config.SettingsError{Problems: problems} }

// add adds what is not there yet. An empty value counts as not given.
func (s settings) add(more map[string]string) {
	for name, value := range more {
		if s[name] == "" && value != "" {
			s[name] = value
		}
	}
}

// addService adds what the service file holds of the service. pgx would do so as well,
// without telling whether it holds an sslmode.
func (s settings) addService() bool {
	home, _ := os.UserHomeDir()
	file, err := pgservicefile.ReadServicefile(cmp.Or(s["servicefile"], filepath.Join(home, ".pg_service.conf")))
	if err != nil {
		return false
	}
	service, err := file.GetService(s["service"])
	if err == nil {
		s.add(service.Settings)
	}
	return err == nil
}

// problems says what is wrong with which parameter.
func (s settings) problems() (problems []string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		p, value, what := parameters[name], s[name], ""
		switch {
		case name == "":
			problems = append(problems, "DATABASE_URL has a parameter that libpq does not know; remove it, and put quotes around a password in the key=value form")
		case !isKnown(name):
			what = "is not a parameter of libpq; remove it"
		case strings.ContainsRune(value, 0):
			what = "holds a NUL"
		case p.wrong != nil:
			what = p.wrong(value)
		}
		if name == "hostaddr" && s["host"] != "" && strings.Count(value, ",") != strings.Count(s["host"], ",") {
			what = "must list as many addresses as there are hosts"
		}
		if what != "" && p.env != "" {
			name += ") or " + p.env + " "
		} else {
			name += ") "
		}
		if what != "" {
			problems = append(problems, "DATABASE_URL ("+name+what)
		}
	}
	return problems
}

// config has pgx make a configuration.
func (s settings) config() (*pgxpool.Config, error) {
	address := map[string]string{} // of a host
	if s["hostaddr"] != "" {
		s.add(settings{"host": s["hostaddr"]})
		addrs := strings.Split(s["hostaddr"], ",")
		for i, host := range strings.Split(s["host"], ",") {
			address[host] = addrs[i]
		}
	}
	leaves := func(host string) bool { // this machine
		return host != "" && host[0] != '/' && host[0] != '@' && !config.IsLoopback(cmp.Or(address[host], host))
	}
	if slices.ContainsFunc(strings.Split(s["host"], ","), leaves) {
		s.add(settings{"sslmode": "verify-full"})
	}
	if s["connect_timeout"] == "0" { // without end
		delete(s, "connect_timeout")
	}
	s.add(settings{"application_name": s["fallback_application_name"]})
	s.add(defaults)
	var text strings.Builder
	for name, value := range s {
		if !slices.Contains(handled, name) && !slices.Contains(ignored, name) {
			text.WriteString(name + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "' ")
		}
	}
	cfg, err := pgxpool.ParseConfig(text.String())
	if err != nil { // its text can hold a piece of a value
		return nil, failure("DATABASE_URL and the PG variables do not go together, such as sslcert without sslkey, or two ports for three hosts")
	}
	cc := cfg.ConnConfig
	// A pooler refuses parameters that it does not know, such as those of PGTZ.
	maps.DeleteFunc(cc.RuntimeParams, func(name, _ string) bool { return name != "application_name" && name != "options" })
	cc.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		if address[host] != "" {
			return []string{address[host]}, nil
		}
		return net.DefaultResolver.LookupHost(ctx, host)
	}
	versions := map[string]uint16{"TLSv1": tls.VersionTLS10, "TLSv1.1": tls.VersionTLS11, "TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}
	for _, try := range append([]*pgconn.FallbackConfig{{Host: cc.Host, TLSConfig: cc.TLSConfig}}, cc.Fallbacks...) {
		if t := try.TLSConfig; t != nil {
			t.MinVersion, t.MaxVersion = versions[s["ssl_min_protocol_version"]], versions[s["ssl_max_protocol_version"]]
			if t.RootCAs == nil && Verifies(t) {
				t.RootCAs = rootsOf(try.Host)
			}
		}
	}
	return cfg, nil
}

// Verifies reports whether TLS with these settings refuses a server whose certificate
// cannot be trusted. Nil, which is plain text, does not.
func Verifies(t *tls.Config) bool {
	return t != nil && (!t.InsecureSkipVerify || t.VerifyPeerCertificate != nil)
}

var roots sync.Map // host -> *x509.CertPool: for an alias of RDS they take 5 ms

// rootsOf returns what is trusted where no roots are named: those of RDS and the system.
func rootsOf(host string) *x509.CertPool {
	if pool, found := roots.Load(host); found {
		return pool.(*x509.CertPool)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	rdsroots.Append(pool, host)
	roots.Store(host, pool)
	return pool
}
