package config_test

import (
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/config"
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

// defaults is the table of settings: every variable, and what it is if it is not
// set. Empty: nothing.
var defaults = environment{
	"N8N_WEBHOOK_URL":            "",
	"N8N_ALLOW_HTTP":             "false",
	"N8N_TOKEN_SECRET_ID":        "",
	"N8N_TOKEN_SECRET_KEY":       "token",
	"N8N_WEBHOOK_TRIGGER_TOKEN":  "",
	"N8N_HTTP_TIMEOUT_SECONDS":   "30",
	"N8N_DELIVERY_LEASE_SECONDS": "180",
	"N8N_MAX_BODY_BYTES":         "15728640",
	"N8N_MAX_ATTEMPTS":           "100",
	"N8N_BACKOFF_CAP_SECONDS":    "60",
	"N8N_DISPATCH_ENABLED":       "true",
	"DISPATCH_CLAIM_LIMIT":       "500",
	"DISPATCH_RECLAIM_LIMIT":     "500",
	"DISPATCH_CLAIM_BYTES":       "33554432",
	"DISPATCH_CONCURRENCY":       "10",
	"DISPATCH_MAX_CYCLES":        "1",
	"DISPATCH_LINGER_SECONDS":    "0",
	"DISPATCH_MAX_LOST_LEASES":   "5",
	"OUTBOX_TABLE":               "outbox_events",
	"DATABASE_URL":               "",
	"DATABASE_SECRET_ID":         "",
	"DATABASE_IAM_AUTH":          "false",
	"PGHOST":                     "", // these two only tell that there is a database,
	"PGSERVICE":                  "", // the driver reads them and the other PG variables
}

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
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q lacks %q", err, p)
		}
		if slices.Contains(names, name) {
			t.Errorf("%s is named twice: %s", name, err)
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
		HTTPTimeout: 30 * time.Second, Lease: 3 * time.Minute, MaxBodyBytes: 15 << 20, MaxAttempts: 100, BackoffCap: time.Minute, Enabled: true,
		ClaimLimit: 500, ReclaimLimit: 500, ClaimBytes: 32 << 20, Concurrency: 10, MaxCycles: 1, Linger: 0, MaxLostLeases: 5,
		Database: config.Database{Table: config.Table{Name: "outbox_events"}, URL: "postgres://dispatcher@db.example/service"},
	}
	if got := load(t, required); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// The table above is complete, and true.
func TestLoadReadsExactlyTheVariablesOfTheTable(t *testing.T) {
	t.Parallel()
	read := map[string]bool{}
	_, err := config.Load(func(name string) (string, bool) {
		read[name] = true
		return "", false
	})
	if err == nil {
		t.Error("nothing is set, and that is no error")
	}
	if got, want := slices.Sorted(maps.Keys(read)), slices.Sorted(maps.Keys(defaults)); !slices.Equal(got, want) {
		t.Errorf("reads %v\nthe table has %v", got, want)
	}
	implicit := load(t, required)
	for name, value := range defaults {
		if value == "" {
			continue
		}
		if got := load(t, required.with(name, value)); !reflect.DeepEqual(got, implicit) {
			t.Errorf("%s=%s is not what holds without it:\n%+v\n%+v", name, value, got, implicit)
		}
		if got := load(t, required.with(name, " ")); !reflect.DeepEqual(got, implicit) {
			t.Errorf("%s set to white space is not as good as not set", name)
		}
	}
}

func TestLoadTakesOtherValues(t *testing.T) {
	t.Parallel()
	s := load(t, environment{
		"N8N_WEBHOOK_URL": " http://u:p%40ss@127.0.0.1:5678/webhook/x?a=b#c \n", "N8N_WEBHOOK_TRIGGER_TOKEN": "tok en\n", "N8N_TOKEN_SECRET_KEY": " key\n",
		"N8N_HTTP_TIMEOUT_SECONDS": "1.5", "N8N_DELIVERY_LEASE_SECONDS": " 3.5 ", "N8N_MAX_BODY_BYTES": "1", "N8N_MAX_ATTEMPTS": "1",
		"N8N_BACKOFF_CAP_SECONDS": "0.25", "N8N_DISPATCH_ENABLED": "FALSE", "DISPATCH_CLAIM_LIMIT": "10000", "DISPATCH_RECLAIM_LIMIT": "1",
		"DISPATCH_CLAIM_BYTES": "1073741824", "DISPATCH_CONCURRENCY": "1000", "DISPATCH_MAX_CYCLES": "0", "DISPATCH_LINGER_SECONDS": "59.999",
		"DISPATCH_MAX_LOST_LEASES": "2", "OUTBOX_TABLE": `app."Outbox"`, "DATABASE_SECRET_ID": "rds!db\n", "DATABASE_IAM_AUTH": "on",
	})
	want := config.Settings{
		WebhookURL:   &url.URL{Scheme: "http", User: url.UserPassword("u", "p@ss"), Host: "127.0.0.1:5678", Path: "/webhook/x", RawQuery: "a=b"},
		TriggerToken: "tok en", TokenSecretKey: "key", HTTPTimeout: 1500 * time.Millisecond, Lease: 3500 * time.Millisecond, MaxBodyBytes: 1, MaxAttempts: 1,
		BackoffCap: 250 * time.Millisecond, Enabled: false, ClaimLimit: 10_000, ReclaimLimit: 1, ClaimBytes: 1 << 30, Concurrency: 1000, MaxCycles: 0,
		Linger: 59_999 * time.Millisecond, MaxLostLeases: 2,
		Database: config.Database{Table: config.Table{Schema: "app", Name: "Outbox"}, SecretID: "rds!db", IAMAuth: true},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

func TestLoadTakesOneTokenOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, id, token string
		want            []string
	}{
		{"TheSecret", "outbox/token", "", nil},
		{"TheTokenItself", "", "tok", nil},
		{"TheTokenWithANewline", "", "tok\r\n", nil},
		{"Neither", "", "", []string{"N8N_TOKEN_SECRET_ID"}},
		{"NeitherButWhiteSpace", " ", "\n", []string{"N8N_TOKEN_SECRET_ID"}},
		{"Both", "outbox/token", "tok", []string{"N8N_WEBHOOK_TRIGGER_TOKEN"}},
		{"NoHeaderValue", "", "to\nken", []string{"N8N_WEBHOOK_TRIGGER_TOKEN"}},
		{"SpaceInFront", "", " token", []string{"N8N_WEBHOOK_TRIGGER_TOKEN"}},
		{"NoHeaderValueBesideTheSecret", "outbox/token", "to\x7fken", []string{"N8N_WEBHOOK_TRIGGER_TOKEN"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := required.with("N8N_TOKEN_SECRET_ID", c.id, "N8N_WEBHOOK_TRIGGER_TOKEN", c.token)
			if got := problems(t, e); !slices.Equal(got, c.want) {
				t.Errorf("problems with %v, want %v", got, c.want)
			}
		})
	}
}

func TestLoadNeedsADatabase(t *testing.T) {
	t.Parallel()
	bare := required.with("DATABASE_URL", "")
	if got := problems(t, bare); !slices.Equal(got, []string{"DATABASE_URL"}) {
		t.Errorf("problems with %v", got)
	}
	for _, name := range []string{"DATABASE_URL", "DATABASE_SECRET_ID", "PGHOST", "PGSERVICE"} {
		e := bare.with(name, "x")
		if got := problems(t, e); got != nil {
			t.Errorf("with %s: problems with %v", name, got)
		}
		if _, err := config.LoadDatabase(e.lookup); err != nil {
			t.Errorf("with %s: %v", name, err)
		}
	}
}

// An operator's machine knows the database and nothing of n8n.
func TestLoadDatabaseLooksAtNothingElse(t *testing.T) {
	t.Parallel()
	var read []string
	d, err := config.LoadDatabase(func(name string) (string, bool) {
		read = append(read, name)
		return map[string]string{"PGHOST": "db", "OUTBOX_TABLE": "app.outbox"}[name], true
	})
	if err != nil || d != (config.Database{Table: config.Table{Schema: "app", Name: "outbox"}}) {
		t.Errorf("got %+v, %v", d, err)
	}
	for _, name := range read {
		if strings.HasPrefix(name, "N8N_") || strings.HasPrefix(name, "DISPATCH_") {
			t.Errorf("reads %s", name)
		}
	}
	_, err = config.LoadDatabase(environment{"OUTBOX_TABLE": "a b", "DATABASE_IAM_AUTH": "perhaps"}.lookup)
	if got := named(t, err); !slices.Equal(got, []string{"OUTBOX_TABLE", "DATABASE_IAM_AUTH", "DATABASE_URL"}) {
		t.Errorf("problems with %v", got)
	}
}

// Everything wrong is in one error, and no value of any of it.
func TestLoadNamesEveryWrongVariableAndNoValue(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-s3cr3t"
	wrong := environment{}
	for name := range defaults {
		wrong[name] = secret
	}
	wrong["N8N_WEBHOOK_URL"] = "https://bot:" + secret + "@[bad/" + secret + "?token=" + secret
	wrong["N8N_WEBHOOK_TRIGGER_TOKEN"] = secret + "\n" + secret
	wrong["OUTBOX_TABLE"] = secret + "; drop table " + secret
	right := []string{"N8N_TOKEN_SECRET_ID", "N8N_TOKEN_SECRET_KEY", "DATABASE_URL", "DATABASE_SECRET_ID", "PGHOST", "PGSERVICE"} // take any text
	_, err := config.Load(wrong.lookup)
	names := named(t, err)
	for name := range defaults {
		if takesAny := slices.Contains(right, name); slices.Contains(names, name) == takesAny {
			t.Errorf("%s: named %v", name, !takesAny)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error holds a value: %s", err)
	}
	if !strings.HasPrefix(err.Error(), "settings: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("no line that starts with what it is about: %q", err)
	}
}

func TestEnvironReadsThisProcess(t *testing.T) {
	t.Setenv("N8N_MAX_ATTEMPTS", "7")
	if v, ok := config.Environ("N8N_MAX_ATTEMPTS"); v != "7" || !ok {
		t.Errorf("got %q %v", v, ok)
	}
}
