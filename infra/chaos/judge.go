package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// fate is what became of one event: its row, its history, and what n8n saw.
type fate struct {
	ID         string
	Status     string
	Attempts   int
	RunID      string
	Token      bool
	Bounded    bool // not delivering, or leased for no longer than the lease
	LostLeases int
	Failures   int // attempts that were counted as failed
	posts      int // that n8n got whole
}

const fatesSQL = `select e.event_id::text as id, delivery_status as status, attempts, coalesce(external_run_id, '') as run_id,
	coalesce(payload_json ? '_delivery_claim_token', false) as token,
	coalesce(delivery_status <> 'delivering' or next_attempt_at <= clock_timestamp() + $1::float8 * interval '1 second', false) as bounded,
	(select count(*)::int from history h where h.event_id = e.event_id and h.lease) as lost_leases,
	(select count(*)::int from history h where h.event_id = e.event_id and h.attempt and h.became <> 'succeeded') as failures
	from outbox_events e order by event_id`

func (p *place) fates() (fates []fate, err error) {
	err = p.session(func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, fatesSQL, p.lease.Seconds())
		if err != nil {
			return err
		}
		fates, err = pgx.CollectRows(rows, pgx.RowToStructByName[fate])
		return err
	})
	for i := range fates {
		fates[i].posts = p.postsOf(fates[i].ID)
	}
	return fates, err
}

// verdict is what is found at the end, with the first few things that do not
// hold.
type verdict struct {
	events, lost, stuck int
	duplicates          int // POSTs of an event that n8n had already got
	problems            []string
}

func (v *verdict) problem(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

// judge holds every event to the contract, with an n8n that acknowledged in the
// end. dropped is how many outcomes the fence dropped, of all events.
func judge(fates []fate, events, dropped int) (v verdict) {
	v.events = events
	if len(fates) != events {
		v.lost += events - len(fates)
		v.problem("%d rows of %d are left", len(fates), events)
	}
	unexplained := 0
	for _, f := range fates {
		switch {
		case f.Status == "succeeded" && f.posts == 0:
			v.lost++
			v.problem("%s succeeded and n8n never saw it", f.ID)
		case f.Status != "succeeded":
			v.stuck++
			v.problem("%s is still %s after %d attempts", f.ID, f.Status, f.Attempts)
		}
		if f.Status == "succeeded" && f.RunID != "run-"+f.ID {
			v.problem("%s has external_run_id %q", f.ID, f.RunID)
		}
		if f.Token {
			v.problem("%s is %s and holds a claim token", f.ID, f.Status)
		}
		if f.Status == "succeeded" && f.Attempts != f.Failures+1 {
			v.problem("%s has %d attempts, of which %d failed", f.ID, f.Attempts, f.Failures)
		}
		v.duplicates += max(0, f.posts-1)
		unexplained += max(0, f.posts-f.Attempts-f.LostLeases)
	}
	// POSTs <= attempts + lost leases + lost outcomes.
	if unexplained > dropped {
		v.problem("%d POSTs have no attempt and no lost lease, and only %d outcomes were dropped", unexplained, dropped)
	}
	return v
}
