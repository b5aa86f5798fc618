package config_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"outbox-dispatcher/internal/config"
)

// said is what the errors of this package say of themselves: every error with its
// names and values taken out. A value that stands in it too gives nothing away.
const said = `settings: is not set; set it, or outside AWS and are both set; only one may be must be at least + 2
 true or false a whole number from to seconds cannot be the value of an HTTP header: it has a control character, starts with a space
 is not a URL such as https://n8n.example/webhook/path must start with https:// (http:// only to loopback, or with =true)
 must be a table or schema.table, with double quotes where SQL needs them must be text in UTF-8
 has a part that is empty or longer than the 63 bytes that Postgres keeps the other PG variables
 from 0 from 0.001 from 1 to 900 to 1000 to 10000 to 86400 to 1000000 to 268435456 to 1073741824`

// However the environment looks, there are settings that hold together or an
// error that names variables and shows no value.
func FuzzSettings(f *testing.F) {
	names := slices.Sorted(maps.Keys(defaults))
	f.Add(uint8(0), "x", uint8(5), "-1")
	for i, name := range names {
		f.Add(uint8(i), defaults[name], uint8(i+1), "hunter2-s3cr3t")
		f.Add(uint8(i), "\xff\x00", uint8(i+2), "1e308")
	}
	f.Add(uint8(slices.Index(names, "N8N_WEBHOOK_URL")), "https://u:hunter2@[::1%25x]:99999/p?q", uint8(slices.Index(names, "N8N_ALLOW_HTTP")), "perhaps")
	f.Fuzz(func(t *testing.T, first uint8, a string, second uint8, b string) {
		e := required.with(names[int(first)%len(names)], a, names[int(second)%len(names)], b)
		s, err := config.Load(e.lookup)
		if err == nil {
			if s.Lease < s.HTTPTimeout+config.PostMargin || s.HTTPTimeout <= 0 || s.BackoffCap <= 0 || s.Linger < 0 {
				t.Errorf("times: %v %v %v %v", s.Lease, s.HTTPTimeout, s.BackoffCap, s.Linger)
			}
			if s.MaxAttempts < 1 || s.ClaimLimit < 1 || s.ReclaimLimit < 1 || s.Concurrency < 1 || s.MaxLostLeases < 1 || s.MaxCycles < 0 || s.MaxBodyBytes < 1 || s.ClaimBytes < 1 {
				t.Errorf("counts: %+v", s)
			}
			if (s.TriggerToken == "") == (s.TokenSecretID == "") || s.WebhookURL.Hostname() == "" || s.Database.Table.Name == "" {
				t.Errorf("settings: %+v", s)
			}
			return
		}
		for _, name := range named(t, err) {
			if _, known := defaults[name]; !known {
				t.Errorf("names %q: %s", name, err)
			}
		}
		for _, value := range []string{a, b} {
			for _, word := range strings.Fields(value) {
				if len(word) > 3 && strings.Contains(err.Error(), word) && !strings.Contains(said, word) && !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, word) }) {
					t.Errorf("shows %q: %s", word, err)
				}
			}
		}
	})
}
