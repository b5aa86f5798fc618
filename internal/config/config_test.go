package config_test

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// environment is what os.Environ would hold.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	v, ok := e[name]
	return v, ok
}

// with returns a copy with more variables: name, value, name, value ...
func (e environment) with(pairs ...string) environment {
	c := maps.Clone(e)
	for i := 0; i < len(pairs); i += 2 {
		c[pairs[i]] = pairs[i+1]
	}
	return c
}

// required is the least that has to be set.
var required = environment{
	"N8N_WEBHOOK_URL":     "https://n8n.example/webhook/outbox",
	"N8N_TOKEN_SECRET_ID": "outbox/token",
	"DATABASE_URL":        "postgres://dispatcher@db.example/service",
}

// elsewhere are settings that another package reads.
var elsewhere = []string{"LOG_LEVEL", "METRICS_STACK"}

func load(t *testing.T, e environment) config.Settings {
	t.Helper()
	s, err := config.Load(e.lookup)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// problems returns the variables that the error names, each once, in its order.
func problems(t *testing.T, e environment) []string {
	t.Helper()
	_, err := config.Load(e.lookup)
	return named(t, err)
}

func named(t *testing.T, err error) (names []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	var settings *config.SettingsError
	if !errors.As(err, &settings) {
		t.Fatalf("the error is a %T", err)
	}
	for _, p := range settings.Problems {
		name, _, _ := strings.Cut(p, " ")
		if !strings.Contains(err.Error(), p) || slices.Contains(names, name) {
			t.Errorf("%q has to name %s once", err, name)
		}
		names = append(names, name)
	}
	return names
}

func TestLoadHasDefaults(t *testing.T) {
	t.Parallel()
	want := config.Settings{
		WebhookURL:    &url.URL{Scheme: "https", Host: "n8n.example", Path: "/webhook/outbox"},
		TokenSecretID: "outbox/token", TokenSecretKey: "token",
		Settings: cycle.Settings{
			HTTPTimeout: 30 * time.Second, Lease: 3 * time.Minute, MaxBodyBytes: 15 << 20, Enabled: true,
			Policy:     outbox.Policy{MaxAttempts: 100, BackoffCap: time.Minute},
			ClaimLimit: 500, ReclaimLimit: 500, ClaimBytes: 32 << 20, Concurrency: 10, MaxCycles: 1, Linger: 0, MaxLostLeases: 5,
		},
		Database: config.Database{Table: config.Table{Name: "outbox_events"}, URL: "postgres://dispatcher@db.example/service"},
	}
	if got := load(t, required); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLoadReadsWhatTheTableLists(t *testing.T) {
	t.Parallel()
	read := map[string]bool{}
	if _, err := config.Load(func(name string) (string, bool) { read[name] = true; return "", false }); err == nil {
		t.Error("nothing is set, and there is no error")
	}
	implicit := load(t, required)
	for _, d := range config.All {
		if read[d.Name] == slices.Contains(elsewhere, d.Name) {
			t.Errorf("%s: read %v", d.Name, read[d.Name])
		}
		delete(read, d.Name)
		for _, v := range []string{d.Default, "", " \n"} {
			if _, needed := required[d.Name]; !needed && !reflect.DeepEqual(load(t, required.with(d.Name, v)), implicit) {
				t.Errorf("%s=%q is not what holds without it", d.Name, v)
			}
		}
	}
	// These only say that there is a database; the driver reads them.
	if got := slices.Sorted(maps.Keys(read)); !slices.Equal(got, []string{"PGHOST", "PGHOSTADDR", "PGSERVICE"}) {
		t.Errorf("reads %v as well", got)
	}
}

func TestLoadTakesOtherValues(t *testing.T) {
	t.Parallel()
	s := load(t, environment{
		"N8N_WEBHOOK_URL": " http://u:p%40ss@127.0.0.1:5678/webhook/x?a=b#c \n", "N8N_WEBHOOK_TRIGGER_TOKEN": "tok en\n", "N8N_TOKEN_SECRET_KEY": " key\n",
		"N8N_HTTP_TIMEOUT_SECONDS": "1.5", "N8N_DELIVERY_LEASE_SECONDS": " 3.5 ", "N8N_MAX_BODY_BYTES": "1024", "N8N_MAX_ATTEMPTS": "1",
		"N8N_BACKOFF_CAP_SECONDS": "0.25", "N8N_DISPATCH_ENABLED": "FALSE", "DISPATCH_CLAIM_LIMIT": "10000", "DISPATCH_RECLAIM_LIMIT": "1",
		"DISPATCH_CLAIM_BYTES": "1048576", "DISPATCH_CONCURRENCY": "500", "DISPATCH_MAX_CYCLES": "0", "DISPATCH_LINGER_SECONDS": "59.999",
		"DISPATCH_MAX_LOST_LEASES": "3", "OUTBOX_TABLE": `app."Outbox"`, "DATABASE_SECRET_ID": "rds!db\n", "DATABASE_IAM_AUTH": "on",
	})
	want := config.Settings{
		WebhookURL:   &url.URL{Scheme: "http", User: url.UserPassword("u", "p@ss"), Host: "127.0.0.1:5678", Path: "/webhook/x", RawQuery: "a=b"},
		TriggerToken: "tok en", TokenSecretKey: "key",
		Settings: cycle.Settings{
			HTTPTimeout: 1500 * time.Millisecond, Lease: 3500 * time.Millisecond, MaxBodyBytes: 1024, Enabled: false,
			Policy:     outbox.Policy{MaxAttempts: 1, BackoffCap: 250 * time.Millisecond},
			ClaimLimit: 10_000, ReclaimLimit: 1, ClaimBytes: 1 << 20, Concurrency: 500, MaxCycles: 0, Linger: 59_999 * time.Millisecond, MaxLostLeases: 3,
		},
		Database: config.Database{Table: config.Table{Schema: "app", Name: "Outbox"}, SecretID: "rds!db", IAMAuth: true},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	words := map[string][]string{
		"N8N_DISPATCH_ENABLED": {"t", "wahr", "2", "-1", "enabled", "true false", "null"},
		"OUTBOX_TABLE":         {"a b"},
	}
	whole := []string{"1.5", "1e3", "0x10", "1_000", "ten", "10 rows", "9223372036854775808", "-1", "NaN", "٣"}
	times := []string{"abc", "1,5", "30s", "-1", "-0.001", "NaN", "inf", "+Inf", "-Inf", "Infinity", "1e400", "1e9", "0x", "١"}
	for _, d := range config.All {
		wrong := words[d.Name]
		if d.Range() != "" {
			wrong = append(wrong, fmt.Sprint(d.Min-1), fmt.Sprint(d.Min-0.0001), fmt.Sprint(d.Max+1))
			if strings.HasSuffix(d.Name, "_SECONDS") {
				wrong = append(wrong, times...)
			} else {
				wrong = append(wrong, whole...)
			}
		}
		for _, v := range wrong {
			if got := problems(t, required.with(d.Name, v)); !slices.Equal(got, []string{d.Name}) {
				t.Errorf("%s=%s: problems with %v", d.Name, v, got)
			}
		}
	}
	for _, v := range []string{"true", "True", "TRUE", "1", "yes", "on", " true\n"} {
		if !load(t, required.with("DATABASE_IAM_AUTH", v)).Database.IAMAuth {
			t.Errorf("%q is not true", v)
		}
	}
	for _, v := range []string{"false", "False", "0", "no", "off"} {
		if load(t, required.with("N8N_DISPATCH_ENABLED", v)).Enabled {
			t.Errorf("%q is not false", v)
		}
	}
}

// The outcome has to be written within the lease.
func TestLoadKeepsTheLeaseLongerThanThePOST(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timeout, lease string
		wrong          []string
	}{
		{"30", "32", nil},
		{"30", "31.999", []string{"N8N_DELIVERY_LEASE_SECONDS"}},
		{"0.1", "2.1", nil}, // no number that a float has exactly
		{"178", "", nil},
		{"178.001", "", []string{"N8N_DELIVERY_LEASE_SECONDS"}},
		{"", "31", []string{"N8N_DELIVERY_LEASE_SECONDS"}},
		{"x", "2", []string{"N8N_HTTP_TIMEOUT_SECONDS"}}, // its own problem alone
	} {
		if got := problems(t, required.with("N8N_HTTP_TIMEOUT_SECONDS", c.timeout, "N8N_DELIVERY_LEASE_SECONDS", c.lease)); !slices.Equal(got, c.wrong) {
			t.Errorf("timeout %q, lease %q: problems with %v", c.timeout, c.lease, got)
		}
	}
}

func TestLoadTakesOneTokenOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, id, token string
		want            string
	}{
		{"TheSecret", "outbox/token", "", ""},
		{"TheTokenItself", "", "tok\r\n", ""},
		{"Neither", "", "", "N8N_TOKEN_SECRET_ID is not set"},
		{"NeitherButWhiteSpace", " ", "\n", "N8N_TOKEN_SECRET_ID is not set"},
		{"Both", "outbox/token", "tok", "N8N_WEBHOOK_TRIGGER_TOKEN and N8N_TOKEN_SECRET_ID are both set"},
		{"SpaceInFront", "", " token", "N8N_WEBHOOK_TRIGGER_TOKEN starts with white space"},
		{"NotASCII", "", "tokén", "N8N_WEBHOOK_TRIGGER_TOKEN cannot be an HTTP header value: character 4 is not ASCII"},
		{"NotAHeaderValueBesideTheSecret", "outbox/token", "to\x7fken", "N8N_WEBHOOK_TRIGGER_TOKEN cannot be an HTTP header value: character 3"},
	} {
		_, err := config.Load(required.with("N8N_TOKEN_SECRET_ID", c.id, "N8N_WEBHOOK_TRIGGER_TOKEN", c.token).lookup)
		if got := named(t, err); (err == nil) != (c.want == "") || len(got) > 1 || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestLoadNeedsADatabase(t *testing.T) {
	t.Parallel()
	bare := required.with("DATABASE_URL", "")
	if got := problems(t, bare); !slices.Equal(got, []string{"DATABASE_URL"}) {
		t.Errorf("problems with %v", got)
	}
	for _, name := range []string{"DATABASE_URL", "DATABASE_SECRET_ID", "PGHOST", "PGHOSTADDR", "PGSERVICE"} {
		e := bare.with(name, "x")
		if _, err := config.LoadDatabase(e.lookup); problems(t, e) != nil || err != nil {
			t.Errorf("with %s: %v and problems with %v", name, err, problems(t, e))
		}
	}
}

// An operator's machine knows the database and nothing of n8n.
func TestLoadDatabaseReadsNothingElse(t *testing.T) {
	t.Parallel()
	d, err := config.LoadDatabase(func(name string) (string, bool) {
		if strings.HasPrefix(name, "N8N_") || strings.HasPrefix(name, "DISPATCH_") {
			t.Errorf("reads %s", name)
		}
		return map[string]string{"PGHOST": "db", "OUTBOX_TABLE": "app.outbox"}[name], true
	})
	if err != nil || d != (config.Database{Table: config.Table{Schema: "app", Name: "outbox"}}) {
		t.Errorf("got %+v, %v", d, err)
	}
	_, err = config.LoadDatabase(environment{"OUTBOX_TABLE": "a b", "DATABASE_IAM_AUTH": "perhaps"}.lookup)
	if got := named(t, err); !slices.Equal(got, []string{"OUTBOX_TABLE", "DATABASE_IAM_AUTH", "DATABASE_URL"}) {
		t.Errorf("problems with %v", got)
	}
}

// Everything wrong is in one line, and no value of any of it.
func TestLoadNamesEveryWrongVariable(t *testing.T) {
	t.Parallel()
	wrong := environment{}
	for _, d := range config.All {
		wrong[d.Name] = canary
	}
	wrong["N8N_WEBHOOK_URL"] = "https://bot:" + canary + "@[bad/" + canary + "?token=" + canary
	wrong["N8N_WEBHOOK_TRIGGER_TOKEN"] = canary + "\n" + canary
	wrong["OUTBOX_TABLE"] = canary + "; drop table " + canary
	_, err := config.Load(wrong.lookup)
	names := named(t, err)
	any := append([]string{"N8N_TOKEN_SECRET_ID", "N8N_TOKEN_SECRET_KEY", "DATABASE_URL", "DATABASE_SECRET_ID"}, elsewhere...)
	for _, d := range config.All {
		if takesAny := slices.Contains(any, d.Name); slices.Contains(names, d.Name) == takesAny {
			t.Errorf("%s: named %v", d.Name, !takesAny)
		}
	}
	if text := err.Error(); strings.Contains(text, canary) || !strings.HasPrefix(text, "settings: ") || strings.Contains(text, "\n") {
		t.Errorf("%q", text)
	}
}

func TestLoginRedactsItsPassword(t *testing.T) {
	t.Parallel()
	l := config.Login{Host: "h", Port: 1, Database: "d", User: "u", Password: canary}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, l); strings.Contains(got, canary) || !strings.Contains(got, "u") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

// canary is in every value that must not show up in an error.
const canary = "hunter2-s3cr3t"

// However the environment is, there are settings within their bounds, or an error that
// names variables of the table and shows no value.
func FuzzSettings(f *testing.F) {
	for i, d := range config.All {
		f.Add(uint8(i), d.Default, uint8(i+1), "-1")
		f.Add(uint8(i), "\xff\x00", uint8(i+2), "1e308")
		f.Add(uint8(i), canary, uint8(i+3), "https://u:"+canary+"@[::1%25x]:99999/p?q")
	}
	f.Fuzz(func(t *testing.T, first uint8, a string, second uint8, b string) {
		n := uint8(len(config.All))
		e := required.with(config.All[first%n].Name, a, config.All[second%n].Name, b)
		s, err := config.Load(e.lookup)
		if err == nil {
			for _, g := range guarantees {
				if !g.holds(s) {
					t.Errorf("%s: %+v", g.name, s)
				}
			}
			if (s.TriggerToken == "") == (s.TokenSecretID == "") || s.WebhookURL.Hostname() == "" || s.Database.Table.Name == "" {
				t.Errorf("settings: %+v", s)
			}
			return
		}
		for _, name := range named(t, err) {
			if !slices.ContainsFunc(config.All, func(d config.Setting) bool { return d.Name == name }) {
				t.Errorf("names %q: %s", name, err)
			}
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("shows a value: %s", err)
		}
	})
}
