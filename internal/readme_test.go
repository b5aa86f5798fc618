package internal

import (
	"encoding/json"
	"flag"
	"fmt"
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

// Where the table of settings stands, and what stands around it.
var (
	documents     = []string{"../README.md", "../infra/docs/*.md"}
	settingsBlock = regexp.MustCompile("(?s)(<!-- settings: written by `go test ./internal -update` -->\n).*?(\n<!-- end of settings -->)")
	update        = flag.Bool("update", false, "write what is generated from config.All")
)

func settingsTable() string {
	rows := []string{"| name | meaning | default | range |", "| --- | --- | --- | --- |"}
	for _, d := range config.All {
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", d.Name, d.Meaning, d.Default, d.Range()))
	}
	return strings.Join(rows, "\n")
}

// One document holds the settings as config has them, and the tests of the template read
// them from a file.
func TestWhatIsGeneratedFromTheSettings(t *testing.T) {
	table, err := json.MarshalIndent(config.All, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"../infra/tests/settings.json": string(table) + "\n"}
	for _, pattern := range documents {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if text := read(t, file); settingsBlock.MatchString(text) {
				want[file] = settingsBlock.ReplaceAllString(text, "${1}"+strings.ReplaceAll(settingsTable(), "$", "$$")+"${2}")
			}
		}
	}
	if len(want) != 2 {
		t.Errorf("the settings are in %d documents, want one", len(want)-1)
	}
	for file, text := range want {
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if read(t, file) != text {
			t.Errorf("%s is not what config.All says; run `go test ./internal -update`", file)
		}
	}
}

func TestTheReadmeListsTheErrorCodes(t *testing.T) {
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

func TestLinksLeadSomewhere(t *testing.T) {
	files, _ := filepath.Glob("../infra/runbooks/*.md")
	for _, file := range append(files, "../README.md") {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(read(t, file), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", filepath.Base(file), m[1])
			}
		}
	}
}
