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
	"errors"
	"io/fs"
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

// source is the variable that holds the connection string.
const source = "DATABASE_URL"

// given is the value of a parameter and the variable that it comes from.
type given struct{ value, from string }

// settings are parameters by name.
type settings map[string]given

// Parse returns the settings of a pool. What the login of a secret holds wins over text,
// text over the service that it names, and that over the variables of env, which are
// those of this process or its superset. An error is a *config.SettingsError.
func Parse(text string, env config.Lookup, login config.Login) (*pgxpool.Config, error) {
	s := settings{}
	s.add("DATABASE_SECRET_ID", map[string]string{
		"host": login.Host, "port": portOf(login), "dbname": login.Database, "user": login.User, "password": login.Password})
	params, problems := read(text)
	s.add(source, params)
	s.environment(env, "service", "servicefile")
	problems = append(problems, s.service()...)
	s.environment(env, slices.Collect(maps.Keys(parameters))...)
	if login.Host != "" {
		delete(s, "hostaddr") // of another host
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		what, value := "", s[name].value
		if strings.ContainsRune(value, 0) {
			what = "holds a NUL"
		} else if wrong := parameters[name].wrong; wrong != nil {
			what = wrong(value)
		}
		if what != "" {
			problems = append(problems, named(s[name].from, name)+" "+what)
		}
	}
	addresses, problem := s.addresses()
	if problem != "" {
		problems = append(problems, problem)
	}
	if len(problems) > 0 {
		return nil, &config.SettingsError{Problems: problems}
	}
	return s.config(addresses)
}

func portOf(l config.Login) string {
	if l.Port == 0 {
		return ""
	}
	return strconv.Itoa(int(l.Port))
}

// add adds what is not there yet. An empty value counts as not given.
func (s settings) add(from string, params map[string]string) {
	for name, value := range params {
		if _, there := s[name]; !there && value != "" {
			s[name] = given{value, from}
		}
	}
}

func (s settings) environment(env config.Lookup, names ...string) {
	for _, name := range names {
		if variable := parameters[name].env; variable != "" {
			value, _ := env(variable)
			s.add(variable, map[string]string{name: value})
		}
	}
}

// service adds what the named section of the service file holds.
func (s settings) service() (problems []string) {
	name, there := s["service"]
	if !there {
		return nil
	}
	file := s["servicefile"].value
	if home, err := os.UserHomeDir(); file == "" && err == nil {
		file = filepath.Join(home, ".pg_service.conf")
	}
	services, err := pgservicefile.ReadServicefile(file)
	if err != nil {
		return []string{named(name.from, "service") + " needs a service file, and that cannot be read"}
	}
	section, err := services.GetService(name.value)
	if err != nil {
		return []string{named(name.from, "service") + " names a service that the service file does not have"}
	}
	for _, key := range slices.Sorted(maps.Keys(section.Settings)) {
		if _, known := parameters[key]; !known {
			problems = append(problems, named("PGSERVICE", key)+" "+unknown)
		}
	}
	s.add("PGSERVICE", section.Settings)
	return problems
}

// named is a parameter as people find it: a variable of its own, or the connection
// string that holds it.
func named(from, name string) string {
	if parameters[name].env == from {
		return from
	}
	return from + " (" + name + ")"
}

// addresses takes hostaddr in: it returns the address of each host that has one, and
// where there is no host name the address takes its place.
func (s settings) addresses() (of map[string]string, problem string) {
	addr, there := s["hostaddr"]
	if !there {
		return nil, ""
	}
	delete(s, "hostaddr")
	addrs := strings.Split(addr.value, ",")
	hosts := make([]string, len(addrs))
	if host, there := s["host"]; there {
		hosts = strings.Split(host.value, ",")
	}
	if len(hosts) != len(addrs) {
		return nil, named(addr.from, "hostaddr") + " must list as many addresses as there are hosts"
	}
	of = map[string]string{}
	for i, a := range addrs {
		switch {
		case a == "":
		case hosts[i] == "" || isSocket(hosts[i]):
			hosts[i] = a
		default:
			of[hosts[i]] = a
		}
	}
	s["host"] = given{strings.Join(hosts, ","), addr.from}
	return of, ""
}

func isSocket(host string) bool { return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") }

// leaves reports whether a connection can leave this machine.
func (s settings) leaves(addresses map[string]string) bool {
	return slices.ContainsFunc(strings.Split(s["host"].value, ","), func(host string) bool {
		return host != "" && !isSocket(host) && !config.IsLoopback(cmp.Or(addresses[host], host))
	})
}

// config has pgx make a configuration of the parameters.
func (s settings) config(addresses map[string]string) (*pgxpool.Config, error) {
	if s["sslmode"].value == "" && s.leaves(addresses) {
		s["sslmode"] = given{value: "verify-full"}
	}
	if s["connect_timeout"].value == "0" {
		delete(s, "connect_timeout")
	}
	s.add("", map[string]string{"application_name": s["fallback_application_name"].value})
	s.add("", defaults)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if parameters[name].as == passed {
			text.WriteString(name + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s[name].value) + "' ")
		}
	}
	cfg, err := pgxpool.ParseConfig(text.String())
	if err != nil {
		return nil, s.explain(err)
	}
	cc := cfg.ConnConfig
	// A pooler refuses parameters that it does not know, such as those of PGTZ.
	maps.DeleteFunc(cc.RuntimeParams, func(name, _ string) bool { return name != "application_name" && name != "options" })
	if len(addresses) > 0 {
		cc.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
			if a, there := addresses[host]; there {
				return []string{a}, nil
			}
			return net.DefaultResolver.LookupHost(ctx, host)
		}
	}
	for _, try := range append([]*pgconn.FallbackConfig{{Host: cc.Host, TLSConfig: cc.TLSConfig}}, cc.Fallbacks...) {
		if try.TLSConfig != nil {
			s.secure(try.TLSConfig, try.Host)
		}
	}
	return cfg, nil
}

// secure completes what pgx made of the TLS parameters. Where no roots are named, those
// of RDS and of the system count.
func (s settings) secure(t *tls.Config, host string) {
	versions := map[string]uint16{"TLSv1": tls.VersionTLS10, "TLSv1.1": tls.VersionTLS11, "TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}
	t.MinVersion = versions[s["ssl_min_protocol_version"].value]
	t.MaxVersion = versions[s["ssl_max_protocol_version"].value]
	if t.RootCAs == nil && Verifies(t) {
		t.RootCAs = rootsOf(host)
	}
}

// Verifies reports whether TLS with these settings refuses a server whose certificate
// cannot be trusted. Nil, which is plain text, does not.
func Verifies(t *tls.Config) bool {
	return t != nil && (!t.InsecureSkipVerify || t.VerifyPeerCertificate != nil)
}

var roots sync.Map // host -> *x509.CertPool: for an alias of RDS they take 5 ms

func rootsOf(host string) *x509.CertPool {
	if pool, there := roots.Load(host); there {
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

// explain names the parameter that pgx cannot use. The text of its error can hold a
// piece of a value.
func (s settings) explain(err error) error {
	problem := source + " and the PG variables do not go together, such as sslcert without sslkey, or two ports for three hosts"
	var file *fs.PathError
	path := ""
	if errors.As(err, &file) {
		path = file.Path
	}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		switch v := s[name]; {
		case v.value == "":
		case v.value == path:
			problem = named(v.from, name) + " names a file that cannot be read"
		case name == "sslrootcert" && path == "":
			if pem, err := os.ReadFile(v.value); err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
				problem = named(v.from, name) + " names a file without a certificate in it"
			}
		}
	}
	return &config.SettingsError{Problems: []string{problem}}
}
