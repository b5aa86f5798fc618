package model

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// variant is a good store with one step replaced by the way it is often written.
type variant struct {
	cycle.Store
	db *pgx.Conn

	take     func(v *variant, ctx context.Context, c cycle.Claim) (cycle.Batch, error)
	record   func(v *variant, ctx context.Context, outcomes []outbox.Outcome) ([]cycle.Fate, error)
	release  func(v *variant, ctx context.Context, events []outbox.Event) ([]cycle.Fate, error)
	payloads map[string]string
}

func (v *variant) Take(ctx context.Context, c cycle.Claim) (cycle.Batch, error) {
	if v.take != nil {
		return v.take(v, ctx, c)
	}
	return v.Store.Take(ctx, c)
}

func (v *variant) Record(ctx context.Context, outcomes []outbox.Outcome) ([]cycle.Fate, error) {
	if v.record != nil {
		return v.record(v, ctx, outcomes)
	}
	return v.Store.Record(ctx, outcomes)
}

func (v *variant) Release(ctx context.Context, events []outbox.Event) ([]cycle.Fate, error) {
	if v.release != nil {
		return v.release(v, ctx, events)
	}
	return v.Store.Release(ctx, events)
}

// each writes outcomes one by one with a statement of its own, fenced by where.
func each(where string) func(*variant, context.Context, []outbox.Outcome) ([]cycle.Fate, error) {
	return func(v *variant, ctx context.Context, outcomes []outbox.Outcome) (fates []cycle.Fate, err error) {
		for _, o := range outcomes {
			tag, err := v.db.Exec(ctx, `update outbox_events set delivery_status = $2, attempts = attempts + 1,
				next_attempt_at = case when $2 = 'pending' then clock_timestamp() + $3::float8 * interval '1 second' end,
				last_error = nullif($4, ''), last_error_code = nullif($5, ''),
				external_run_id = coalesce(nullif($6, ''), external_run_id),
				payload_json = `+bareJSON+`
				where event_id = $1 and `+where,
				o.EventID, string(o.Status), o.Delay.Seconds(), o.Error, string(o.Code), o.RunID)
			if err != nil {
				return nil, err
			}
			fate := cycle.Recorded
			if tag.RowsAffected() == 0 {
				fate = cycle.Lost
			}
			fates = append(fates, fate)
		}
		return fates, nil
	}
}

const bareJSON = `case jsonb_typeof(payload_json) when 'object' then payload_json - '_delivery_claim_token' else payload_json end`

// behind runs a statement over every row of a good write that was recorded.
func behind(sql string) func(*variant, context.Context, []outbox.Outcome) ([]cycle.Fate, error) {
	return func(v *variant, ctx context.Context, outcomes []outbox.Outcome) ([]cycle.Fate, error) {
		fates, err := v.Store.Record(ctx, outcomes)
		for i, fate := range fates {
			if o := outcomes[i]; fate == cycle.Recorded && err == nil {
				_, err = v.db.Exec(ctx, sql, o.EventID, o.Claim.Token)
			}
		}
		return fates, err
	}
}

// reclaim is one of its own in front of a claim: of the rows that where names, as
// the clock of the worker ($1) goes by, counting so many attempts.
func reclaim(where string, attempts int) func(*variant, context.Context, cycle.Claim) (cycle.Batch, error) {
	return func(v *variant, ctx context.Context, c cycle.Claim) (cycle.Batch, error) {
		limit := c.Reclaim.Limit
		if limit == 0 {
			return v.Store.Take(ctx, c)
		}
		c.Reclaim.Limit = 0
		tag, err := v.db.Exec(ctx, `update outbox_events t set delivery_status = 'pending', next_attempt_at = null,
			attempts = t.attempts + $3, last_error = 'The lease ran out', last_error_code = 'staleLeaseRecovered', lost_leases_at = t.attempts,
			lost_leases = case when lost_leases_at = t.attempts then lost_leases + 1 else 1 end
			where event_id in (select event_id from outbox_events where delivery_status = 'delivering' and `+where+` order by next_attempt_at limit $2 for update)`,
			time.Now(), limit, attempts)
		if err != nil {
			return cycle.Batch{}, err
		}
		b, err := v.Store.Take(ctx, c)
		b.Reclaimed.Returned = int(tag.RowsAffected())
		return b, err
	}
}

// variants, and the rules one of which has to notice each.
var variants = []struct {
	name  string
	rules string
	made  variant
	again int    // further POSTs that the worker knows nothing of
	only  string // steps, where few walks come by the fault
}{
	{name: "FenceOnStatusAlone", rules: "fence|final|attempts", made: variant{record: each(`delivery_status = 'delivering'`)}},
	{name: "RecordByIDAlone", rules: "fence|final|attempts", made: variant{record: each(`true`)}},
	{name: "FenceOnAttemptsAlone", rules: "fence", made: variant{record: func(v *variant, ctx context.Context, outcomes []outbox.Outcome) (fates []cycle.Fate, err error) {
		for _, o := range outcomes {
			one, err := each(fmt.Sprintf(`delivery_status = 'delivering' and attempts = %d`, o.Attempts))(v, ctx, []outbox.Outcome{o})
			if err != nil {
				return nil, err
			}
			fates = append(fates, one...)
		}
		return fates, nil
	}}},
	{name: "TokenReadAgainBeforeTheOutcome", rules: "fence", made: variant{record: func(v *variant, ctx context.Context, outcomes []outbox.Outcome) ([]cycle.Fate, error) {
		read := append([]outbox.Outcome{}, outcomes...)
		for i := range read {
			if read[i].Claim.Token == "" {
				continue
			}
			err := v.db.QueryRow(ctx, `select coalesce(payload_json ->> '_delivery_claim_token', 'none') from outbox_events where event_id = $1`, read[i].EventID).
				Scan(&read[i].Claim.Token)
			if err != nil {
				return nil, err
			}
		}
		return v.Store.Record(ctx, read)
	}}},
	{name: "LeaseByTheClockOfTheWorker", rules: "two live leases|lease|clock", made: variant{take: func(v *variant, ctx context.Context, c cycle.Claim) (cycle.Batch, error) {
		b, err := v.Store.Take(ctx, c)
		for i := range b.Events {
			claim := &b.Events[i].Claim
			if err == nil {
				err = v.db.QueryRow(ctx, `update outbox_events set next_attempt_at = $2 where event_id = $1 returning next_attempt_at::text`,
					b.Events[i].ID, time.Now().Add(c.Lease)).Scan(&claim.Deadline)
			}
		}
		return b, err
	}}},
	{name: "ReclaimByTheClockOfTheWorker", rules: "two live leases|lease|model", made: variant{take: reclaim(`next_attempt_at <= $1`, 0)}},
	{name: "ReclaimWithoutALookAtTheDeadline", rules: "two live leases|lease|model", made: variant{take: reclaim(`$1::timestamptz is not null`, 0)}},
	{name: "ReclaimThatCountsAnAttempt", rules: "attempts|model", made: variant{take: reclaim(`next_attempt_at <= clock_timestamp() and $1::timestamptz is not null`, 1)}},
	{name: "ReleaseWithoutTheFence", rules: "fence", made: variant{release: func(v *variant, ctx context.Context, events []outbox.Event) ([]cycle.Fate, error) {
		for _, e := range events {
			if _, err := v.db.Exec(ctx, `update outbox_events set delivery_status = 'pending', next_attempt_at = nullif($2, '')::timestamptz, payload_json = `+bareJSON+` where event_id = $1`, e.ID, e.Claim.Due); err != nil {
				return nil, err
			}
		}
		return make([]cycle.Fate, len(events)), nil
	}}},
	{name: "ReleaseThatCountsAnAttempt", rules: "attempts", made: variant{release: func(v *variant, ctx context.Context, events []outbox.Event) ([]cycle.Fate, error) {
		fates, err := v.Store.Release(ctx, events)
		for i, fate := range fates {
			if fate == cycle.Recorded && err == nil {
				_, err = v.db.Exec(ctx, `update outbox_events set attempts = attempts + 1 where event_id = $1`, events[i].ID)
			}
		}
		return fates, err
	}}},
	{name: "TokenLeftInTheRow", rules: "token|model", made: variant{record: behind(`update outbox_events
		set payload_json = jsonb_set(payload_json, '{_delivery_claim_token}', to_jsonb($2::text)) where event_id = $1 and jsonb_typeof(payload_json) = 'object'`)}},
	{name: "PayloadWrittenBackAsItWasClaimed", rules: "payload|final", only: "insert claim deliver record producer edits", made: variant{payloads: map[string]string{},
		take: func(v *variant, ctx context.Context, c cycle.Claim) (cycle.Batch, error) {
			b, err := v.Store.Take(ctx, c)
			for _, e := range b.Events {
				var payload string
				if err == nil {
					err = v.db.QueryRow(ctx, `select payload_json::text from outbox_events where event_id = $1`, e.ID).Scan(&payload)
					v.payloads[e.ID+e.Claim.Token] = payload
				}
			}
			return b, err
		},
		record: func(v *variant, ctx context.Context, outcomes []outbox.Outcome) ([]cycle.Fate, error) {
			fates, err := v.Store.Record(ctx, outcomes)
			for i, fate := range fates {
				if o := outcomes[i]; fate == cycle.Recorded && err == nil {
					_, err = v.db.Exec(ctx, `update outbox_events set payload_json = `+strings.ReplaceAll(bareJSON, "payload_json", "$2::jsonb")+` where event_id = $1`, o.EventID, v.payloads[o.EventID+o.Claim.Token])
				}
			}
			return fates, err
		}}},
	{name: "AHiddenSecondPOST", rules: "POSTs", again: 1},
}

// TestModelNotices runs the model on stores that are broken, and expects that it
// notices each, by the rule that is meant for it.
func TestModelNotices(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "jsonb", func(good cycle.Store, db *pgx.Conn) cycle.Store {
				broken := v.made // one for each worker
				broken.Store, broken.db = good, db
				if v.made.payloads != nil {
					broken.payloads = map[string]string{}
				}
				return &broken
			})
			found := attempt(t, w, v.again, v.only)
			if !regexp.MustCompile(`^(` + v.rules + `): `).MatchString(found) {
				t.Fatalf("the model says %q, want a fault of %s", found, v.rules)
			}
			t.Log(found)
		})
	}
}

// attempt runs random walks until one finds a fault, and returns it.
func attempt(t *testing.T, w *world, again int, only string) (found string) {
	walks := 0
	rec := &recorder{T: t}
	ended := make(chan struct{})
	go func() { // which rapid ends when it is through
		defer close(ended)
		rapid.Check(rec, func(rt *rapid.T) {
			var m *machine
			defer func() {
				if m != nil {
					found = m.broken
				}
			}()
			// Ten walks a check, since some faults show in one of twenty only. None
			// after a fault: it would make the walk shorter, which nobody reads.
			for range 10 {
				if found != "" {
					return
				}
				walks++
				m = newMachine(rt, w)
				m.again, m.only, m.unlocked = again, only, true
				m.walk()
			}
		})
	}()
	<-ended
	t.Logf("%d walks", walks)
	return found
}

// recorder is a test that may fail without consequence.
type recorder struct {
	*testing.T
	failed bool
}

func (r *recorder) Fail()                 { r.failed = true }
func (r *recorder) FailNow()              { r.failed = true; runtime.Goexit() }
func (r *recorder) Failed() bool          { return r.failed }
func (r *recorder) Error(...any)          { r.Fail() }
func (r *recorder) Errorf(string, ...any) { r.Fail() }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Log(...any)            {}
func (r *recorder) Logf(string, ...any)   {}
