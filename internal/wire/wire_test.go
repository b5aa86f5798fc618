package wire

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/secret"
)

func TestTheSettingsChooseTheLogin(t *testing.T) {
	for _, c := range []struct {
		name            string
		settings        config.Database
		secret, iamAuth bool
	}{
		{"WhatTheURLSays", config.Database{URL: "postgres://people@127.0.0.1:1/orders"}, false, false},
		{"ASecret", config.Database{SecretID: "orders/login"}, true, false},
		{"IAM", config.Database{IAMAuth: true}, false, true},
	} {
		if got := connector(c.settings, &secret.Reader{}); (got.Logins != nil) != c.secret || (got.Passwords != nil) != c.iamAuth {
			t.Errorf("%s: a secret %v, IAM %v", c.name, got.Logins != nil, got.Passwords != nil)
		}
	}
}

// The token is signed for the address and the user of the connection: RDS refuses it for
// any other.
func TestIAMSignsForTheConnection(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example", "AWS_REGION": "eu-central-1",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none} {
		t.Setenv(name, value)
	}
	_ = os.Unsetenv("AWS_PROFILE")
	token, err := connector(config.Database{IAMAuth: true}, &secret.Reader{}).Passwords(t.Context(), "db.example", 6432, "outbox_dispatcher")
	if err != nil || !strings.HasPrefix(token, "db.example:6432?") || !strings.Contains(token, "DBUser=outbox_dispatcher") || !strings.Contains(token, "eu-central-1") {
		t.Errorf("%q, %v", token, err)
	}
}

// Opening costs the init of the function nothing: no call is made before the first
// round trip.
func TestOpenCallsNothing(t *testing.T) {
	t.Parallel()
	s, err := Open(config.Database{URL: "postgres://people@127.0.0.1:1/orders", Table: config.Table{Name: "outbox_events"}, SecretID: "orders/login"}, &secret.Reader{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}
