// Package model proves the store against a model of it: random steps of several
// workers, of their producers, of operators and of strangers go through the real
// postgres.Store on a real Postgres, and beside it through a few lines of plain Go
// that say what the contract says. After each step every row must be what the
// model has, and what no step may ever break is looked at on its own:
//
//	two live leases     no event is under two of them, whatever a clock says
//	attempts            never fall, and count each recorded outcome once
//	POSTs               at most attempts + lost leases + lost outcomes + token
//	                    re-sends; exactly that where every attempt was recorded
//	final               succeeded and failed rows change by replay alone
//	token               none stays in a final row
//	payload             is what its producer wrote last
//	ends                every event is due, leased for a bounded time, or final;
//	                    with an n8n that answers, all become final
//
// The steps are in steps_test.go and strangers_test.go, the rules of the model in
// event_test.go, the invariants in look_test.go. variants_test.go breaks the store
// in ways that people do break such a store and expects the model to notice.
// together_test.go lets the workers run at the same time.
//
// The random steps are the same in each run: -rapid.seed, -rapid.checks and
// -rapid.steps change that.
package model

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"outbox-dispatcher/internal/testkit/pgtest"
)

// defaults of rapid's flags here. Ten checks of some fifty steps find each of
// the broken stores several times over and take some ten seconds.
var defaults = map[string]string{
	"rapid.seed": "20250102", "rapid.checks": "10", "rapid.steps": "50",
	"rapid.shrinktime": "15s", "rapid.nofailfile": "true",
}

func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range defaults {
		_, env := os.LookupEnv(strings.ToUpper(strings.ReplaceAll(name, ".", "_")))
		if given[name] || env {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	pgtest.Main(m)
}
