package cycle

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParseRequest(t *testing.T) {
	for name, c := range map[string]struct {
		event               string
		cycles, limit, conc int // -1: not asked for
		dry                 bool
	}{
		"Nothing":        {"", -1, -1, -1, false},
		"Null":           {"null", -1, -1, -1, false},
		"Empty":          {"{}", -1, -1, -1, false},
		"Scheduled":      {`{"version":"0","source":"aws.events","detail-type":"Scheduled Event","detail":{},"max_cycles":"x"}`, -1, -1, -1, false},
		"Scheduler":      {`{"source":"aws.scheduler"}`, -1, -1, -1, false},
		"ByHand":         {`{"max_cycles":0,"claim_limit":50,"concurrency":2}`, 0, 50, 2, false},
		"DryRun":         {` {"dry_run": true} `, -1, -1, -1, true},
		"DryRunSwitched": {`{"dry_run": false}`, -1, -1, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ParseRequest([]byte(c.event))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range []struct {
				got  *int
				want int
			}{{r.MaxCycles, c.cycles}, {r.ClaimLimit, c.limit}, {r.Concurrency, c.conc}} {
				if got := v.got; (got == nil) != (v.want < 0) || got != nil && *got != v.want {
					t.Errorf("got %+v", r)
				}
			}
			if r.DryRun != c.dry {
				t.Errorf("dry run %v", r.DryRun)
			}
		})
	}
	for name, c := range map[string]struct{ event, names string }{
		"UnknownMember":       {`{"max_cycle": 3}`, "max_cycle"},
		"OtherCase":           {`{"Max_Cycles": 3}`, "Max_Cycles"},
		"SomebodyElsesSource": {`{"source":"my.app"}`, "source"},
		"TooMany":             {fmt.Sprintf(`{"concurrency": %d}`, MaxConcurrency+1), "concurrency"},
		"TooManyCycles":       {fmt.Sprintf(`{"max_cycles": %d}`, MaxCycles+1), "max_cycles"},
		"TooManyRows":         {fmt.Sprintf(`{"claim_limit": %d}`, MaxRows+1), "claim_limit"},
		"TooFew":              {`{"claim_limit": 0}`, "claim_limit"},
		"Fraction":            {`{"max_cycles": 1.5}`, "max_cycles"},
		"Text":                {`{"max_cycles": "3"}`, "max_cycles"},
		"NullValue":           {`{"max_cycles": null}`, "max_cycles"},
		"DryRunAsText":        {`{"dry_run": "yes"}`, "dry_run"},
		"NoObject":            {`[1]`, "JSON object"},
		"NoJSON":              {`{`, "JSON object"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			_, err := ParseRequest([]byte(c.event))
			var eventErr *EventError
			if !errors.As(err, &eventErr) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error %v, must name %s", err, c.names)
			}
		})
	}
}
