package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestParse(t *testing.T) {
	const url = "postgres://app@db.example/app"
	for _, try := range []struct {
		name, url, env string
		mode           pgx.QueryExecMode
		conns          int32
		connect        time.Duration
		application    string
	}{
		{"ByDefault", url, "", pgx.QueryExecModeExec, 2, 5 * time.Second, "outbox-dispatcher"},
		{"Words", "host=db.example", "", pgx.QueryExecModeExec, 2, 5 * time.Second, "outbox-dispatcher"},
		{"Nothing", "", "", pgx.QueryExecModeExec, 2, 5 * time.Second, "outbox-dispatcher"},
		{"SimpleProtocol", url + "?default_query_exec_mode=simple_protocol", "", pgx.QueryExecModeSimpleProtocol, 2, 5 * time.Second, "outbox-dispatcher"},
		{"CacheStatement", url + "?default_query_exec_mode=cache_statement", "", pgx.QueryExecModeCacheStatement, 2, 5 * time.Second, "outbox-dispatcher"},
		{"PoolSize", url + "?pool_max_conns=1", "", pgx.QueryExecModeExec, 1, 5 * time.Second, "outbox-dispatcher"},
		{"Application", url + "?application_name=mine", "", pgx.QueryExecModeExec, 2, 5 * time.Second, "mine"},
		{"ConnectTimeout", url + "?connect_timeout=9", "", pgx.QueryExecModeExec, 2, 9 * time.Second, "outbox-dispatcher"},
		{"ConnectTimeoutByTheEnvironment", url, "9", pgx.QueryExecModeExec, 2, 9 * time.Second, "outbox-dispatcher"},
	} {
		t.Run(try.name, func(t *testing.T) {
			t.Setenv("PGCONNECT_TIMEOUT", try.env)
			cfg, err := parse(try.url)
			if err != nil {
				t.Fatal(err)
			}
			cc := cfg.ConnConfig
			if cc.DefaultQueryExecMode != try.mode || cfg.MaxConns != try.conns || cc.ConnectTimeout != try.connect || cc.RuntimeParams["application_name"] != try.application {
				t.Errorf("%v, %d sessions, %v to connect, %q", cc.DefaultQueryExecMode, cfg.MaxConns, cc.ConnectTimeout, cc.RuntimeParams["application_name"])
			}
			// A pooler refuses parameters that it does not know.
			for name := range cc.RuntimeParams {
				if name != "application_name" {
					t.Errorf("it would send %s at the start of a session", name)
				}
			}
		})
	}
}

func TestASettingPutIntoAConnectionString(t *testing.T) {
	t.Parallel()
	const odd = `l'a\s t+&?%=@/`
	for text, there := range map[string]bool{
		"": false, "host=a": false, "host=a application_name=mine": true, "application_name = 'mine'": true,
		"postgres://": false, "postgres:///": false, "postgresql://a": false, "postgres://a/b": false, "postgres://u@a:1,b:2/c": false, "postgres://a?host=b": false,
		"postgres://a?application_name=mine": true, "postgres://a/b?application_name=mine": true, "postgres://a/b?host=b&application_name=mine": true,
		"postgres://u:p?q@a/b": false, "postgres://u:p?application_name=x@a/b": false, "postgres://u:p?q@a/b?application_name=mine": true, "postgres://a/b?host=@/?": false,
	} {
		want := odd
		if there { // and so it wins over what is put first
			want = "mine"
		}
		for _, with := range []struct{ text, want string }{{first(text, "application_name", odd), want}, {last(text, "application_name", odd), odd}} {
			cfg, err := parseString(with.text)
			if err != nil {
				t.Errorf("%s: %v", with.text, err)
			} else if got := cfg.ConnConfig.RuntimeParams["application_name"]; got != with.want {
				t.Errorf("%s gives %q, want %q", with.text, got, with.want)
			}
		}
	}
}
