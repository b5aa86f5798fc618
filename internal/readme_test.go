package internal

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/outbox"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// settings are the variables that the program reads, as it tells itself.
func settings() map[string]bool {
	names := map[string]bool{}
	_, _ = config.Load(func(name string) (string, bool) {
		names[name] = true
		return "", false
	})
	return names
}

// local settings are for runs outside AWS, or come with the system of libpq.
var local = map[string]bool{"N8N_WEBHOOK_TRIGGER_TOKEN": true, "DATABASE_URL": true, "PGSERVICE": true}

func TestEverySettingIsInTheReadme(t *testing.T) {
	readme := read(t, "../README.md")
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)` \\|").FindAllStringSubmatch(readme, -1) {
		listed[m[1]] = true
	}
	for name := range settings() {
		if !listed[name] && !strings.HasPrefix(name, "PG") {
			t.Errorf("the settings table of the README lacks %s", name)
		}
	}
	// These are read by the log and by the tests.
	others := map[string]bool{"LOG_LEVEL": true, "METRICS_STACK": true, "POSTGRES_BIN": true, "TEST_DATABASE_URL": true}
	for name := range listed {
		if !settings()[name] && !others[name] {
			t.Errorf("the README lists %s, which nothing reads", name)
		}
	}
}

func TestEverySettingIsInTheTemplate(t *testing.T) {
	template := read(t, "../template.yaml")
	for name := range settings() {
		if !local[name] && !regexp.MustCompile(`(?m)^\s+`+name+`:`).MatchString(template) {
			t.Errorf("template.yaml does not set %s", name)
		}
	}
}

func TestTheReadmePrintsTheTableOfCodes(t *testing.T) {
	readme := read(t, "../README.md")
	for _, c := range outbox.Codes {
		retried := "no"
		if c.Retried {
			retried = "yes"
		}
		row := "| `" + string(c.Code) + "` | " + retried + " | " + c.Meaning + " | " + c.Fix + " |"
		if !strings.Contains(readme, row) {
			t.Errorf("the README lacks this row:\n%s", row)
		}
	}
}

func TestWhatTheReadmeLinksToIsThere(t *testing.T) {
	files, _ := filepath.Glob("../infra/runbooks/*.md")
	for _, file := range append(files, "../README.md") {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(read(t, file), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", filepath.Base(file), m[1])
			}
		}
	}
}
