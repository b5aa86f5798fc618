// Package internal holds one rule: which package may import which. Imports point
// inward, and adapters never know each other.
package internal

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "outbox-dispatcher/"

// may lists for each package (and those below it) what of this module, and what
// of others, it may import beside the standard library. The longest prefix counts.
var may = map[string][]string{
	"internal/outbox":   {},
	"internal/netfault": {},
	"internal/config":   {module + "internal/outbox", module + "internal/cycle"},
	"internal/cycle":    {module + "internal/outbox", "golang.org/x/sync/errgroup"},

	"internal/operator":        {module + "internal/outbox"},
	"internal/operator/doctor": {module + "internal/outbox", module + "internal/netfault", module + "internal/cycle", module + "internal/config", module + "internal/operator"},

	"internal/postgres":     {module + "internal/outbox", module + "internal/netfault", module + "internal/cycle", module + "internal/operator", module + "internal/config", module + "internal/postgres/dsn", "github.com/jackc/pgx/v5"},
	"internal/postgres/dsn": {module + "internal/config", module + "internal/postgres/rdsroots", "github.com/jackc/pgx/v5", "github.com/jackc/pgservicefile"},
	"internal/n8n":          {module + "internal/outbox", module + "internal/netfault", module + "internal/cycle"},
	"internal/secret":       {module + "internal/outbox", module + "internal/netfault", module + "internal/cycle", module + "internal/config", "github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go", "golang.org/x/sync/singleflight"},
	"internal/telemetry":    {module + "internal/outbox", module + "internal/cycle", module + "internal/telemetry", "github.com/aws/aws-xray-sdk-go/v2", "github.com/aws/aws-lambda-go/lambdacontext"},

	// Where two adapters meet, for both functions.
	"internal/wire": {module + "internal/config", module + "internal/postgres", module + "internal/secret"},
}

// forTests may be imported by tests alone: they stay out of what is deployed.
var forTests = []string{"internal/testkit", "infra"}

func TestImportsPointInward(t *testing.T) {
	for pkg, imports := range list(t, "{{.ImportPath}} {{join .Imports \" \"}}", "../internal/...") {
		pkg = strings.TrimPrefix(pkg, module)
		if slices.ContainsFunc(forTests, func(p string) bool { return below(pkg, p) }) {
			continue
		}
		allowed, ok := rule(pkg)
		if !ok {
			continue
		}
		for _, i := range imports {
			foreign := strings.Contains(i, ".") || strings.HasPrefix(i, module)
			if foreign && !slices.ContainsFunc(allowed, func(p string) bool { return below(i, p) }) {
				t.Errorf("%s imports %s", pkg, i)
			}
		}
	}
}

func TestWhatIsDeployedHoldsNothingOfTheTests(t *testing.T) {
	for _, function := range []string{"../functions/dispatcher", "../functions/operator"} {
		for pkg := range list(t, "{{.ImportPath}}", "-deps", function) {
			if pkg == "testing" || slices.ContainsFunc(forTests, func(p string) bool { return below(pkg, module+p) }) {
				t.Errorf("%s links %s", function, pkg)
			}
		}
	}
}

func rule(pkg string) (allowed []string, ok bool) {
	longest := ""
	for prefix, a := range may {
		if below(pkg, prefix) && len(prefix) > len(longest) {
			longest, allowed, ok = prefix, a, true
		}
	}
	return allowed, ok
}

func below(pkg, prefix string) bool {
	return pkg == prefix || strings.HasPrefix(pkg, prefix+"/")
}

// list runs go list and returns its lines as first word and rest.
func list(t *testing.T, format string, args ...string) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-f", format}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	lines := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		lines[words[0]] = words[1:]
	}
	return lines
}
