package postgres

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// authority signs certificates.
type authority struct {
	t        *testing.T
	key      *ecdsa.PrivateKey
	cert     *x509.Certificate
	file     string // its own certificate
	notAfter time.Time
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, notAfter: time.Now().Add(time.Hour), file: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: a.notAfter, IsCA: true, BasicConstraintsValid: true}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// sign makes the files of a server with those names.
func (a *authority) sign(hosts ...string) *throwaway.TLS {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: hosts, NotAfter: a.notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	folder := a.t.TempDir()
	files := &throwaway.TLS{CertFile: filepath.Join(folder, "cert.pem"), KeyFile: filepath.Join(folder, "key.pem")}
	writePEM(a.t, files.CertFile, "CERTIFICATE", der)
	writePEM(a.t, files.KeyFile, "PRIVATE KEY", private)
	return files
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
}

func startServer(t *testing.T, options throwaway.Options) *throwaway.Server {
	t.Helper()
	options.InMemory = true
	s, err := throwaway.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dialing sends every connection to one port of this machine, whatever its host.
func dialing(port int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
}

// ready opens a store with the settings and returns what its first look said. A
// table that is not there is as far as these tests go.
func ready(t *testing.T, d config.Database, c *Connector) string {
	t.Helper()
	d.Table = config.Table{Name: "outbox_events"}
	s, err := Open(d, c)
	if err != nil {
		return err.Error()
	}
	defer s.Close()
	switch err := s.Ready(t.Context()); {
	case err == nil:
		return "connected"
	case strings.Contains(err.Error(), `"outbox_events" is not there`):
		return "connected"
	default:
		return err.Error()
	}
}

func TestTLS(t *testing.T) {
	// Not parallel: some of it is told by the environment.
	ca, other := newAuthority(t), newAuthority(t)
	const rds = "x.y.eu-west-1.rds.amazonaws.com"
	server := startServer(t, throwaway.Options{TLS: ca.sign("db.example", rds), HBA: []string{
		"hostssl all all 127.0.0.1/32 trust", "hostnossl all postgres 127.0.0.1/32 trust", "hostnossl all all 127.0.0.1/32 reject"}})
	c := func() *Connector { return &Connector{dial: dialing(server.Port())} }
	const foreign, unknown = "is for another host", "is not trusted; name its roots in PGSSLROOTCERT"

	for _, try := range []struct {
		name string
		url  string
		env  [2]string
		want string
	}{
		{"AnAuthorityThatNobodyNamed", "postgres://postgres@db.example/postgres", [2]string{}, unknown},
		{"ItsAuthority", "postgres://postgres@db.example/postgres", [2]string{"PGSSLROOTCERT", ca.file}, "connected"},
		{"ItsAuthorityInTheURL", "postgres://postgres@db.example/postgres?sslrootcert=" + ca.file, [2]string{}, "connected"},
		{"ItsAuthorityInWords", "host=db.example user=postgres dbname=postgres sslrootcert='" + ca.file + "'", [2]string{}, "connected"},
		{"TheURLBeforeTheEnvironment", "postgres://postgres@db.example/postgres?sslrootcert=" + ca.file, [2]string{"PGSSLROOTCERT", other.file}, "connected"},
		{"AnotherAuthority", "postgres://postgres@db.example/postgres", [2]string{"PGSSLROOTCERT", other.file}, unknown},
		{"AnotherHost", "postgres://postgres@db2.example/postgres", [2]string{"PGSSLROOTCERT", ca.file}, foreign},
		{"AnotherHostWithVerifyCA", "postgres://postgres@db2.example/postgres?sslmode=verify-ca", [2]string{"PGSSLROOTCERT", ca.file}, "connected"},
		{"AnotherAuthorityWithVerifyCA", "postgres://postgres@db.example/postgres?sslmode=verify-ca", [2]string{"PGSSLROOTCERT", other.file}, unknown},
		{"VerifyCAWithoutAnAuthority", "postgres://postgres@db.example/postgres?sslmode=verify-ca", [2]string{}, unknown},
		{"RequireTakesAny", "postgres://postgres@db2.example/postgres?sslmode=require", [2]string{}, "connected"},
		{"RequireWithAnAuthorityIsVerifyCA", "postgres://postgres@db2.example/postgres?sslmode=require", [2]string{"PGSSLROOTCERT", other.file}, unknown},
		{"RequireByTheEnvironment", "postgres://postgres@db2.example/postgres", [2]string{"PGSSLMODE", "require"}, "connected"},
		{"DisableByTheEnvironment", "postgres://postgres@db2.example/postgres", [2]string{"PGSSLMODE", "disable"}, "connected"},
		{"LoopbackTakesAny", "postgres://postgres@127.0.0.1/postgres", [2]string{}, "connected"},
		{"LoopbackWithVerifyFull", "postgres://postgres@127.0.0.1/postgres?sslmode=verify-full", [2]string{"PGSSLROOTCERT", ca.file}, foreign},
		{"RDSWithAnAuthorityThatNobodyNamed", "postgres://postgres@" + rds + "/postgres", [2]string{}, unknown},
		{"RDSWithAnotherAuthority", "postgres://postgres@" + rds + "/postgres", [2]string{"PGSSLROOTCERT", ca.file}, "connected"},
		{"ARoleThatMayNotComeWithoutTLS", "postgres://other@db.example/postgres?sslmode=disable", [2]string{}, "pg_hba.conf has no line for this address and encryption"},
		{"AFileThatIsNotThere", "postgres://postgres@db.example/postgres", [2]string{"PGSSLROOTCERT", "/nowhere/ca.pem"}, "PGSSLROOTCERT must be the path of a readable file"},
		{"AFileWithoutACertificate", "postgres://postgres@db.example/postgres", [2]string{"PGSSLROOTCERT", "/etc/hostname"}, "PGSSLROOTCERT must be the path of a readable file"},
	} {
		t.Run(try.name, func(t *testing.T) {
			if try.env[0] != "" {
				t.Setenv(try.env[0], try.env[1])
			}
			if got := ready(t, config.Database{URL: try.url}, c()); !strings.Contains(got, try.want) {
				t.Errorf("%s, want %q", got, try.want)
			}
		})
	}
	t.Run("AnExpiredCertificate", func(t *testing.T) {
		ca.notAfter = time.Now().Add(-time.Minute)
		expired := startServer(t, throwaway.Options{TLS: ca.sign("db.example")})
		got := ready(t, config.Database{URL: "postgres://postgres@db.example/postgres?sslrootcert=" + ca.file}, &Connector{dial: dialing(expired.Port())})
		if !strings.Contains(got, "is not valid, by its dates or its use") {
			t.Error(got)
		}
	})
	t.Run("TheHostOfASecret", func(t *testing.T) {
		for text, want := range map[string]string{
			"": foreign, "host=127.0.0.1": foreign, "postgres:///?sslmode=verify-ca": "connected", "postgres:///?sslmode=disable": "connected",
		} {
			t.Setenv("PGSSLROOTCERT", ca.file)
			secret := c()
			secret.Logins = func(context.Context, bool) (config.Login, error) {
				return config.Login{Host: "db2.example", Port: 5432, Database: "postgres", User: "postgres"}, nil
			}
			if got := ready(t, config.Database{URL: text, SecretID: "s"}, secret); !strings.Contains(got, want) {
				t.Errorf("%q: %s, want %q", text, got, want)
			}
		}
	})
}

// A refused password is told as such, however the connection was made safe.
func TestAWrongPasswordOverTLSIsNoMatterOfTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	server := startServer(t, throwaway.Options{TLS: ca.sign("db.example"), Password: "right"})
	for password, want := range map[string]string{"right": "connected", "hunter2": "refused the password of the role \"postgres\""} {
		for _, mode := range []string{"", "&sslmode=verify-full", "&sslmode=verify-ca", "&sslmode=require", "&sslmode=prefer"} {
			url := "postgres://postgres:" + password + "@db.example/postgres?sslrootcert=" + ca.file + mode
			got := ready(t, config.Database{URL: url}, &Connector{dial: dialing(server.Port())})
			if !strings.Contains(got, want) || strings.Contains(got, "TLS") || strings.Contains(got, "hunter2") {
				t.Errorf("%s%s: %s, want %q", password, mode, got, want)
			}
		}
	}
}
