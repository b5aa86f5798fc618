// Package config turns the environment into settings.
//
// All that is known of a setting is one line of the table All: the parser reads by
// it, and the README, template.yaml and the tests of the template are checked against
// it. Wrong settings are one error that names every wrong variable, found before
// anything is claimed. A variable that is set to nothing counts as not set, because a
// template cannot leave one out. No message holds a value: some are secret, and a URL
// can carry a password.
package config

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"outbox-dispatcher/internal/cycle"
)

// Settings of the dispatcher. Every field has the default that All lists; times are
// exact, seconds in the environment take fractions.
type Settings struct {
	WebhookURL     *url.URL
	AllowHTTP      bool   // http:// to another machine is meant
	TokenSecretID  string // Secrets Manager name or ARN; empty: TriggerToken is set
	TokenSecretKey string // member of the secret if that is JSON
	TriggerToken   string // the token itself; empty: TokenSecretID is set
	cycle.Settings
	Database Database
}

// Database says where the table is and how to log in.
type Database struct {
	Table    Table
	URL      string // DATABASE_URL; empty: the PG* variables
	SecretID string // Secrets Manager JSON as RDS writes it; empty: none
	IAMAuth  bool   // an RDS IAM token instead of a password
}

// Login is what the secret of a database says of it. An empty member comes from
// DATABASE_URL or the PG* variables: a secret managed by RDS holds username and
// password alone.
type Login struct {
	Host     string
	Port     uint16
	Database string
	User     string
	Password string
}

// String shows the login without its password.
func (l Login) String() string {
	return fmt.Sprintf("{Host:%s Port:%d Database:%s User:%s Password:[redacted]}", l.Host, l.Port, l.Database, l.User)
}

// GoString keeps the password out of %#v.
func (l Login) GoString() string { return "config.Login" + l.String() }

// Lookup gives a variable of the environment, as os.LookupEnv does.
type Lookup func(name string) (string, bool)

// Environ is the environment of this process.
func Environ(name string) (string, bool) { return os.LookupEnv(name) }

// Load reads the settings of the dispatcher. The error is a *SettingsError.
func Load(lookup Lookup) (Settings, error) {
	r := reader{lookup: lookup}
	s := r.settings(All)
	if u := s.WebhookURL; u != nil && u.Scheme == "http" && !s.AllowHTTP && !IsLoopback(u.Hostname()) {
		r.problem("N8N_WEBHOOK_URL", "must start with https:// (http:// only to loopback, or with N8N_ALLOW_HTTP=true)")
	}
	switch {
	case s.TokenSecretID == "" && s.TriggerToken == "" && !r.failed("N8N_WEBHOOK_TRIGGER_TOKEN"):
		r.problem("N8N_TOKEN_SECRET_ID", "is not set; set it, or N8N_WEBHOOK_TRIGGER_TOKEN outside AWS")
	case s.TokenSecretID != "" && s.TriggerToken != "":
		r.problem("N8N_WEBHOOK_TRIGGER_TOKEN", "and N8N_TOKEN_SECRET_ID are both set; only one may be")
	}
	if !r.failed("N8N_HTTP_TIMEOUT_SECONDS") && !r.failed("N8N_DELIVERY_LEASE_SECONDS") && s.Lease < s.HTTPTimeout+cycle.PostMargin {
		r.problem("N8N_DELIVERY_LEASE_SECONDS", fmt.Sprintf("must be at least N8N_HTTP_TIMEOUT_SECONDS + %v", cycle.PostMargin.Seconds()))
	}
	r.needsDatabase(s.Database)
	return s, r.err()
}

// LoadDatabase reads the settings of the database alone, for an operator whose
// machine knows nothing of n8n. The error is a *SettingsError.
func LoadDatabase(lookup Lookup) (Database, error) {
	r := reader{lookup: lookup}
	d := r.settings(database).Database
	r.needsDatabase(d)
	return d, r.err()
}

func (r *reader) needsDatabase(d Database) {
	if d.URL == "" && d.SecretID == "" && r.word("PGHOST") == "" && r.word("PGHOSTADDR") == "" && r.word("PGSERVICE") == "" {
		r.problem("DATABASE_URL", "is not set; set it, or DATABASE_SECRET_ID, or PGHOST and the other PG variables")
	}
}

// SettingsError lists every wrong setting.
type SettingsError struct {
	Problems []string // each starts with the name of the variable
}

func (e *SettingsError) Error() string {
	return "settings: " + strings.Join(e.Problems, "; ")
}
