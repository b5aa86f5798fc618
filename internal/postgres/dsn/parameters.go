package dsn

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// parameter is one key of a connection string.
type parameter struct {
	env   string              // the variable of libpq that gives it as well; empty: none
	as    treatment           //
	wrong func(string) string // what is wrong with a value; nil: any text will do
}

type treatment int

const (
	passed  treatment = iota // to pgx, which does as libpq
	handled                  // by Parse
	ignored                  // it makes no difference here
)

// parameters are all that libpq documents as of Postgres 18, and two of pgx. What asks
// for a protection that pgx does not have is refused, not ignored.
var parameters = map[string]parameter{
	"host":                      {env: "PGHOST"},
	"hostaddr":                  {env: "PGHOSTADDR", as: handled, wrong: list("an IP address", func(s string) bool { return net.ParseIP(s) != nil })},
	"port":                      {env: "PGPORT", wrong: list("a port from 1 to 65535", isPort)},
	"dbname":                    {env: "PGDATABASE"},
	"user":                      {env: "PGUSER"},
	"password":                  {env: "PGPASSWORD"},
	"passfile":                  {env: "PGPASSFILE"},
	"service":                   {env: "PGSERVICE"},
	"servicefile":               {env: "PGSERVICEFILE"},
	"connect_timeout":           {env: "PGCONNECT_TIMEOUT", wrong: is("a whole number of seconds", isCount)},
	"application_name":          {env: "PGAPPNAME"},
	"fallback_application_name": {as: handled},
	"options":                   {env: "PGOPTIONS"},
	"target_session_attrs":      {env: "PGTARGETSESSIONATTRS", wrong: oneOf("any", "read-write", "read-only", "primary", "standby", "prefer-standby")},
	"min_protocol_version":      {env: "PGMINPROTOCOLVERSION", wrong: oneOf("3.0", "3.2", "latest")},
	"max_protocol_version":      {env: "PGMAXPROTOCOLVERSION", wrong: oneOf("3.0", "3.2", "latest")},
	"channel_binding":           {env: "PGCHANNELBINDING", wrong: oneOf("disable", "prefer", "require")},
	"require_auth":              {env: "PGREQUIREAUTH", wrong: list("a method of authentication", isMethod)},

	"sslmode":                  {env: "PGSSLMODE", wrong: oneOf("disable", "allow", "prefer", "require", "verify-ca", "verify-full")},
	"sslnegotiation":           {env: "PGSSLNEGOTIATION", wrong: oneOf("postgres", "direct")},
	"sslrootcert":              {env: "PGSSLROOTCERT"},
	"sslcert":                  {env: "PGSSLCERT"},
	"sslkey":                   {env: "PGSSLKEY"},
	"sslpassword":              {},
	"sslcertmode":              {env: "PGSSLCERTMODE", wrong: oneOf("disable", "allow", "require")},
	"sslsni":                   {env: "PGSSLSNI", wrong: oneOf("0", "1")},
	"ssl_min_protocol_version": {env: "PGSSLMINPROTOCOLVERSION", as: handled, wrong: oneOf("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")},
	"ssl_max_protocol_version": {env: "PGSSLMAXPROTOCOLVERSION", as: handled, wrong: oneOf("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")},

	"sslcrl":           {env: "PGSSLCRL", wrong: unsupported},
	"sslcrldir":        {env: "PGSSLCRLDIR", wrong: unsupported},
	"requirepeer":      {env: "PGREQUIREPEER", wrong: unsupported},
	"scram_client_key": {wrong: unsupported},
	"scram_server_key": {wrong: unsupported},
	"gssencmode":       {env: "PGGSSENCMODE", as: ignored, wrong: oneOf("disable", "prefer")}, // pgx cannot encrypt by GSS
	"replication":      {as: ignored, wrong: oneOf("false", "off", "no", "0")},

	"client_encoding":     {env: "PGCLIENTENCODING", as: ignored},   // UTF-8 always
	"sslcompression":      {env: "PGSSLCOMPRESSION", as: ignored},   // as by libpq since Postgres 14
	"sslkeylogfile":       {as: ignored},                            // no file holds keys of ours
	"load_balance_hosts":  {env: "PGLOADBALANCEHOSTS", as: ignored}, // two sessions are no load; any host is as good
	"keepalives":          {as: ignored},                            // each round trip has a time limit of its own
	"keepalives_idle":     {as: ignored},
	"keepalives_interval": {as: ignored},
	"keepalives_count":    {as: ignored},
	"tcp_user_timeout":    {as: ignored},
	"krbsrvname":          {env: "PGKRBSRVNAME", as: ignored}, // used only by a server that asks for GSS or OAuth, which pgx refuses
	"gsslib":              {env: "PGGSSLIB", as: ignored},
	"gssdelegation":       {env: "PGGSSDELEGATION", as: ignored},
	"oauth_issuer":        {as: ignored},
	"oauth_client_id":     {as: ignored},
	"oauth_client_secret": {as: ignored},
	"oauth_scope":         {as: ignored},

	"default_query_exec_mode": {wrong: oneOf("cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol")},
	"pool_max_conns":          {wrong: is("a whole number above 0", func(s string) bool { return isCount(s) && strings.Trim(s, "0") != "" })},
}

func unsupported(string) string { return "is not supported; remove it" }

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

// list is for a value of each host: an empty one is the default.
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
