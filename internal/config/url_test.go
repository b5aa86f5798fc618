package config_test

import (
	"slices"
	"strings"
	"testing"

	"outbox-dispatcher/internal/config"
)

func TestLoadChecksTheURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url           string
		ok, withAllow bool // without and with N8N_ALLOW_HTTP=true
	}{
		{"https://n8n.example/webhook/x", true, true},
		{"HTTPS://N8N.example/webhook/x", true, true},
		{"https://n8n.example", true, true},
		{"https://n8n.example:5678/x", true, true},
		{"https://u:p%40ss@n8n.example/x?token=abc#part", true, true},
		{"https://10.0.0.1/x", true, true},
		{"https://[2001:db8::1]:5678/x", true, true},
		{"https://n8n.exämple/x", true, true},
		{"http://127.0.0.1:5678/x", true, true},
		{"http://127.200.3.4/x", true, true},
		{"http://localhost:5678/x", true, true},
		{"http://LocalHost/x", true, true},
		{"http://[::1]:5678/x", true, true},
		{"http://u:p@127.0.0.1:18400/x", true, true},
		{"http://n8n.internal/x", false, true},
		{"http://10.0.0.1/x", false, true},
		{"http://0.0.0.0/x", false, true},
		{"http://localhost.evil.example/x", false, true},
		{"http://127.0.0.1.evil.example/x", false, true},
		{"http://127.0.0.1@evil.example/x", false, true},
		{"http://[::2]/x", false, true},
		{"", false, false},
		{" ", false, false},
		{"127.0.0.1:5678/x", false, false},
		{"n8n.example/x", false, false},
		{"//n8n.example/x", false, false},
		{"/webhook/x", false, false},
		{"https:n8n.example", false, false},
		{"https:///x", false, false},
		{"https://:443/x", false, false},
		{"https://u:p@/x", false, false},
		{"http://[bad/x", false, false},
		{"https://n8n.example:/x", false, false},
		{"https://n8n.example:0/x", false, false},
		{"https://n8n.example:65536/x", false, false},
		{"https://n8n.example:-1/x", false, false},
		{"https://n8n.example:port/x", false, false},
		{"https://n8n example/x", false, false},
		{"https://n8n.example/a\nb", false, false},
		{"https://n8n.example/%zz", false, false},
		{"https://u:p@ss/w@n8n.example/x", false, false},
		{"https://u:12/w@n8n.example/x", false, false},
		{"https://u:p@ss?w@n8n.example/x", false, false},
		{"https://n8n.example/x?to=a@b", true, true},
		{"https://u:p@n8n.example/%40me", true, true},
		{"ftp://n8n.example/x", false, false},
		{"ws://n8n.example/x", false, false},
		{"javascript:alert(1)", false, false},
		{"file:///etc/passwd", false, false},
		{"'https://n8n.example/x'", false, false},
	} {
		for allow, ok := range map[string]bool{"": c.ok, "false": c.ok, "true": c.withAllow} {
			got := problems(t, required.with("N8N_WEBHOOK_URL", c.url, "N8N_ALLOW_HTTP", allow))
			if ok && got != nil || !ok && !slices.Equal(got, []string{"N8N_WEBHOOK_URL"}) {
				t.Errorf("%q with N8N_ALLOW_HTTP=%s: problems with %v", c.url, allow, got)
			}
		}
	}
}

func TestLoadSaysWhatIsWrongWithTheURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                   "N8N_WEBHOOK_URL is not set",
		"n8n.example/x":      "N8N_WEBHOOK_URL is not a URL such as https://n8n.example/webhook/path",
		"http://n8n.other/x": "N8N_ALLOW_HTTP=true",
		"https://u:p@s/w@h/": "N8N_WEBHOOK_URL has an @ after the host",
	} {
		if _, err := config.Load(required.with("N8N_WEBHOOK_URL", url).lookup); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", url, err, want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "127.0.0.1": true, "127.255.255.254": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "n8n": false, "128.0.0.1": false, "0.0.0.0": false, "::": false, "localhost.": false, "a.localhost": false, "127.1": false,
	} {
		if got := config.IsLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
