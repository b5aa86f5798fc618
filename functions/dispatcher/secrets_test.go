package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// canary is in every secret, and must be nowhere else.
const canary = "hunter2c4n4ry"

// forms are the ways to give a secret, and to give it wrongly. In a text $S stands for
// the secret as it is, $U for the same in a URL, $P for the port of Postgres.
var forms = []map[string]string{
	{"DATABASE_URL": "postgres://app:$S@127.0.0.1:$P/postgres"},
	{"DATABASE_URL": "postgres://app:$U@127.0.0.1:$P/postgres"},
	{"DATABASE_URL": " postgres://app:$U@127.0.0.1:$P/postgres", "PGHOST": "127.0.0.1", "PGPORT": "$P", "PGUSER": "app", "PGDATABASE": "postgres"},
	{"DATABASE_URL": "\"POSTGRES://app:$U@127.0.0.1:$P/postgres\"\n"},
	{"DATABASE_URL": "postgresql+psycopg2://app:$U@127.0.0.1:$P/postgres"},
	{"DATABASE_URL": "postgres://app:$U@127.0.0.1:$P"},
	{"DATABASE_URL": "postgres://app:$U@127.0.0.1:$P/none"},
	{"DATABASE_URL": "postgres://app:$U@127.0.0.1:1/postgres"},
	{"DATABASE_URL": "postgres://app:$S@127.0.0.1:$P/postgres?schema=public&pgbouncer=true"},
	{"DATABASE_URL": "postgres:///postgres?host=127.0.0.1&port=$P&user=app&password=$S"},
	{"DATABASE_URL": "mysql://app:$S@127.0.0.1:$P/postgres", "PGHOST": "127.0.0.1"},
	{"DATABASE_URL": "jdbc:postgresql://127.0.0.1:$P/postgres?user=app&password=$S"},
	{"DATABASE_URL": "$S", "PGHOST": "127.0.0.1", "PGPORT": "$P"},
	{"DATABASE_URL": `{"username":"app","password":"$S"}`},
	{"DATABASE_URL": "host=127.0.0.1 port=$P dbname=postgres user=app password=$S"},
	{"DATABASE_URL": "host=127.0.0.1 port=$P dbname=postgres user=app password='$S'"},
	{"DATABASE_URL": "host=127.0.0.1 port=$P dbname=postgres user=app password='$S"},
	{"DATABASE_URL": "host=127.0.0.1 password=my $S=x"},
	{"DATABASE_URL": "host=127.0.0.1 port=$P user=app sslpassword=$S oauth_client_secret=$S scram_client_key=$S"},
	{"DATABASE_URL": "", "PGHOST": "127.0.0.1", "PGPORT": "$P", "PGUSER": "app", "PGDATABASE": "postgres", "PGPASSWORD": "$S"},
	{"DATABASE_URL": "host=127.0.0.1 port=$P user=app", "PGPASSWORD": "$S", "PGSSLMODE": "require"},
	{"DATABASE_URL": "", "DATABASE_SECRET_ID": "db", "secret": `{"username":"app","password":"$S","host":"127.0.0.1","port":$P,"dbname":"postgres"}`},
	{"DATABASE_URL": "", "DATABASE_SECRET_ID": "db", "secret": `{"username":"app","password":"$S","host":"127.0.0.1","port":"$S"}`},
	{"DATABASE_URL": "", "DATABASE_SECRET_ID": "db", "secret": `$S`},
	{"N8N_WEBHOOK_TRIGGER_TOKEN": "$S"},
	{"N8N_WEBHOOK_TRIGGER_TOKEN": "tokén $S"},
	{"N8N_WEBHOOK_TRIGGER_TOKEN": "", "N8N_TOKEN_SECRET_ID": "token", "secret": "$S"},
	{"N8N_WEBHOOK_TRIGGER_TOKEN": "", "N8N_TOKEN_SECRET_ID": "token", "secret": `{"token":"\u200b$S"}`},
	{"N8N_WEBHOOK_TRIGGER_TOKEN": "", "N8N_TOKEN_SECRET_ID": "token", "secret": `{"other":"$S"}`},
	{"N8N_WEBHOOK_URL": "http://bot:$U@127.0.0.1:1/webhook/$U?token=$U"},
	{"N8N_WEBHOOK_URL": "http://bot:$S@127.0.0.1:1/webhook/$S?token=$S"},
	{"N8N_WEBHOOK_URL": "https://bot:$S@127.0.0.1:1/webhook/$S"},
	{"N8N_WEBHOOK_URL": "https://bot:$U@127.0.0.1:$P/webhook"}, // Postgres does not speak HTTP
	{"N8N_WEBHOOK_URL": "ftp://bot:$S@127.0.0.1/"},
}

// However a secret is given, and whatever is wrong with it, it is in no output of ours,
// in no row and not in the log of the server.
func FuzzSecretsStayInside(f *testing.F) {
	p := newPrison(f)
	for i := range forms {
		f.Add(uint8(i), "", "")
		f.Add(uint8(i), "p@ss/w:rd#1?x%41 '\\", "é&=")
		f.Add(uint8(i), "p@", "/x")
		f.Add(uint8(i), "12/", "?y=1")
	}
	f.Fuzz(func(t *testing.T, form uint8, before, after string) {
		secret := strings.ReplaceAll(before+canary+after, "\x00", "")
		env := map[string]string{
			"DATABASE_URL": p.server.URL("postgres"), "N8N_WEBHOOK_URL": "http://127.0.0.1:1/webhook", "N8N_WEBHOOK_TRIGGER_TOKEN": "token",
			"N8N_HTTP_TIMEOUT_SECONDS": "1", "N8N_DELIVERY_LEASE_SECONDS": "10", "LOG_LEVEL": "debug",
		}
		inURL := strings.ReplaceAll(url.QueryEscape(secret), "+", "%20")
		fill := strings.NewReplacer("$S", secret, "$U", inURL, "$P", fmt.Sprint(p.server.Port()))
		for name, text := range forms[int(form)%len(forms)] {
			env[name] = fill.Replace(text)
		}
		for line := range strings.Lines(p.run(t, env)) {
			if strings.Contains(line, canary) {
				t.Errorf("the secret is in %s", line)
			}
		}
	})
}

// prison is what the program runs against: a Postgres that logs everything and a
// Secrets Manager that holds one secret.
type prison struct {
	server *throwaway.Server
	db     *pgx.Conn
	log    string // file of the server
	secret string
}

func newPrison(f *testing.F) *prison {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "AWS_") || strings.HasPrefix(name, "N8N_") {
			f.Setenv(name, "")
			_ = os.Unsetenv(name)
		}
	}
	ctx := context.Background()
	server, err := throwaway.Start(ctx, throwaway.Options{InMemory: true, Password: "first", Parameters: map[string]string{
		"logging_collector": "on", "log_connections": "on", "log_statement": "all", "log_min_messages": "debug1", "log_min_error_statement": "debug1"}})
	if err != nil {
		f.Fatal(err)
	}
	p := &prison{server: server}
	f.Cleanup(func() {
		_ = server.Stop() // the log is whole then
		if strings.Contains(p.logged(f), canary) {
			f.Error("the secret is in the log of the server")
		}
		if err := server.Close(); err != nil {
			f.Error(err)
		}
	})
	store, err := postgres.Open(config.Database{URL: server.URL("postgres"), Table: config.Table{Name: "outbox_events"}}, &postgres.Connector{})
	if err != nil {
		f.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx, func(string) {}); err != nil {
		f.Fatal(err)
	}
	if p.db, err = pgx.Connect(ctx, server.URL("postgres")); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = p.db.Close(ctx) })
	p.exec(f, `create role app login password 'another'`)
	p.exec(f, `insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		values (gen_random_uuid(), 't', now(), '{"correlation_id": "c", "aggregate": null, "data": {}}')`)
	if err := p.db.QueryRow(ctx, `select current_setting('data_directory') || '/' || pg_current_logfile()`).Scan(&p.log); err != nil {
		f.Fatal(err)
	}
	manager := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_ = json.NewEncoder(w).Encode(map[string]string{"SecretString": p.secret})
	}))
	f.Cleanup(manager.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": manager.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "key",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true"} {
		f.Setenv(name, value)
	}
	return p
}

func (p *prison) exec(tb testing.TB, sql string) {
	tb.Helper()
	if _, err := p.db.Exec(context.Background(), sql); err != nil {
		tb.Fatal(err)
	}
}

func (p *prison) logged(tb testing.TB) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		tb.Error(err)
	}
	return string(text)
}

// run does one invocation and returns all that can be read afterwards: output, row, and
// the log of the server as far as it is written.
func (p *prison) run(t *testing.T, env map[string]string) string {
	t.Helper()
	p.exec(t, `update outbox_events set delivery_status = 'pending', next_attempt_at = null, attempts = 0, last_error = null`)
	for name, value := range env {
		t.Setenv(name, value)
	}
	p.secret = env["secret"]
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = output, output
	local([]string{"--timeout", "5s"})
	os.Stdout, os.Stderr = stdout, stderr
	said, err := os.ReadFile(output.Name())
	if err != nil || len(said) == 0 {
		t.Errorf("no output: %v", err)
	}
	var row string
	if err := p.db.QueryRow(context.Background(), `select to_jsonb(e)::text from outbox_events e`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	return string(said) + row + p.logged(t)
}
