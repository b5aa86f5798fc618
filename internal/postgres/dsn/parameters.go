package dsn

import (
	"crypto/x509"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// parameter is one key of a connection string.
type parameter struct {
	env   string              // the variable of libpq that gives it as well; empty: none
	wrong func(string) string // what is wrong with a value; nil: any text will do
}

// parameters are those of libpq as of Postgres 18 that count here, and two of pgx. What
// asks for a protection that pgx does not have is refused rather than ignored.
var parameters = map[string]parameter{
	"host":                      {env: "PGHOST"},
	"hostaddr":                  {"PGHOSTADDR", list("an IP address", func(s string) bool { return net.ParseIP(s) != nil })},
	"port":                      {"PGPORT", list("a port from 1 to 65535", isPort)},
	"dbname":                    {env: "PGDATABASE"},
	"user":                      {env: "PGUSER"},
	"password":                  {env: "PGPASSWORD"},
	"passfile":                  {env: "PGPASSFILE"},
	"service":                   {env: "PGSERVICE"},
	"servicefile":               {env: "PGSERVICEFILE"},
	"connect_timeout":           {"PGCONNECT_TIMEOUT", is("a whole number of seconds", isCount)},
	"application_name":          {env: "PGAPPNAME"},
	"fallback_application_name": {},
	"options":                   {env: "PGOPTIONS"},
	"target_session_attrs":      {"PGTARGETSESSIONATTRS", oneOf("any", "read-write", "read-only", "primary", "standby", "prefer-standby")},
	"min_protocol_version":      {"PGMINPROTOCOLVERSION", oneOf("3.0", "3.2", "latest")},
	"max_protocol_version":      {"PGMAXPROTOCOLVERSION", oneOf("3.0", "3.2", "latest")},
	"channel_binding":           {"PGCHANNELBINDING", oneOf("disable", "prefer", "require")},
	"require_auth":              {"PGREQUIREAUTH", list("a method of authentication", isMethod)},

	"sslmode":                  {"PGSSLMODE", oneOf("disable", "allow", "prefer", "require", "verify-ca", "verify-full")},
	"sslnegotiation":           {"PGSSLNEGOTIATION", oneOf("postgres", "direct")},
	"sslrootcert":              {"PGSSLROOTCERT", is("the path of a readable file with certificates, or system", hasRoots)},
	"sslcert":                  {"PGSSLCERT", is("the path of a readable file", isFile)},
	"sslkey":                   {"PGSSLKEY", is("the path of a readable file", isFile)},
	"sslpassword":              {},
	"sslcertmode":              {"PGSSLCERTMODE", oneOf("disable", "allow", "require")},
	"sslsni":                   {"PGSSLSNI", oneOf("0", "1")},
	"ssl_min_protocol_version": {"PGSSLMINPROTOCOLVERSION", oneOf("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")},
	"ssl_max_protocol_version": {"PGSSLMAXPROTOCOLVERSION", oneOf("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")},

	"sslcrl":           {"PGSSLCRL", refused},
	"sslcrldir":        {"PGSSLCRLDIR", refused},
	"requirepeer":      {"PGREQUIREPEER", refused},
	"scram_client_key": {wrong: refused},
	"scram_server_key": {wrong: refused},
	"gssencmode":       {"PGGSSENCMODE", oneOf("disable", "prefer")},
	"replication":      {wrong: oneOf("false", "off", "no", "0")},

	"default_query_exec_mode": {wrong: oneOf("cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol")},
	"pool_max_conns":          {wrong: is("a whole number above 0", func(s string) bool { return isCount(s) && strings.Trim(s, "0") != "" })},
}

// ignored are the parameters of libpq that make no difference here: text is always UTF-8;
// each round trip has a time limit of its own; two sessions are no load to balance; no
// file gets keys of TLS; and a server that asks for GSS or OAuth is refused by pgx.
var ignored = []string{"client_encoding", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "load_balance_hosts",
	"sslcompression", "sslkeylogfile", "krbsrvname", "gsslib", "gssdelegation", "oauth_issuer", "oauth_client_id", "oauth_client_secret", "oauth_scope"}

// handled are the parameters that pgx does not get: Parse does what they say.
var handled = []string{"hostaddr", "fallback_application_name", "ssl_min_protocol_version", "ssl_max_protocol_version", "gssencmode", "replication"}

func isKnown(name string) bool {
	_, counts := parameters[name]
	return counts || slices.Contains(ignored, name)
}

func refused(string) string { return "is not supported; remove it" }

func oneOf(values ...string) func(string) string {
	return is("one of "+strings.Join(values, ", "), func(s string) bool { return slices.Contains(values, s) })
}

func is(what string, fits func(string) bool) func(string) string {
	return func(s string) string {
		if fits(s) {
			return ""
		}
		return "must be " + what
	}
}

// list is for a value of each host, of which an empty one is the default.
func list(what string, fits func(string) bool) func(string) string {
	return is(what+", or a list of such", func(s string) bool {
		return !slices.ContainsFunc(strings.Split(s, ","), func(s string) bool { return s != "" && !fits(s) })
	})
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

func isCount(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

func isMethod(s string) bool {
	return slices.Contains([]string{"password", "md5", "gss", "sspi", "scram-sha-256", "oauth", "none"}, strings.TrimPrefix(s, "!"))
}

func isFile(path string) bool {
	_, err := os.ReadFile(path)
	return err == nil
}

func hasRoots(path string) bool {
	pem, err := os.ReadFile(path)
	return path == "system" || err == nil && x509.NewCertPool().AppendCertsFromPEM(pem)
}
