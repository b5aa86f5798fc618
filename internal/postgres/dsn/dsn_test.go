package dsn_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres/dsn"
)

const secret = "hunter2"

// environment has nothing but what a test puts there.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	v, ok := e[name]
	return v, ok
}

func TestMain(m *testing.M) {
	for _, v := range os.Environ() { // pgx looks there by itself
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// told is what a configuration says, in the order of libpq's key=value form.
func told(cfg *pgxpool.Config) string {
	c := cfg.ConnConfig
	encryption := "plain"
	switch {
	case dsn.Verifies(c.TLSConfig):
		encryption = "verified"
	case c.TLSConfig != nil && len(c.Fallbacks) > 0:
		encryption = "prefer"
	case c.TLSConfig != nil:
		encryption = "any"
	}
	return fmt.Sprintf("%s:%d %s %s %s %s", c.Host, c.Port, c.Database, c.User, c.Password, encryption)
}

func TestParse(t *testing.T) {
	t.Parallel()
	services := filepath.Join(t.TempDir(), "services")
	if err := os.WriteFile(services, []byte("[orders]\nhost=s.example\nport=7\nuser=service\nsslmode=disable\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const whole = "db.example:5432 app bot hunter2 verified"
	for _, c := range []struct {
		name, text string
		env        environment
		login      config.Login
		want       string
	}{
		{name: "URL", text: "postgres://bot:hunter2@db.example/app", want: whole},
		{name: "LongScheme", text: "postgresql://bot:hunter2@db.example/app", want: whole},
		{name: "Capitals", text: "POSTGRES://bot:hunter2@db.example/app", want: whole},
		{name: "Space", text: " postgres://bot:hunter2@db.example/app\r\n", want: whole},
		{name: "ByteOrderMark", text: "\ufeffpostgres://bot:hunter2@db.example/app", want: whole},
		{name: "Quotes", text: "'postgres://bot:hunter2@db.example/app'", want: whole},
		{name: "SpaceInDoubleQuotes", text: "\n\" postgres://bot:hunter2@db.example/app \"", want: whole},
		{name: "Psycopg2", text: "postgresql+psycopg2://bot:hunter2@db.example/app", want: whole},
		{name: "Psycopg", text: "postgresql+psycopg://bot:hunter2@db.example/app", want: whole},
		{name: "Asyncpg", text: "Postgres+asyncpg://bot:hunter2@db.example/app", want: whole},
		{name: "Query", text: "postgres:///app?host=db.example&user=bot&password=hunter2", want: whole},
		{name: "Words", text: "host=db.example dbname = app user=bot password='hunter2' ", want: whole},
		{name: "WordsInQuotes", text: `"host=db.example dbname=app user=bot password='hunter2'"`, want: whole},
		{name: "Escapes", text: "postgres://b%40t:p%2Fw+%20x@db.example/a%3Fb", want: "db.example:5432 a?b b@t p/w+ x verified"},
		{name: "EscapesInWords", text: `host=db.example dbname=a\ b user='b\'t' password=a://b`, want: "db.example:5432 a b b't a://b verified"},
		{name: "IPv6", text: "postgres://bot@[2001:db8::1]:7/app", want: "2001:db8::1:7 app bot  verified"},
		{name: "SeveralHosts", text: "postgres://bot@a.example:1,b.example:2/app", want: "a.example:1 app bot  verified"},
		{name: "Environment", env: environment{"PGHOST": "db.example", "PGDATABASE": "app", "PGUSER": "bot", "PGPASSWORD": secret}, want: whole},
		{name: "TextBeforeEnvironment", text: "postgres://bot:hunter2@db.example/app", env: environment{"PGHOST": "x", "PGPORT": "", "PGUSER": "x", "PGPASSWORD": "x"}, want: whole},
		{name: "SpaceBeforeAURLAndEnvironment", text: " postgres://bot:hunter2@db.example/app", env: environment{"PGHOST": "x"}, want: whole},
		{name: "Secret", text: "postgres://x:x@localhost:1/x", login: config.Login{Host: "db.example", Port: 5432, Database: "app", User: "bot", Password: secret}, want: whole},
		{name: "SecretOfRDS", text: "host=db.example dbname=app", login: config.Login{User: "bot", Password: secret}, want: whole},
		{name: "SecretAtAnotherAddress", text: "host=localhost hostaddr=127.0.0.1", env: environment{"PGHOSTADDR": "127.0.0.1"}, login: config.Login{Host: "db.example", Database: "app", User: "bot", Password: secret}, want: whole},
		{name: "Service", text: "service=orders dbname=app servicefile=" + services, env: environment{"PGPORT": "9"}, want: "s.example:7 app service  plain"},
		{name: "ServiceOfTheEnvironment", text: "dbname=app user=bot", env: environment{"PGSERVICE": "orders", "PGSERVICEFILE": services}, want: "s.example:7 app bot  plain"},

		{name: "LoopbackPrefersTLS", text: "postgres://bot@127.0.0.1/app", want: "127.0.0.1:5432 app bot  prefer"},
		{name: "ALoopbackAddressStays", text: "host=db.example hostaddr=127.0.0.1 user=bot dbname=app", want: "db.example:5432 app bot  prefer"},
		{name: "AnotherAddressLeaves", text: "host=localhost hostaddr=10.0.0.1 user=bot dbname=app", want: "localhost:5432 app bot  verified"},
		{name: "AnAddressAlone", text: "hostaddr=10.0.0.1 user=bot dbname=app", want: "10.0.0.1:5432 app bot  verified"},
		{name: "OneOfTwoLeaves", text: "postgres://bot@127.0.0.1,b.example/app", want: "127.0.0.1:5432 app bot  verified"},
		{name: "AChosenMode", text: "postgres://bot@db.example/app?sslmode=prefer", want: "db.example:5432 app bot  prefer"},
		{name: "AModeOfTheEnvironment", text: "postgres://bot@db.example/app", env: environment{"PGSSLMODE": "require"}, want: "db.example:5432 app bot  any"},
		{name: "JDBC", text: "postgres://bot@db.example/app?ssl=true", want: "db.example:5432 app bot  any"},
		{name: "NoModeInAPassword", text: "host=db.example dbname=app user=bot password='x sslmode=disable'", want: "db.example:5432 app bot x sslmode=disable verified"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := dsn.Parse(c.text, c.env.lookup, c.login)
			if err != nil {
				t.Fatal(err)
			}
			if got := told(cfg); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Every parameter of libpq is taken as libpq would, and none reaches the server that a
// pooler could refuse.
func TestEveryParameterOfLibpq(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"host": "db.example", "hostaddr": "10.0.0.1", "port": "1", "dbname": "x", "user": "x", "password": "x", "passfile": "/nowhere", "connect_timeout": "9",
		"client_encoding": "auto", "application_name": "x", "fallback_application_name": "x", "keepalives": "1", "keepalives_idle": "30", "keepalives_interval": "10",
		"keepalives_count": "3", "tcp_user_timeout": "1000", "replication": "false", "gssencmode": "prefer", "sslmode": "require", "sslnegotiation": "direct", "sslcompression": "0",
		"sslpassword": "x", "sslcertmode": "allow", "sslrootcert": "system", "sslsni": "0", "ssl_min_protocol_version": "TLSv1.3", "ssl_max_protocol_version": "TLSv1.3",
		"min_protocol_version": "3.0", "max_protocol_version": "latest", "krbsrvname": "x", "gsslib": "gssapi", "gssdelegation": "0", "target_session_attrs": "read-write",
		"load_balance_hosts": "random", "channel_binding": "prefer", "require_auth": "!password,!md5", "oauth_issuer": "https://x", "oauth_client_id": "x", "oauth_client_secret": "x",
		"oauth_scope": "x", "sslkeylogfile": "/nowhere",
	} {
		cfg, err := dsn.Parse("postgres://bot@127.0.0.1/app?"+name+"="+value, environment{}.lookup, config.Login{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		params := cfg.ConnConfig.RuntimeParams
		if want := map[bool]string{true: "x", false: "outbox-dispatcher"}[strings.HasSuffix(name, "application_name")]; params["application_name"] != want || len(params) != 1 {
			t.Errorf("%s: it would send %v", name, params)
		}
	}
	cfg, err := dsn.Parse("host=db.example hostaddr=10.0.0.9 ssl_min_protocol_version=TLSv1.3 options='-c geqo=off' connect_timeout=9 pool_max_conns=1 default_query_exec_mode=simple_protocol",
		environment{"PGTZ": "Asia/Kolkata", "PGSSLMAXPROTOCOLVERSION": "TLSv1.3"}.lookup, config.Login{})
	if err != nil {
		t.Fatal(err)
	}
	c := cfg.ConnConfig
	addrs, err := c.LookupFunc(t.Context(), "db.example")
	if err != nil || fmt.Sprint(addrs) != "[10.0.0.9]" || c.TLSConfig.ServerName != "db.example" {
		t.Errorf("db.example is at %v (%v), with a certificate for %s", addrs, err, c.TLSConfig.ServerName)
	}
	if c.TLSConfig.MinVersion != tls.VersionTLS13 || c.TLSConfig.MaxVersion != tls.VersionTLS13 || c.RuntimeParams["options"] != "-c geqo=off" ||
		c.ConnectTimeout != 9*time.Second || cfg.MaxConns != 1 || c.DefaultQueryExecMode.String() != "simple protocol" {
		t.Errorf("TLS %x to %x, %v, %v to connect, %d sessions, %v", c.TLSConfig.MinVersion, c.TLSConfig.MaxVersion, c.RuntimeParams, c.ConnectTimeout, cfg.MaxConns, c.DefaultQueryExecMode)
	}
	cfg, err = dsn.Parse("", environment{}.lookup, config.Login{})
	if err != nil || cfg.MaxConns != 2 || cfg.ConnConfig.ConnectTimeout != 5*time.Second || cfg.PingTimeout != 2*time.Second || cfg.ConnConfig.DefaultQueryExecMode.String() != "exec" {
		t.Errorf("by default: %+v, %v", cfg, err)
	}
}

func TestSettingsErrors(t *testing.T) {
	t.Parallel()
	const notPostgres, unknown, unread = "DATABASE_URL is not a URL of Postgres", "is not a parameter of libpq", "DATABASE_URL cannot be read"
	for text, want := range map[string]string{
		"mysql://app:hunter2@db.example/app":                         notPostgres,
		"jdbc:postgresql://db.example/app?user=app&password=hunter2": notPostgres,
		"postgresql+psycopg2 ://app:hunter2@db.example/app":          notPostgres,
		"'postgres://app:hunter2@db.example/app":                     notPostgres,
		"url=postgres://app:hunter2@db.example/app":                  notPostgres,
		"hunter2":  unread,
		"hunter2=": unread,
		`{"username":"app","password":"hunter2="}`:                              unread,
		"host=db.example password='hunter2":                                     unread,
		"host=db.example password=my hunter2":                                   unread,
		"postgres://app:hunter2%zz@db.example/app":                              unread,
		"postgres://app:hunter2@db.example/app?sslmode":                         unread,
		"postgres://app:my@hunter2@db.example/app":                              unread,
		"postgres://app:12/hunter2@db.example/app":                              unread,
		"postgres://app:my@db.example/?dbname=hunter2@db.example/app":           unread,
		"postgres://app:my/hunter2@db.example/app":                              unread,
		"postgres://app:hunter2@[::1/app":                                       unread,
		"postgres://app:hunter2@db.example/app?schema=public":                   "DATABASE_URL (schema) " + unknown,
		"postgres://app:hunter2@db.example/app?pgbouncer=true":                  "DATABASE_URL (pgbouncer) " + unknown,
		"postgres://app:hunter2@db.example/app?connection_limit=1":              "DATABASE_URL (connection_limit) " + unknown,
		"postgres://app:hunter2@db.example/app?prepared_statement_cache_size=0": "DATABASE_URL (prepared_statement_cache_size) " + unknown,
		"postgres://app:hunter2@db.example/app?search_path=x":                   "DATABASE_URL (search_path) " + unknown,
		"host=db.example sslMode=require":                                       "DATABASE_URL (sslMode) " + unknown,
		"schema=x host=db.example":                                              "DATABASE_URL (schema) " + unknown,
		"host=db.example password=my hunter2=x":                                 "DATABASE_URL has a parameter that libpq does not know",
		"host=db.example host-er=x":                                             "DATABASE_URL has a parameter that libpq does not know",
		"postgres://db.example/app?password=my&hunter2=x":                       "DATABASE_URL has a parameter that libpq does not know",
		"postgres://app:12?hunter2=x/y@db.example/app":                          "DATABASE_URL has a parameter that libpq does not know",
		"postgres://app:hunter2@db.example:port/app":                            "DATABASE_URL (port) or PGPORT must be a port from 1 to 65535",
		"postgres://app:hunter2@db.example:0/app":                               "DATABASE_URL (port) or PGPORT must be a port",
		"host=a,b port=1,2,3":                                                   "DATABASE_URL and the PG variables do not go together",
		"host=a,b hostaddr=10.0.0.1":                                            "DATABASE_URL (hostaddr) or PGHOSTADDR must list as many addresses as there are hosts",
		"hostaddr=db.example":                                                   "DATABASE_URL (hostaddr) or PGHOSTADDR must be an IP address",
		"postgres://db.example/app?sslmode=verify_full":                         "DATABASE_URL (sslmode) or PGSSLMODE must be one of disable, allow, prefer, require, verify-ca, verify-full",
		"postgres://app@db.example/app?connect_timeout=hunter2":                 "DATABASE_URL (connect_timeout) or PGCONNECT_TIMEOUT must be a whole number of seconds",
		"postgres://app@db.example/app?default_query_exec_mode=hunter2":         "DATABASE_URL (default_query_exec_mode) must be one of",
		"postgres://app@db.example/app?pool_max_conns=0":                        "DATABASE_URL (pool_max_conns) must be a whole number above 0",
		"postgres://app@db.example/app?gssencmode=require":                      "DATABASE_URL (gssencmode) or PGGSSENCMODE must be one of disable, prefer",
		"postgres://app@db.example/app?replication=database":                    "DATABASE_URL (replication) must be one of",
		"postgres://app@db.example/app?require_auth=hunter2":                    "DATABASE_URL (require_auth) or PGREQUIREAUTH must be a method",
		"postgres://app@db.example/app?sslcrl=/hunter2":                         "DATABASE_URL (sslcrl) or PGSSLCRL is not supported",
		"postgres://app@db.example/app?scram_client_key=hunter2":                "DATABASE_URL (scram_client_key) is not supported",
		"postgres://app@db.example/app?sslrootcert=/hunter2":                    "DATABASE_URL (sslrootcert) or PGSSLROOTCERT must be the path of a readable file",
		"postgres://app@db.example/app?sslrootcert=/etc/hostname":               "DATABASE_URL (sslrootcert) or PGSSLROOTCERT must be the path of a readable file",
		"postgres://app@db.example/app?sslcert=/x&sslkey=/hunter2":              "DATABASE_URL (sslkey) or PGSSLKEY must be the path of a readable file",
		"postgres://app@db.example/app?sslcert=/etc/hostname":                   "such as sslcert without sslkey",
		"postgres://app:%00hunter2@db.example/app":                              "DATABASE_URL (password) or PGPASSWORD holds a NUL",
		"service=hunter2 servicefile=/nowhere":                                  "DATABASE_URL (service) or PGSERVICE names a service",
		"postgres://db.example?schema=x&sslmode=x":                              "DATABASE_URL (sslmode) or PGSSLMODE must be", // and the other
	} {
		_, err := dsn.Parse(text, environment{}.lookup, config.Login{})
		check(t, text, err, want)
	}
	for name, want := range map[string]string{
		"PGPORT": "PGPORT must be a port", "PGSSLMODE": "PGSSLMODE must be one of", "PGSSLCRL": "PGSSLCRL is not supported", "PGREQUIREPEER": "PGREQUIREPEER is not supported",
		"PGGSSENCMODE": "PGGSSENCMODE must be one of", "PGHOSTADDR": "PGHOSTADDR must be an IP address", "PGSERVICE": "PGSERVICE names a service", "PGSSLROOTCERT": "PGSSLROOTCERT must be the path",
	} {
		env := environment{name: secret, "PGSERVICEFILE": "/nowhere"}
		_, err := dsn.Parse("host=db.example", env.lookup, config.Login{})
		check(t, name, err, want)
	}
	services := filepath.Join(t.TempDir(), "services")
	if err := os.WriteFile(services, []byte("[orders]\nschema=hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for service, want := range map[string]string{"orders": "DATABASE_URL (schema) " + unknown, "bills": "PGSERVICE names a service that the service file does not have"} {
		env := environment{"PGSERVICE": service, "PGSERVICEFILE": services}
		_, err := dsn.Parse("", env.lookup, config.Login{})
		check(t, service, err, want)
	}
}

func check(t *testing.T, what string, err error, want string) {
	t.Helper()
	var settings *config.SettingsError
	if !errors.As(err, &settings) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// Roots that are named count alone; without them those of RDS and of the system do.
func TestRoots(t *testing.T) {
	t.Parallel()
	bundle, err := os.ReadFile("../rdsroots/roots.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(bundle)
	rds, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	own, file := authority(t)
	for _, c := range []struct {
		text         string
		ofRDS, owned bool
	}{
		{"host=db.example", true, false},
		{"host=db.example sslmode=verify-ca", true, false},
		{"host=db.example sslrootcert=" + file, false, true},
		{"host=db.example sslmode=verify-ca sslrootcert=" + file, false, true},
		{"host=db.example sslmode=require sslrootcert=" + file, false, true},
	} {
		cfg, err := dsn.Parse(c.text, environment{}.lookup, config.Login{})
		if err != nil {
			t.Fatal(err)
		}
		trusts := func(cert *x509.Certificate) bool {
			tlsConfig := cfg.ConnConfig.Copy().TLSConfig // as the pool does it
			if tlsConfig.VerifyPeerCertificate != nil {
				return tlsConfig.VerifyPeerCertificate([][]byte{cert.Raw}, nil) == nil
			}
			_, err := cert.Verify(x509.VerifyOptions{Roots: tlsConfig.RootCAs})
			return err == nil
		}
		if trusts(rds) != c.ofRDS || trusts(own) != c.owned {
			t.Errorf("%s: trusts RDS %v, the authority of the file %v", c.text, trusts(rds), trusts(own))
		}
	}
}

func authority(t *testing.T) (cert *x509.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, file
}

// A text that we take means to us what it means to pgx, which reads as libpq does; and a
// settings error shows nothing of it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", " ", "postgres://", "postgresql://a", "postgres://u:p@a:1,[::1]:2/d?sslmode=disable&user=x", "postgres://u:p?q@a/b", "postgres://u@/d?host=/tmp", "postgres://a:/?port=",
		"host=a", "host = 'a b' port=1", `user='\'' password=\\ `, "host=a dbname=", "=", "host='", "postgres://a?ssl=true&sslmode=prefer", "postgres://%61%zz", "user=a@b", "postgres://a/b@c",
		"postgres://u:p@h/d?x=y", "password=a b=c", "host=a,b port=1,2", "\x00", "postgres://é:ü@h", "host=127.0.0.1 sslmode=disable", `user=0\ `, "postgres:// @",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := dsn.Parse(text, environment{}.lookup, config.Login{})
		if err != nil {
			var settings *config.SettingsError
			if !errors.As(err, &settings) {
				t.Errorf("a %T", err)
			}
			return
		}
		// We take more: white space, quotes, capitals, drivers.
		isURL := strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
		if !isURL && (strings.Contains(text, "://") || strings.ContainsAny(text, "\"'\ufeff\u200b\u00a0\u0085")) {
			return
		}
		if isURL {
			text = strings.TrimRight(text, " \t\n\r\v\f\u00a0\u0085\u1680\u2000\u2028\u2029\u3000\ufeff\u200b")
		}
		theirs, err := pgxpool.ParseConfig(text)
		if err != nil {
			return
		}
		ours, want := cfg.ConnConfig, theirs.ConnConfig
		if want.User == "" { // to us an empty value is none
			want.User = ours.User
		}
		if ours.User != want.User || ours.Password != want.Password || ours.Database != want.Database {
			t.Errorf("%q is %q %q %q and not %q %q %q", text, ours.User, ours.Password, ours.Database, want.User, want.Password, want.Database)
		}
		if !strings.Contains(text, "hostaddr") && (ours.Host != want.Host || ours.Port != want.Port) {
			t.Errorf("%q is at %q:%d and not %q:%d", text, ours.Host, ours.Port, want.Host, want.Port)
		}
	})
}
