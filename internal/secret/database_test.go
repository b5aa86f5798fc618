package secret

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"outbox-dispatcher/internal/config"
)

func TestDatabase(t *testing.T) {
	hard := `p@ss/w:rd#1?x%41 '\` // each of these is special somewhere on the way
	quoted, _ := json.Marshal(hard)
	for name, c := range map[string]struct {
		text      string
		want      config.Login
		wantError []string
	}{
		"AsRDSWritesIt": {
			`{"engine":"postgres","host":"db.abc.eu-central-1.rds.amazonaws.com","username":"app","password":"s3cr3t","port":5432,"dbname":"fleet","dbInstanceIdentifier":"db"}`,
			config.Login{Host: "db.abc.eu-central-1.rds.amazonaws.com", Port: 5432, Database: "fleet", User: "app", Password: "s3cr3t"}, nil,
		},
		"ManagedByRDSWithUsernameAndPasswordAlone": {`{"username":"app","password":"s3cr3t"}`, config.Login{User: "app", Password: "s3cr3t"}, nil},
		"PortAsAString":         {`{"username":"app","password":"s3cr3t","port":"6432"}`, config.Login{Port: 6432, User: "app", Password: "s3cr3t"}, nil},
		"NullIsAbsent":          {`{"username":"app","password":"s3cr3t","host":null,"port":null}`, config.Login{User: "app", Password: "s3cr3t"}, nil},
		"AnyPassword":           {`{"username":"app","password":` + string(quoted) + `}`, config.Login{User: "app", Password: hard}, nil},
		"PasswordKeepsItsSpace": {`{"password":" s3cr3t \n"}`, config.Login{Password: " s3cr3t \n"}, nil},
		"ByteOrderMark":         {"\ufeff" + `{"username":"app","password":"s3cr3t"}`, config.Login{User: "app", Password: "s3cr3t"}, nil},
		"EmptyObject":           {`{}`, config.Login{}, nil},
		"PlainText":             {`s3cr3t`, config.Login{}, []string{"JSON object", "username"}},
		"JSONString":            {`"s3cr3t"`, config.Login{}, []string{"JSON object"}},
		"Null":                  {`null`, config.Login{}, []string{"JSON object"}},
		"Empty":                 {" ", config.Login{}, []string{"JSON object"}},
		"PasswordIsANumber":     {`{"username":"app","password":12345678}`, config.Login{}, []string{`"password"`}},
		"PortOutOfRange":        {`{"username":"app","password":"s3cr3t","port":65536}`, config.Login{}, []string{`"port"`}},
		"PortZero":              {`{"port":"0"}`, config.Login{}, []string{`"port"`}},
		"PortIsText":            {`{"password":"s3cr3t","port":"s3cr3t"}`, config.Login{}, []string{`"port"`}},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, c.text)
			got, err := Database{Reader: &Reader{}, ID: "prod/db"}.Login(t.Context(), false)
			if c.wantError != nil {
				wantSentence(t, err, append(c.wantError, "prod/db")...)
			} else if err != nil {
				t.Error(err)
			}
			if got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}

	t.Run("ReadsAgainWhenThePasswordIsRefused", func(t *testing.T) {
		m := start(t, `{"password":"old"}`)
		d := Database{Reader: &Reader{}, ID: "prod/db"}
		first, _ := d.Login(t.Context(), false)
		m.set(`{"password":"new"}`)
		cached, _ := d.Login(t.Context(), false)
		fresh, err := d.Login(t.Context(), true)
		if first.Password != "old" || cached.Password != "old" || fresh.Password != "new" || err != nil || m.calls() != 2 {
			t.Errorf("got %q, %q, %q (%v) in %d calls; want old, old, new in 2", first.Password, cached.Password, fresh.Password, err, m.calls())
		}
	})
}

func TestIAMAuthToken(t *testing.T) {
	const endpoint = "db.abc.eu-west-3.rds.amazonaws.com:5432"
	lambdaEnvironment(t)

	t.Run("SignsForHostUserAndRegion", func(t *testing.T) {
		for region, want := range map[string]string{"eu-west-3": "eu-west-3", "": "eu-central-1"} {
			token, err := IAMAuthToken(t.Context(), endpoint, region, "app")
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse("https://" + token)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			if u.Host != endpoint || q.Get("DBUser") != "app" || q.Get("Action") != "connect" || q.Get("X-Amz-Expires") != "900" ||
				q.Get("X-Amz-Security-Token") != "session-token" || !strings.Contains(q.Get("X-Amz-Credential"), "/"+want+"/rds-db/") {
				t.Errorf("region %q: token for %s with %v", region, u.Host, q)
			}
		}
	})

	for name, c := range map[string]struct {
		set      map[string]string
		endpoint string
		want     string
	}{
		"NoCredentials": {map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, endpoint, "credentials"},
		"NoRegion":      {map[string]string{"AWS_REGION": ""}, endpoint, "AWS_REGION"},
		"NoPort":        {nil, "db.abc.eu-west-3.rds.amazonaws.com", "host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.set {
				t.Setenv(k, v)
			}
			_, err := IAMAuthToken(t.Context(), c.endpoint, "", "app")
			var e *SecretError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "IAM token") {
				t.Errorf("got %v, want a sentence with %q", err, c.want)
			}
		})
	}
}

func BenchmarkIAMAuthToken(b *testing.B) {
	b.Setenv("AWS_CA_BUNDLE", "")
	b.Setenv("AWS_ACCESS_KEY_ID", "AKID")
	b.Setenv("AWS_SECRET_ACCESS_KEY", "key")
	for b.Loop() {
		if _, err := IAMAuthToken(b.Context(), "db:5432", "eu-central-1", "app"); err != nil {
			b.Fatal(err)
		}
	}
}
