package config

import (
	"slices"

	"outbox-dispatcher/internal/cycle"
)

// Setting is one variable of the environment.
type Setting struct {
	Name    string `json:"name"`
	Meaning string `json:"-"` // a line of the README
	Default string `json:"default"`
	// Min and Max bound a number, seconds for a time. Both zero: it is not a number.
	Min float64 `json:"min"`
	Max float64 `json:"max"`
	// Parameter of template.yaml that is this setting, with the same default and
	// bounds. Empty: the template never sets it, or derives it.
	Parameter string `json:"parameter"`

	// field is where the value goes; its type says how the text is read. Nil: another
	// package reads the variable.
	field func(*Settings) any
}

// All lists every setting, in the order of the README. A new setting is one line here
// and its field.
var All = slices.Concat(delivery, database, []Setting{
	{Name: "LOG_LEVEL", Default: "info", Meaning: "debug, info, warn or error; at warn acknowledged events leave no line"},
	{Name: "METRICS_STACK", Default: "local", Meaning: "dimension of the metrics; the template sets the stack's name"},
})

var delivery = []Setting{
	{Name: "N8N_WEBHOOK_URL", Meaning: "required: the webhook; a user part becomes Basic authentication",
		field: func(s *Settings) any { return &s.WebhookURL }},
	{Name: "N8N_ALLOW_HTTP", Default: "false", Meaning: "allow http:// to another machine",
		field: func(s *Settings) any { return &s.AllowHTTP }},
	{Name: "N8N_TOKEN_SECRET_ID", Parameter: "N8nTokenSecretArn", Meaning: "required unless `N8N_WEBHOOK_TRIGGER_TOKEN` is set: Secrets Manager name or ARN of the token, plain text or JSON; cached for 5 minutes",
		field: func(s *Settings) any { return &s.TokenSecretID }},
	{Name: "N8N_TOKEN_SECRET_KEY", Default: "token", Parameter: "N8nTokenSecretKey", Meaning: "member of that secret if it is JSON",
		field: func(s *Settings) any { return &s.TokenSecretKey }},
	{Name: "N8N_WEBHOOK_TRIGGER_TOKEN", Meaning: "the token itself, outside AWS",
		field: func(s *Settings) any { return (*token)(&s.TriggerToken) }},
	{Name: "N8N_HTTP_TIMEOUT_SECONDS", Default: "30", Min: 0.001, Max: cycle.MaxHTTPTimeout.Seconds(), Parameter: "HttpTimeoutSeconds", Meaning: "one whole POST, its answer included",
		field: func(s *Settings) any { return &s.HTTPTimeout }},
	{Name: "N8N_DELIVERY_LEASE_SECONDS", Default: "180", Min: cycle.PostMargin.Seconds(), Max: cycle.MaxLease.Seconds(), Parameter: "LeaseSeconds", Meaning: "how long a claim holds; at least the timeout + 2, and longer than the function's timeout",
		field: func(s *Settings) any { return &s.Lease }},
	{Name: "N8N_MAX_BODY_BYTES", Default: "15728640", Min: cycle.MinBodyBytes, Max: cycle.MaxBodyBytes, Parameter: "MaxBodyBytes", Meaning: "largest body that is sent; n8n answers 500 from 16 MiB on",
		field: func(s *Settings) any { return &s.MaxBodyBytes }},
	{Name: "N8N_MAX_ATTEMPTS", Default: "100", Min: 1, Max: cycle.MaxAttempts, Parameter: "MaxAttempts", Meaning: "attempts before an event fails",
		field: func(s *Settings) any { return &s.Policy.MaxAttempts }},
	{Name: "N8N_BACKOFF_CAP_SECONDS", Default: "60", Min: 0.1, Max: cycle.MaxBackoffCap.Seconds(), Parameter: "BackoffCapSeconds", Meaning: "longest delay between attempts",
		field: func(s *Settings) any { return &s.Policy.BackoffCap }},
	{Name: "N8N_DISPATCH_ENABLED", Default: "true", Parameter: "DispatchEnabled", Meaning: "false: the invocation does nothing and says so",
		field: func(s *Settings) any { return &s.Enabled }},
	{Name: "DISPATCH_CLAIM_LIMIT", Default: "500", Min: 1, Max: cycle.MaxRows, Parameter: "ClaimLimit", Meaning: "events claimed a cycle",
		field: func(s *Settings) any { return &s.ClaimLimit }},
	{Name: "DISPATCH_CLAIM_BYTES", Default: "33554432", Min: cycle.MinClaimBytes, Max: cycle.MaxClaimBytes, Parameter: "ClaimBytes", Meaning: "payload bytes claimed a cycle, one event at least",
		field: func(s *Settings) any { return &s.ClaimBytes }},
	{Name: "DISPATCH_RECLAIM_LIMIT", Default: "500", Min: 1, Max: cycle.MaxRows, Parameter: "ReclaimLimit", Meaning: "expired leases that an invocation takes back",
		field: func(s *Settings) any { return &s.ReclaimLimit }},
	{Name: "DISPATCH_CONCURRENCY", Default: "10", Min: 1, Max: cycle.MaxConcurrency, Parameter: "Concurrency", Meaning: "POSTs in flight at most",
		field: func(s *Settings) any { return &s.Concurrency }},
	{Name: "DISPATCH_MAX_CYCLES", Default: "1", Min: 0, Max: cycle.MaxCycles, Parameter: "MaxCycles", Meaning: "cycles an invocation; 0: until nothing is due or the time is up",
		field: func(s *Settings) any { return &s.MaxCycles }},
	{Name: "DISPATCH_LINGER_SECONDS", Default: "0", Min: 0, Max: cycle.LongestInvocation.Seconds(), Parameter: "LingerSeconds", Meaning: "afterwards check for new events every 5 s for that long",
		field: func(s *Settings) any { return &s.Linger }},
	{Name: "DISPATCH_MAX_LOST_LEASES", Default: "5", Min: cycle.MinLostLeases, Max: cycle.MaxLostLeases, Parameter: "MaxLostLeases", Meaning: "leases a suspect may lose in a row before it fails",
		field: func(s *Settings) any { return &s.MaxLostLeases }},
}

var database = []Setting{
	{Name: "OUTBOX_TABLE", Default: "outbox_events", Parameter: "OutboxTable", Meaning: "table or schema.table, by the rules of SQL",
		field: func(s *Settings) any { return &s.Database.Table }},
	{Name: "DATABASE_URL", Meaning: "Postgres, as a URL or in libpq's key=value form; without it `DATABASE_SECRET_ID` or libpq's `PG*` variables are required. Without an sslmode: verify-full, except on loopback",
		field: func(s *Settings) any { return &s.Database.URL }},
	{Name: "DATABASE_SECRET_ID", Meaning: "Secrets Manager JSON as RDS writes it; `DATABASE_URL` or `PG*` fill in what it lacks",
		field: func(s *Settings) any { return &s.Database.SecretID }},
	{Name: "DATABASE_IAM_AUTH", Default: "false", Parameter: "DatabaseIamAuth", Meaning: "an RDS IAM token instead of a password",
		field: func(s *Settings) any { return &s.Database.IAMAuth }},
}

// token is a text that has to be the value of an HTTP header.
type token string
