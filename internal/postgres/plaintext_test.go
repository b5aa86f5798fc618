package postgres

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"outbox-dispatcher/internal/config"
)

// eavesdropper is a server without TLS that remembers what it is sent.
type eavesdropper struct {
	port int
	mu   sync.Mutex
	got  []byte
}

var askForTLS = []byte{0, 0, 0, 8, 4, 210, 22, 47} // SSLRequest

func eavesdrop(t *testing.T) *eavesdropper {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &eavesdropper{port: listener.Addr().(*net.TCPAddr).Port}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { e.listen(conn) })
		}
	})
	return e
}

func (e *eavesdropper) listen(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		e.mu.Lock()
		e.got = append(e.got, buffer[:n]...)
		e.mu.Unlock()
		if err != nil {
			return
		}
		answer := []byte{'R', 0, 0, 0, 8, 0, 0, 0, 3} // the password, please
		switch {
		case bytes.Equal(buffer[:n], askForTLS):
			answer = []byte{'N'}
		case buffer[0] == 0x16, buffer[0] == 'p': // TLS at once; the password
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

func (e *eavesdropper) heard() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.got)
}

// Off loopback a password is sent only over TLS that was verified, unless
// somebody chose otherwise.
func TestNoPasswordInPlainText(t *testing.T) {
	const password = "hunter2"
	services := filepath.Join(t.TempDir(), "services")
	if err := os.WriteFile(services, []byte("[quiet]\nhost=db.example\nuser=app\npassword=hunter2\n[loud]\nhost=db.example\nuser=app\npassword=hunter2\nsslmode=disable\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	remote := config.Login{Host: "db.example", Port: 5432, User: "app", Password: password, Database: "app"}
	for _, try := range []struct {
		name   string
		url    string
		env    string // NAME=value
		secret *config.Login
		open   bool // the password goes out in plain text, as was asked for
	}{
		{name: "URL", url: "postgres://app:hunter2@db.example/app"},
		{name: "URLWithHash", url: "postgres://app:hunter2#x@db.example/app"},
		{name: "URLWithQuestionMark", url: "postgres://app:hunter2?x@db.example/app"},
		{name: "URLWithQuestionMarkAndQuery", url: "postgres://app:hunter2?sslmode=disable@db.example/app?application_name=x"},
		{name: "URLWithBracket", url: "postgres://app:hunter2[x@db.example/app"},
		{name: "URLWithEscapes", url: "postgres://app:hunter2%20%25%2F@db.example/app"},
		{name: "URLThatOnlyNamesAMode", url: "postgres://app:hunter2@db.example/app?application_name=sslmode%3Ddisable"},
		{name: "URLWithoutPath", url: "postgres://app:hunter2@db.example"},
		{name: "URLWithQueryAlone", url: "postgres:///app?host=db.example&user=app&password=hunter2"},
		{name: "URLWithTwoHosts", url: "postgres://app:hunter2@127.0.0.1:1,db.example:2/app"},
		{name: "Words", url: "host=db.example user=app password=hunter2"},
		{name: "WordsThatNameAModeInAPassword", url: "host=db.example user=app password='hunter2 sslmode=disable'"},
		{name: "DirectTLS", url: "postgres://app:hunter2@db.example/app?sslnegotiation=direct"},
		{name: "Environment", url: "host=db.example user=app", env: "PGPASSWORD=hunter2"},
		{name: "Service", url: "service=quiet servicefile=" + services},
		{name: "ServiceByTheEnvironment", url: "servicefile=" + services, env: "PGSERVICE=quiet"},
		{name: "Secret", secret: &remote},
		{name: "SecretOverLoopback", url: "postgres://localhost/app", secret: &remote},
		{name: "SecretOverASocket", url: "postgres:///app?host=/tmp", secret: &remote},
		{name: "SecretOverWords", url: "host='/tmp' dbname=app", secret: &remote},
		{name: "SecretForAURLWithHash", url: "postgres://app:x#y@localhost/app", secret: &remote},
		{name: "Require", url: "postgres://app:hunter2@db.example/app?sslmode=require"},
		{name: "RequireOverASocket", url: "postgres:///app?host=/tmp&sslmode=require", secret: &remote},

		{name: "Disable", url: "postgres://app:hunter2@db.example/app?sslmode=disable", open: true},
		{name: "DisableInWords", url: "host=db.example user=app password=hunter2 sslmode = 'disable'", open: true},
		{name: "DisableByTheEnvironment", url: "postgres://app:hunter2@db.example/app", env: "PGSSLMODE=disable", open: true},
		{name: "DisableByTheService", url: "service=loud servicefile=" + services, open: true},
		{name: "DisableForASecret", url: "postgres:///app?sslmode=disable", secret: &remote, open: true},
		{name: "Prefer", url: "postgres://app:hunter2@db.example/app?sslmode=prefer", open: true},
		{name: "PreferByTheEnvironment", url: "postgres://app:hunter2@db.example/app", env: "PGSSLMODE=prefer", open: true},
		{name: "Loopback", url: "postgres://app:hunter2@localhost/app", open: true},
	} {
		t.Run(try.name, func(t *testing.T) {
			if name, value, ok := strings.Cut(try.env, "="); ok {
				t.Setenv(name, value)
			}
			e := eavesdrop(t)
			c := &Connector{dial: dialing(e.port)}
			if try.secret != nil {
				c.Logins = func(context.Context, bool) (config.Login, error) { return *try.secret, nil }
			}
			got := ready(t, config.Database{URL: try.url, SecretID: "s"}, c)
			heard := e.heard()
			if open := strings.Contains(heard, password); open != try.open {
				t.Errorf("the password went out in plain text: %v\n%q\n%s", open, heard, got)
			}
			if try.open {
				return
			}
			if rest := strings.ReplaceAll(heard, string(askForTLS), ""); rest != "" && rest[0] != 0x16 {
				t.Errorf("it was sent %q besides the question for TLS", rest)
			}
			if strings.Contains(got, password) {
				t.Errorf("the error holds the password: %s", got)
			}
			if !strings.Contains(heard, "\x16\x03") && !strings.Contains(got, "does not speak TLS, so no password was sent") {
				t.Errorf("%s, want that it does not speak TLS", got)
			}
		})
	}
}
