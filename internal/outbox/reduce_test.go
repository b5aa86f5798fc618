package outbox_test

import (
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// Whatever the database refuses, an acknowledged event stays succeeded, and a
// failed attempt keeps what was decided about it.
func TestReduce(t *testing.T) {
	t.Parallel()
	const fixed = "The database refused the real text."
	id := func(length int) string { return strings.Repeat("é", length) }
	cut := func(length int) string { return id(length-3) + "..." }
	type detail struct{ code, error, run string }
	for _, c := range []struct {
		name   string
		status outbox.Status
		from   detail
		steps  []detail
	}{
		{"ALongExecutionID", outbox.Succeeded, detail{run: id(100_000)}, []detail{{run: cut(255)}, {run: cut(36)}, {run: cut(8)}, {}}},
		{"AUUID", outbox.Succeeded, detail{run: id(36)}, []detail{{run: cut(8)}, {}}},
		{"AShortExecutionID", outbox.Succeeded, detail{run: "4711"}, []detail{{}}},
		{"NoExecutionID", outbox.Succeeded, detail{}, nil},
		{"AFailure", outbox.Pending, detail{"connectionError", "HTTP 502", ""}, []detail{{"connectionError", fixed, ""}, {"unknownError", "", ""}}},
		{"TheLastFailure", outbox.Failed, detail{"malformedPayload", "no object", ""}, []detail{{"malformedPayload", fixed, ""}, {"unknownError", "", ""}}},
		{"AnUnknownFailure", outbox.Pending, detail{"unknownError", "broke", ""}, []detail{{"unknownError", fixed, ""}, {"unknownError", "", ""}}},
		{"AFailureWithoutText", outbox.Pending, detail{"connectionError", "", ""}, []detail{{"unknownError", "", ""}}},
		{"AnUnknownFailureWithoutText", outbox.Pending, detail{"unknownError", "", ""}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := outbox.Outcome{EventID: ours, Attempts: 3, Base: 1, Claim: outbox.Claim{Token: "claim"}, Status: c.status, Delay: time.Hour}
			with := func(d detail) outbox.Outcome {
				o := o
				o.Code, o.Error, o.RunID = outbox.Code(d.code), d.error, d.run
				return o
			}
			o = with(c.from)
			for i, want := range c.steps {
				var ok bool
				if o, ok = outbox.Reduce(o); !ok || o != with(want) {
					t.Fatalf("step %d: %v %+v\nwant %+v", i+1, ok, o, with(want))
				}
			}
			if last, ok := outbox.Reduce(o); ok || last != o {
				t.Errorf("after the last step: %+v", last)
			}
		})
	}
}
