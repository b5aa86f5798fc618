package postgres

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/throwaway"
)

// cost is what EXPLAIN (ANALYZE, BUFFERS) tells of a statement.
type cost struct {
	rows    int
	buffers int      // pages of 8 kB that were looked at, hit or read
	vain    int      // pairs of rows that a join compared in vain
	scans   []string // of the table: "Index Scan outbox_events_pkey"
}

type planNode struct {
	NodeType   string     `json:"Node Type"`
	Operation  string     `json:"Operation"`
	Relation   string     `json:"Relation Name"`
	Index      string     `json:"Index Name"`
	ActualRows float64    `json:"Actual Rows"`
	Loops      float64    `json:"Actual Loops"`
	Removed    float64    `json:"Rows Removed by Join Filter"` // a loop
	Hit        int        `json:"Shared Hit Blocks"`
	Read       int        `json:"Shared Read Blocks"`
	Plans      []planNode `json:"Plans"`
}

func (n planNode) scans() (scans []string) {
	if n.Relation == "outbox_events" && n.NodeType != "ModifyTable" || strings.HasPrefix(n.NodeType, "Bitmap") {
		scans = append(scans, n.NodeType+" "+n.Index)
	}
	for _, p := range n.Plans {
		scans = append(scans, p.scans()...)
	}
	return scans
}

func (n planNode) vain() int {
	vain := int(n.Removed * n.Loops)
	for _, p := range n.Plans {
		vain += p.vain()
	}
	return vain
}

// explain runs a statement as the store does, and takes it back.
func (f *fixture) explain(sql string, args ...any) cost {
	f.t.Helper()
	tx, err := f.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(f.t.Context()) }()
	if _, err := tx.Exec(f.t.Context(), settingsSQL, "60000", "2000"); err != nil {
		f.t.Fatal(err)
	}
	var text []byte
	if err := tx.QueryRow(f.t.Context(), "explain (analyze, buffers, format json) "+sql, args...).Scan(&text); err != nil {
		f.t.Fatal(err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal(text, &plans); err != nil {
		f.t.Fatal(err)
	}
	p := plans[0].Plan
	return cost{int(p.ActualRows), p.Hit + p.Read, p.vain(), p.scans()}
}

// costs of each statement of an invocation. size rows are due, and will be done.
func (f *fixture) costs(size int) map[string]cost {
	f.t.Helper()
	shape, err := f.store.look(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	text := func(sql string, more ...string) string {
		return shape.replacer(append(more, "{document}", readable)...).Replace(sql)
	}
	costs := map[string]cost{
		"claim":    f.explain(text(claimSQL, "{which}", ordinary, "{order}", orderByDue), 500, 32<<20, 15<<20, 180.0, ""),
		"suspects": f.explain(text(claimSQL, "{which}", suspects, "{order}", orderByLost), 1, 32<<20, 15<<20, 180.0, ""),
		"reclaim":  f.explain(text(reclaimSQL), 500, 5, false),
		"backlog":  f.explain(text(backlogSQL), cycle.BacklogCap),
		"due":      f.explain(text(dueSQL), 500),
		"status":   f.explain(text(statusSQL), cycle.BacklogCap),
	}
	if size == 0 {
		return costs
	}
	events := f.take(limit(size)).Events
	outcomes := make([]outbox.Outcome, len(events))
	var fence fence
	texts := make([][]string, 5) // status, code, error, run, due
	delays := make([]float64, len(events))
	for i, e := range events {
		outcomes[i] = succeeded(e)
		fence.add(e.ID, e.Attempts, e.Claim)
		for j, v := range []string{"succeeded", "", "", "run-7", e.Claim.Due} {
			texts[j] = append(texts[j], v)
		}
	}
	costs["record"] = f.explain(text(recordSQL), fence.ids, fence.attempts, fence.tokens, fence.deadlines, texts[0], texts[1], texts[2], texts[3], delays)
	costs["release"] = f.explain(text(releaseSQL), fence.ids, fence.attempts, fence.tokens, fence.deadlines, texts[4])
	costs["fate"] = f.explain(text(fateSQL), fence.ids, fence.attempts, fence.tokens, fence.deadlines, texts[0], texts[2], texts[3])
	f.record(outcomes...)
	return costs
}

func (f *fixture) insertDue(n int) {
	f.t.Helper()
	f.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json)
		select gen_random_uuid(), 'order.placed', now() - n * interval '1 second', '`+payload+`' from generate_series(1, $1) n`, n)
}

func (f *fixture) insertExpired(n int) {
	f.t.Helper()
	f.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json, delivery_status, next_attempt_at)
		select gen_random_uuid(), 'order.placed', now(), '`+payload+`', 'delivering', now() - n * interval '1 second' from generate_series(1, $1) n`, n)
}

// A statement looks at the rows it is about, by our indexes, and at nothing else:
// its pages do not grow with the table.
func TestPlans(t *testing.T) {
	t.Parallel()
	const size = 500
	server := startServer(t, throwaway.Options{Parameters: map[string]string{"autovacuum": "off", "max_wal_size": "256MB"}})
	if err := migrated(t.Context(), server.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	f := fixtureAt(t, server.URL("postgres"))

	check := func(name string, costs map[string]cost) {
		t.Helper()
		for statement, c := range costs {
			if c.vain > 10*size {
				t.Errorf("%s: %s compares %d pairs of rows in vain", name, statement, c.vain)
			}
			for _, scan := range c.scans {
				kind, index, _ := strings.Cut(scan, " outbox_events_")
				ours := strings.HasPrefix(index, "dispatch_")
				switch statement {
				case "record", "release", "fate":
					ours = index == "pkey" // an index of ours holds what others work on
				case "claim", "suspects", "reclaim":
					ours = ours || index == "pkey"
				}
				if !ours || kind != "Index Scan" && kind != "Index Only Scan" {
					t.Errorf("%s: %s reads the table by %q", name, statement, scan)
				}
			}
		}
	}
	// first are the costs as they are now; then are those once the dead rows that
	// the first met are marked.
	measure := func(name string, size int) (first, then map[string]cost) {
		t.Helper()
		for _, costs := range []*map[string]cost{&first, &then} {
			f.insertDue(size)
			f.insertExpired(size)
			*costs = f.costs(size)
			check(name, *costs)
			f.exec("delete from outbox_events where delivery_status in ('pending', 'delivering') and (next_attempt_at is null or next_attempt_at < now() + interval '10 minutes')")
		}
		return first, then
	}
	index := func(c cost, suffix string) bool {
		return slices.ContainsFunc(c.scans, func(s string) bool { return strings.HasSuffix(s, "_dispatch_"+suffix) })
	}

	// An empty table, never analyzed; what a table costs that has no past.
	f.exec("alter table outbox_events set unlogged") // is filled faster
	_, idle := measure("empty, nothing due", 0)
	_, empty := measure("empty", size)
	for statement, want := range map[string]string{"claim": "due", "suspects": "suspect", "reclaim": "lease", "backlog": "failed", "due": "undated"} {
		if !index(empty[statement], want) {
			t.Errorf("%s does not use the index %s: %q", statement, want, empty[statement].scans)
		}
	}

	f.exec("drop index outbox_events_dispatch_due, outbox_events_dispatch_undated, outbox_events_dispatch_lease")
	f.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json, delivery_status, attempts)
		select lpad(to_hex(n), 32, '0')::uuid, 'order.placed', now() - n * interval '1 second', '` + payload + `', 'succeeded', 1 from generate_series(1, 300000) n`)
	f.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json, next_attempt_at)
		select gen_random_uuid(), 'order.placed', now() - n * interval '1 second', '` + payload + `', now() + interval '1 hour' + n * interval '1 second' from generate_series(1, 50000) n`)
	f.migrate()
	_, unknown := measure("full, never analyzed", size)
	f.exec("analyze outbox_events")
	_, full := measure("full", size)
	_, fullIdle := measure("full, nothing due", 0)

	// The same after a day's worth of changes and no vacuum: first while somebody
	// looks at the table as it was before, so that nothing can be marked as dead,
	// then without.
	const changes = 20000
	snapshot := f.begin("set transaction isolation level repeatable read", "select 1")
	f.insertDue(changes)
	f.exec("update outbox_events set delivery_status = 'delivering', next_attempt_at = now() + interval '1 minute' where delivery_status = 'pending' and next_attempt_at is null")
	f.exec("update outbox_events set delivery_status = 'succeeded', next_attempt_at = null where delivery_status = 'delivering'")
	_, held := measure("after 20,000 changes under an old snapshot", size)
	f.commit(snapshot)
	changed, settled := measure("after 20,000 changes", size)
	_, settledIdle := measure("after 20,000 changes, nothing due", 0)

	for _, statement := range []string{"claim", "suspects", "reclaim", "backlog", "due", "record", "release", "fate"} {
		t.Logf("%-8s idle %4d, full %4d, changed %4d; %d rows: %5d, full %5d, never analyzed %5d, under an old snapshot %5d, changed %5d, then %5d", statement,
			idle[statement].buffers, fullIdle[statement].buffers, settledIdle[statement].buffers, size,
			empty[statement].buffers, full[statement].buffers, unknown[statement].buffers, held[statement].buffers, changed[statement].buffers, settled[statement].buffers)
	}

	// With nothing to do a statement goes down some indexes, backlog eight and the
	// others fewer, each of three levels at most, and looks a page or two to the
	// right. Some three of the indexes have a dozen pages of marked entries there,
	// which the measuring left.
	const idlePages = 8*(3+2) + 3*12
	for statement, c := range fullIdle {
		if statement != "status" && c.buffers > idlePages {
			t.Errorf("%s of nothing looks at %d pages, want %d at most", statement, c.buffers, idlePages)
		}
	}
	// How many trees a row goes down, to be found or to be put there, each of four
	// pages with the one that splits now and then. A page or two each for the row
	// as it was and as it is, to lock it, and to find room: eight. Two for its
	// versions that were explained and taken back.
	for statement, trees := range map[string]int{
		"claim":   3, // key; key and lease anew
		"record":  3, // key twice; key anew
		"reclaim": 4, // key; key, due and undated anew
		"release": 5, // key twice; key, due and undated anew
		"fate":    1,
	} {
		for name, c := range map[string]cost{"empty": empty[statement], "full": full[statement], "never analyzed": unknown[statement], "changed": settled[statement]} {
			if c.rows != size {
				t.Errorf("%s, %s: %d rows, want %d", statement, name, c.rows, size)
			}
			if limit := size*(trees*4+8+2) + idlePages; c.buffers > limit {
				t.Errorf("%s of %d rows, %s: %d pages, want %d at most", statement, size, name, c.buffers, limit)
			}
			// A tree of 350,000 has three levels, one of a thousand has two.
			if limit := empty[statement].buffers * 3 / 2; c.buffers > limit {
				t.Errorf("%s of %d rows, %s: %d pages, and %d on an empty table", statement, size, name, c.buffers, empty[statement].buffers)
			}
		}
	}
	// What the changes left is stepped over, some twenty rows a page, until nobody
	// needs it any more; who comes by then marks it, and the next one meets pages
	// of marked entries, hundreds each.
	for name, costs := range map[string]map[string]cost{"under an old snapshot": held, "right after the changes": changed} {
		for statement, c := range costs {
			limit := settled[statement].buffers + changes/20*2 // a page as it was, and one where the row went
			if statement == "backlog" {
				limit += 2 * changes / 20 // reads the same index three times
			}
			if statement == "due" {
				limit += changes / 20 // twice
			}
			if c.buffers > limit && statement != "status" {
				t.Errorf("%s, %s: %d pages, and %d later", statement, name, c.buffers, settled[statement].buffers)
			}
		}
	}
	for statement, c := range settledIdle {
		if limit := fullIdle[statement].buffers + changes/25; c.buffers > limit && statement != "status" {
			t.Errorf("%s of nothing: %d pages, and %d before the changes", statement, c.buffers, fullIdle[statement].buffers)
		}
	}
}
