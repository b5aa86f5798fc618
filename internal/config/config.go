// Package config turns the environment into settings.
//
// Wrong settings are one error that names every wrong variable, found before
// anything is claimed. A variable that is set to nothing counts as not set,
// because a template cannot leave one out. No message holds a value: some are
// secret, and a URL can carry a password.
package config

import (
	"net/url"
	"os"
	"strings"
	"time"
)

// Settings of the dispatcher. Every field has the default that the README
// lists; times are exact, seconds in the environment take fractions.
type Settings struct {
	WebhookURL     *url.URL
	TokenSecretID  string // Secrets Manager name or ARN; empty: TriggerToken is set
	TokenSecretKey string // member of the secret if that is JSON
	TriggerToken   string // the token itself; empty: TokenSecretID is set

	HTTPTimeout  time.Duration // one whole POST, its answer included
	Lease        time.Duration
	MaxBodyBytes int64
	MaxAttempts  int
	BackoffCap   time.Duration
	Enabled      bool

	ClaimLimit    int
	ReclaimLimit  int
	ClaimBytes    int64
	Concurrency   int
	MaxCycles     int // 0: until nothing is due or the time is up
	Linger        time.Duration
	MaxLostLeases int

	Database Database
}

// Database says where the table is and how to log in.
type Database struct {
	Table    Table
	URL      string // DATABASE_URL; empty: the PG* variables
	SecretID string // Secrets Manager JSON as RDS writes it; empty: none
	IAMAuth  bool   // an RDS IAM token in place of a password
}

// PostMargin is what a POST needs beyond its timeout: the outcome has to reach
// the database. Two seconds are some hundred times what that takes.
const PostMargin = 2 * time.Second

// Lookup gives a variable of the environment, as os.LookupEnv does.
type Lookup func(name string) (string, bool)

// Load reads the settings of the dispatcher. The error is a *SettingsError.
func Load(lookup Lookup) (Settings, error) {
	r := reader{lookup: lookup}
	s := Settings{
		WebhookURL:     r.webhookURL("N8N_WEBHOOK_URL", r.boolean("N8N_ALLOW_HTTP", false)),
		TokenSecretID:  r.word("N8N_TOKEN_SECRET_ID", ""),
		TokenSecretKey: r.word("N8N_TOKEN_SECRET_KEY", "token"),
		TriggerToken:   r.token("N8N_WEBHOOK_TRIGGER_TOKEN"),

		HTTPTimeout:  r.seconds("N8N_HTTP_TIMEOUT_SECONDS", 30, 0.001, 900),
		Lease:        r.seconds("N8N_DELIVERY_LEASE_SECONDS", 180, 0.001, 86400),
		MaxBodyBytes: r.integer("N8N_MAX_BODY_BYTES", 15<<20, 1, 256<<20),
		MaxAttempts:  int(r.integer("N8N_MAX_ATTEMPTS", 100, 1, 1_000_000)),
		BackoffCap:   r.seconds("N8N_BACKOFF_CAP_SECONDS", 60, 0.001, 86400),
		Enabled:      r.boolean("N8N_DISPATCH_ENABLED", true),

		ClaimLimit:    int(r.integer("DISPATCH_CLAIM_LIMIT", 500, 1, 10_000)),
		ReclaimLimit:  int(r.integer("DISPATCH_RECLAIM_LIMIT", 500, 1, 10_000)),
		ClaimBytes:    r.integer("DISPATCH_CLAIM_BYTES", 32<<20, 1, 1<<30),
		Concurrency:   int(r.integer("DISPATCH_CONCURRENCY", 10, 1, 1000)),
		MaxCycles:     int(r.integer("DISPATCH_MAX_CYCLES", 1, 0, 1_000_000)),
		Linger:        r.seconds("DISPATCH_LINGER_SECONDS", 0, 0, 900),
		MaxLostLeases: int(r.integer("DISPATCH_MAX_LOST_LEASES", 5, 1, 1000)),

		Database: r.database(),
	}
	switch {
	case s.TokenSecretID == "" && s.TriggerToken == "" && !r.failed("N8N_WEBHOOK_TRIGGER_TOKEN"):
		r.problem("N8N_TOKEN_SECRET_ID", "is not set; set it, or N8N_WEBHOOK_TRIGGER_TOKEN outside AWS")
	case s.TokenSecretID != "" && s.TriggerToken != "":
		r.problem("N8N_WEBHOOK_TRIGGER_TOKEN", "and N8N_TOKEN_SECRET_ID are both set; only one may be")
	}
	if !r.failed("N8N_HTTP_TIMEOUT_SECONDS") && !r.failed("N8N_DELIVERY_LEASE_SECONDS") && s.Lease < s.HTTPTimeout+PostMargin {
		r.problem("N8N_DELIVERY_LEASE_SECONDS", "must be at least N8N_HTTP_TIMEOUT_SECONDS + 2")
	}
	return s, r.err()
}

// LoadDatabase reads the settings of the database alone, for an operator whose
// machine knows nothing of n8n. The error is a *SettingsError.
func LoadDatabase(lookup Lookup) (Database, error) {
	r := reader{lookup: lookup}
	d := r.database()
	return d, r.err()
}

// Environ is the environment of this process.
func Environ(name string) (string, bool) { return os.LookupEnv(name) }

func (r *reader) database() Database {
	d := Database{
		Table:    r.table("OUTBOX_TABLE", "outbox_events"),
		URL:      r.text("DATABASE_URL", ""),
		SecretID: r.word("DATABASE_SECRET_ID", ""),
		IAMAuth:  r.boolean("DATABASE_IAM_AUTH", false),
	}
	if d.URL == "" && d.SecretID == "" && r.text("PGHOST", "") == "" && r.text("PGSERVICE", "") == "" {
		r.problem("DATABASE_URL", "is not set; set it, or DATABASE_SECRET_ID, or PGHOST and the other PG variables")
	}
	return d
}

// SettingsError lists every wrong setting.
type SettingsError struct {
	Problems []string // each starts with the name of the variable
}

func (e *SettingsError) Error() string {
	return "settings: " + strings.Join(e.Problems, "; ")
}
