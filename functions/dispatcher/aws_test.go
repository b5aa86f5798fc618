package main_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/testkit/lambdatest"
	"outbox-dispatcher/internal/testkit/n8ntest"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// What must occur nowhere: not in the output, not in a row, not in a trace.
const (
	knownToken    = "known-token-5d1f"
	knownPassword = `p@ss/w:rd#1?x%41 '\`
	knownPath     = "4f9c-hook"
)

// secrets is Secrets Manager: the one that SECRETS_MANAGER_URL names (`make check`
// starts one), or a stand-in over HTTP.
type secrets struct {
	t   *testing.T
	url string

	mu     sync.Mutex
	values map[string]string // of the stand-in
	reads  int
}

func newSecrets(t *testing.T) *secrets {
	s := &secrets{t: t, url: os.Getenv("SECRETS_MANAGER_URL"), values: map[string]string{}}
	if s.url == "" {
		server := httptest.NewServer(http.HandlerFunc(s.serve))
		t.Cleanup(server.Close)
		s.url = server.URL
	}
	return s
}

func (s *secrets) serve(w http.ResponseWriter, r *http.Request) {
	var in struct{ SecretId string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	value, ok := s.values[in.SecretId]
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"ResourceNotFoundException","Message":"Secrets Manager can't find the specified secret."}`)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"Name": in.SecretId, "SecretString": value})
}

// put stores a secret, made anew or changed.
func (s *secrets) put(name, value string) {
	s.t.Helper()
	if os.Getenv("SECRETS_MANAGER_URL") == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.values[name] = value
		return
	}
	client := secretsmanager.New(secretsmanager.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(s.url),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
	_, err := client.CreateSecret(s.t.Context(), &secretsmanager.CreateSecretInput{Name: &name, SecretString: &value})
	if err != nil {
		_, err = client.PutSecretValue(s.t.Context(), &secretsmanager.PutSecretValueInput{SecretId: &name, SecretString: &value})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// certificate makes a root and a certificate of localhost, as files.
func certificate(t *testing.T) (root string, tls *throwaway.TLS) {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert := write("cert.pem", "CERTIFICATE", der)
	return cert, &throwaway.TLS{CertFile: cert, KeyFile: write("key.pem", "PRIVATE KEY", keyDER)}
}

// daemon is the X-Ray daemon: it keeps every datagram.
type daemon struct {
	address string
	mu      sync.Mutex
	got     []string
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	d := &daemon{address: conn.LocalAddr().String()}
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, _, err := conn.ReadFromUDP(buf)
			if err != nil {
				return
			}
			d.mu.Lock()
			d.got = append(d.got, string(buf[:n]))
			d.mu.Unlock()
		}
	}()
	return d
}

func (d *daemon) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.got, "\n")
}

// function is a bootstrap under a runtime API: that of the tests, or the emulator
// that EMULATOR names (`make check` builds it).
type function interface {
	Invoke(event string, timeout time.Duration) lambdatest.Result
	Freeze()
	Thaw()
	PeakMemory() int64
	Output() string
}

// The function as it runs on AWS: secrets from Secrets Manager, the database over
// TLS with a password that needs every kind of escape, traces to the daemon. It is
// frozen between invocations while everything around it changes.
func TestOnAWS(t *testing.T) {
	t.Parallel()
	root, tls := certificate(t)
	server, err := throwaway.Start(t.Context(), throwaway.Options{Password: "first-password", TLS: tls, InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	if err := migrated(t.Context(), server.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	p := &place{url: server.URL("postgres"), db: db, n8n: n8ntest.New(t)}
	setPassword := func(password string) {
		t.Helper()
		p.exec(t, `alter role dispatcher password '`+strings.ReplaceAll(password, "'", "''")+`'`)
	}
	// The role may do what it must, and no more.
	p.exec(t, `create role dispatcher login; grant select, update on outbox_events to dispatcher; grant select on outbox_events_control to dispatcher`)
	setPassword(knownPassword)
	if p.path = os.Getenv("BOOTSTRAP"); p.path == "" {
		p.path = lambdatest.Build(t, "./functions/dispatcher")
	}
	p.n8n.RequireToken(knownToken)
	sm := newSecrets(t)
	stamp := fmt.Sprint(time.Now().UnixNano()) // another test may use the same Secrets Manager
	tokenID, databaseID := "token-"+stamp, "database-"+stamp
	login := func(password string) string {
		text, _ := json.Marshal(map[string]any{"username": "dispatcher", "password": password, "host": "localhost", "port": server.Port(), "dbname": "postgres"})
		return string(text)
	}
	sm.put(tokenID, `{"token":"`+knownToken+`\n"}`)
	sm.put(databaseID, login(knownPassword))
	xray := newDaemon(t)
	env := []string{
		"N8N_WEBHOOK_URL=" + strings.Replace(p.n8n.URL(), "/webhook/", "/webhook/"+knownPath+"/", 1), "N8N_TOKEN_SECRET_ID=" + tokenID,
		"DATABASE_SECRET_ID=" + databaseID, "PGSSLMODE=verify-full", "PGSSLROOTCERT=" + root,
		"N8N_HTTP_TIMEOUT_SECONDS=5", "N8N_DELIVERY_LEASE_SECONDS=60", "METRICS_STACK=test",
		"AWS_ENDPOINT_URL=" + sm.url, "AWS_XRAY_DAEMON_ADDRESS=" + xray.address,
	}
	var f function
	if emulator := os.Getenv("EMULATOR"); emulator != "" {
		f = lambdatest.StartEmulator(t, emulator, p.path, 30*time.Second, env...)
	} else {
		f = lambdatest.Start(t, p.path, env...)
	}

	deliver := func(what string, events int) {
		t.Helper()
		p.exec(t, `insert into outbox_events (event_id, event_type, occurred_at, payload_json)
			select gen_random_uuid(), 't', now(), '{"correlation_id": "c", "aggregate": null, "data": "private-payload"}' from generate_series(1, $1::int)`, events)
		f.Freeze()
		time.Sleep(50 * time.Millisecond) // frozen for a moment
		f.Thaw()
		r := f.Invoke(`{"source":"aws.scheduler"}`, 30*time.Second)
		got := report(t, r.Body)
		if !r.OK || got.Succeeded != events || got.Retried != 0 {
			t.Fatalf("%s: %+v\n%s", what, r, f.Output())
		}
	}
	deliver("cold", 5)
	deliver("warm", 5)

	p.exec(t, `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'outbox-dispatcher'`)
	deliver("after its sessions were ended", 5)
	p.exec(t, `alter table outbox_events add column note text default 'x'`)
	deliver("after a column was added", 5)

	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.db, err = pgx.Connect(t.Context(), server.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	deliver("after a restart of the database", 5)

	const other = "another-password"
	setPassword(other)
	p.exec(t, `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'outbox-dispatcher'`)
	sm.put(databaseID, login(other))
	deliver("after the password was rotated", 5)

	p.n8n.RequireToken(knownToken + "-2")
	sm.put(tokenID, knownToken+"-2")
	refused := p.n8n.Refused()
	deliver("after the token was rotated", 5)
	if n := p.n8n.Refused() - refused; n != 1 {
		t.Errorf("the rotation cost %d refusals", n)
	}

	// Something to trace and to log: a failure whose answer repeats the path.
	p.n8n.ScriptAll(n8ntest.Answer{Status: 404, Body: `{"message":"The requested webhook \"POST ` + knownPath + `/outbox\" is not registered. ` + knownToken + `-2"}`})
	p.exec(t, `insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		values (gen_random_uuid(), 'failing', now(), '{"correlation_id": "c", "aggregate": null, "data": "private-payload"}')`)
	if got := report(t, f.Invoke(`{}`, 30*time.Second).Body); got.Retried != 1 {
		t.Errorf("report %+v", got)
	}
	if n := p.count(t, `attempts > 1`); n != 0 {
		t.Errorf("%d events took more than one attempt", n)
	}
	var rows string
	if err := p.db.QueryRow(context.Background(), `select string_agg(coalesce(last_error, ''), ' ') from outbox_events`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Second) // the last datagram may be on its way
	for !strings.Contains(xray.text(), "failing") && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	traces := xray.text()
	for _, name := range []string{"reclaim", "claim", "deliver", "record", "secret", "failing", "connectionError"} {
		if !strings.Contains(traces, name) {
			t.Errorf("the traces do not tell of %q", name)
		}
	}
	for where, text := range map[string]string{"the output": f.Output(), "a row": rows, "a trace": traces} {
		for _, secret := range []string{knownToken, knownPassword, "p@ss", other, knownPath, "private-payload"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in %s", secret, where)
			}
		}
	}
	t.Logf("peak memory: %d MB", f.PeakMemory()>>20)
	if !strings.Contains(f.Output(), `"CloudWatchMetrics"`) || !strings.Contains(f.Output(), "1-5759e988-bd862e3fe1be46a994272793") {
		t.Error("the output has no metrics, or no trace id")
	}
}
