package main

import (
	"cmp"
	"maps"
	"os"
	"strings"

	"outbox-dispatcher/internal/config"
)

// given is what the environment gives in place of the throw-away parts. Empty
// fields are not given.
type given struct {
	databaseURL string
	webhookURL  string
	token       string
	allowHTTP   string // N8N_ALLOW_HTTP
	table       string // OUTBOX_TABLE
}

// readGiven reads the environment and checks it before anything is started. The
// error is a *config.SettingsError.
func readGiven() (given, error) {
	g := given{
		databaseURL: os.Getenv("DATABASE_URL"),
		webhookURL:  os.Getenv("N8N_WEBHOOK_URL"),
		token:       os.Getenv("N8N_WEBHOOK_TRIGGER_TOKEN"),
		allowHTTP:   os.Getenv("N8N_ALLOW_HTTP"),
		table:       os.Getenv("OUTBOX_TABLE"),
	}
	if g.databaseURL == "" {
		// They are meant for another server, and pgx would follow them.
		for name := range pgVariables() {
			_ = os.Unsetenv(name) // it fails for a bad name only
		}
	}
	// What is not given is made up, as it will be.
	made := settings(g)
	made["DATABASE_URL"] = cmp.Or(g.databaseURL, "postgres://127.0.0.1/")
	made["N8N_WEBHOOK_URL"] = cmp.Or(g.webhookURL, "http://127.0.0.1/")
	if g.webhookURL == "" {
		made["N8N_WEBHOOK_TRIGGER_TOKEN"] = cmp.Or(g.token, "made up")
	}
	_, err := config.Load(lookup(made))
	return g, err
}

// settings of the function: short times, so that a minute shows what takes hours
// in earnest.
func settings(g given) map[string]string {
	s := map[string]string{
		"OUTBOX_TABLE":                    g.table,
		"N8N_WEBHOOK_TRIGGER_TOKEN":       g.token,
		"N8N_ALLOW_HTTP":                  g.allowHTTP,
		"N8N_HTTP_TIMEOUT_SECONDS":        "3",
		"N8N_DELIVERY_LEASE_SECONDS":      "15",
		"N8N_MAX_ATTEMPTS":                "5", // lastAttempt counts on it
		"N8N_BACKOFF_CAP_SECONDS":         "8",
		"DISPATCH_CONCURRENCY":            "4",
		"AWS_LAMBDA_FUNCTION_TIMEOUT":     "10",
		"AWS_XRAY_SDK_DISABLED":           "true", // no daemon here
		"AWS_LAMBDA_FUNCTION_NAME":        "outbox-dispatcher-demo",
		"AWS_LAMBDA_FUNCTION_VERSION":     "$LATEST",
		"AWS_REGION":                      "eu-central-1",
		"AWS_ACCESS_KEY_ID":               "none", // the emulator wants them; nothing of AWS is called
		"AWS_SECRET_ACCESS_KEY":           "none",
		"AWS_SESSION_TOKEN":               "none",
		"LOG_LEVEL":                       "error",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128",
	}
	if g.webhookURL != "" { // a real n8n takes its time
		s["N8N_HTTP_TIMEOUT_SECONDS"] = "5"
	}
	return s
}

// environment is all that the function and the emulator see of the world.
func environment(g given, t *table, n *n8n) map[string]string {
	e := settings(g)
	e["PATH"] = "/usr/bin:/bin"
	e["DATABASE_URL"] = t.url
	e["N8N_WEBHOOK_URL"] = n.url
	e["N8N_WEBHOOK_TRIGGER_TOKEN"] = n.token
	if g.databaseURL != "" {
		maps.Copy(e, pgVariables())
		e["HOME"] = os.Getenv("HOME") // libpq's files: .pgpass, .postgresql
	}
	if g.webhookURL != "" {
		for _, name := range []string{"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
			e[name] = os.Getenv(name)
		}
	}
	maps.DeleteFunc(e, func(_, value string) bool { return value == "" })
	return e
}

// pgVariables are the PG* variables of our environment.
func pgVariables() map[string]string {
	found := map[string]string{}
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			found[name] = value
		}
	}
	return found
}

func lookup(m map[string]string) config.Lookup {
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}
