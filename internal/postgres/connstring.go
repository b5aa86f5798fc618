package postgres

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"outbox-dispatcher/internal/config"
)

// parse reads the settings as libpq means them, but where nobody chose an
// sslmode it is verify-full off loopback: libpq would fall back to plain text
// there.
func parse(text string) (*pgxpool.Config, error) {
	cfg, err := parseString(text)
	if err != nil {
		return nil, err
	}
	if os.Getenv("PGSSLMODE") == "" && lax(cfg.ConnConfig) {
		if cfg, err = parseString(first(text, "sslmode", "verify-full")); err != nil {
			return nil, err
		}
	}
	cc := cfg.ConnConfig
	if !strings.Contains(text, "default_query_exec_mode") {
		// No named statements: they break behind a transaction pooler, pin a
		// session of RDS Proxy, and go stale when a column is added.
		cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectTimeout
	}
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "outbox-dispatcher"
	}
	if !strings.Contains(text, "pool_max_conns") {
		cfg.MaxConns = poolSize
	}
	cfg.PingTimeout = pingTimeout
	return cfg, nil
}

func parseString(text string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(text)
	if err == nil {
		return cfg, nil
	}
	// The text of the error can hold a piece of the URL.
	var file *fs.PathError
	if errors.As(err, &file) {
		return nil, settingsError("names a file that cannot be read: " + file.Path)
	}
	if pem, err := os.ReadFile(os.Getenv("PGSSLROOTCERT")); err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return nil, settingsError("PGSSLROOTCERT names a file without a certificate in it")
	}
	return nil, settingsError("cannot be read: neither a URL such as postgres://user@host:5432/database nor libpq's key=value form")
}

// first puts a setting into a connection string so that one that is there
// already wins: of two, the last counts.
func first(text, key, value string) string {
	if !isURL(text) {
		return key + "=" + quoted(value) + " " + text
	}
	setting := "?" + key + "=" + escaped(value)
	if i := query(text); i < len(text) {
		return text[:i] + setting + "&" + text[i+1:]
	}
	return text + setting
}

// last puts a setting into a connection string so that it wins.
func last(text, key, value string) string {
	switch {
	case !isURL(text):
		return text + " " + key + "=" + quoted(value)
	case query(text) < len(text):
		return text + "&" + key + "=" + escaped(value)
	}
	return text + "?" + key + "=" + escaped(value)
}

// query returns where the question mark of a connection URL is, or would be. One
// in a password is another: as for libpq, that goes up to an @ before any slash.
func query(text string) int {
	from := strings.Index(text, "://") + len("://")
	if i := strings.IndexAny(text[from:], "@/"); i >= 0 && text[from+i] == '@' {
		from += i
	}
	if i := strings.IndexByte(text[from:], '?'); i >= 0 {
		return from + i
	}
	return len(text)
}

func isURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// quoted writes a value of libpq's key=value form.
func quoted(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// escaped writes a value of a connection URL, where a plus is a plus.
func escaped(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") }

func settingsError(problem string) error {
	if !strings.HasPrefix(problem, "PG") {
		problem = "DATABASE_URL or a PG variable " + problem
	}
	return &config.SettingsError{Problems: []string{problem}}
}
