package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outbox-dispatcher/internal/operator"
)

var (
	//go:embed sql/operator_walk.sql
	walkSQL string
	//go:embed sql/operator_walk_end.sql
	walkEndSQL string
	//go:embed sql/operator_sort.sql
	sortSQL string
)

// lookRows is how many rows a page looks at in each part of the table, so that a
// page costs the same however large that is. Cold, from a disk of 3,000 reads a
// second, they take seven seconds.
const lookRows = 20_000

// sortKeys are what a list can be sorted by, with the type of the values.
var sortKeys = map[string]struct{ key, typ string }{
	"due":      {"coalesce(next_attempt_at, occurred_at)", "timestamptz"},
	"occurred": {"occurred_at", "timestamptz"},
	"attempts": {"attempts", "int"},
	"id":       {"''::text", ""},
}

// listed is an event and its place in the order of the list.
type listed struct {
	event operator.Event
	mark  operator.Mark
	key   int64 // of the mark, for comparing
}

// List returns a page: each part of the table gives its own, and they are
// merged.
func (s *Store) List(ctx context.Context, q operator.Query) (operator.Page, error) {
	l := listing{Store: s, q: q}
	for _, word := range q.Status {
		for n := range partsOf(word, q.Filter, &sqlArguments{}) {
			if err := l.read(ctx, word, n); err != nil {
				return operator.Page{}, err
			}
		}
	}
	return l.page(), nil
}

// listing gathers a page.
type listing struct {
	*Store
	q      operator.Query
	listed []listed
	ends   []listed // how far the parts that go on were read
	notes  []string
	now    operator.Instant
}

// read reads the nth part of the table that a word means.
func (l *listing) read(ctx context.Context, word string, n int) error {
	// One more than a page, to see whether the part goes on.
	args := sqlArguments{lookRows, l.q.Limit + 1}
	p := partsOf(word, l.q.Filter, &args)[n]
	fit, err := filterSQL(l.q.Filter, &args)
	if err != nil {
		return err
	}
	sql, walks := sortSQL, p.byDue && l.q.Sort == "due" || p.byID && l.q.Sort == "id"
	if walks {
		sql = walkSQL
	}
	names := append(l.names(p, walks, &args), "{fits}", fit, "{row}", eventRow)
	rows, err := l.askTable(ctx, sql, names, args...)
	if err != nil {
		return aggregateError(err)
	}
	count, capped := 0, false
	for _, row := range rows {
		if !walks {
			capped, row = row[0] == "true", row[1:]
		}
		if row[0] == "" {
			continue // nothing was found
		}
		if err := l.add(row); err != nil {
			return err
		}
		count++
	}
	if capped {
		l.notes = append(l.notes, fmt.Sprintf("more than %d events are %s: these were found among the first %d; sorted by id, with a code, all are looked through", lookRows, word, lookRows))
	}
	switch {
	case count > l.q.Limit:
		l.ends = append(l.ends, l.listed[len(l.listed)-1])
	case walks:
		return l.walkEnd(ctx, word, n)
	}
	return nil
}

// walkEnd notes how far a walk came that found less than a page.
func (l *listing) walkEnd(ctx context.Context, word string, n int) error {
	args := sqlArguments{lookRows}
	p := partsOf(word, l.q.Filter, &args)[n]
	rows, err := l.askTable(ctx, walkEndSQL, l.names(p, true, &args), args...)
	if err != nil || len(rows) == 0 {
		return err
	}
	end := listed{mark: operator.Mark{Key: rows[0][0], ID: rows[0][1]}}
	if end.key, err = l.value(end.mark.Key); err != nil {
		return err
	}
	l.ends = append(l.ends, end)
	l.notes = append(l.notes, fmt.Sprintf("looked at %d events: what the filter chooses among the next ones, the next page tells", lookRows))
	return nil
}

// names are the placeholders of order and place.
func (l *listing) names(p tablePart, walks bool, args *sqlArguments) []string {
	by := sortKeys[l.q.Sort]
	direction, beyond := "", ">"
	if l.q.Descending {
		direction, beyond = " desc", "<"
	}
	order, sorted := by.key+direction+", event_id"+direction, "looked.sort_key"+direction+", looked.event_id"+direction
	if by.typ == "" {
		order, sorted = "event_id"+direction, "looked.event_id"+direction
	}
	after := ""
	if m := l.q.After; m != nil {
		switch {
		case by.typ == "":
			after = fmt.Sprintf("and event_id %s %s::text::uuid", beyond, args.add(m.ID))
		case walks:
			after = fmt.Sprintf("and (%s, event_id) %s (%s::text::%s, %s::text::uuid)", by.key, beyond, args.add(m.Key), by.typ, args.add(m.ID))
		default:
			after = fmt.Sprintf("and (sort_key, event_id) %s (%s::text::%s, %s::text::uuid)", beyond, args.add(m.Key), by.typ, args.add(m.ID))
		}
	}
	return []string{"{part}", p.where, "{after}", after, "{key}", by.key, "{order}", order, "{sorted}", sorted}
}

// add reads one row.
func (l *listing) add(row []string) error {
	e, key, now, err := readEvent(row)
	if err != nil {
		return err
	}
	value, err := l.value(key)
	if err != nil {
		return err
	}
	l.now = now
	l.listed = append(l.listed, listed{e, operator.Mark{Key: key, ID: e.ID}, value})
	return nil
}

// value reads what is sorted by.
func (l *listing) value(key string) (int64, error) {
	switch sortKeys[l.q.Sort].typ {
	case "timestamptz":
		var r textReader
		return int64(r.instant(key)), r.err
	case "int":
		n, err := strconv.ParseInt(key, 10, 64)
		return n, err
	}
	return 0, nil
}

func (l *listing) compare(a, b listed) int {
	c := cmp.Or(cmp.Compare(a.key, b.key), strings.Compare(a.mark.ID, b.mark.ID))
	if l.q.Descending {
		return -c
	}
	return c
}

// page merges what was found. Nothing behind the place where a part that goes on
// was left may be in it: the next page would lack what that part holds before.
func (l *listing) page() operator.Page {
	slices.SortFunc(l.listed, l.compare)
	all := slices.CompactFunc(l.listed, func(a, b listed) bool { return a.mark.ID == b.mark.ID })
	var next *listed
	if len(l.ends) > 0 {
		end := slices.MinFunc(l.ends, l.compare)
		next = &end
		all = slices.DeleteFunc(all, func(f listed) bool { return l.compare(f, end) > 0 })
	}
	if len(all) > l.q.Limit {
		all = all[:l.q.Limit]
		next = &all[len(all)-1]
	}
	p := operator.Page{Note: strings.Join(l.notes, "; "), Now: l.now}
	for _, f := range all {
		p.Events = append(p.Events, f.event)
	}
	if next != nil {
		p.Next = &next.mark
	}
	return p
}

// aggregateError says what to do where a payload of type json is none that Postgres
// can look into.
func aggregateError(err error) error {
	if isData(err) {
		return &DatabaseError{Text: "the payload of an event cannot be read as jsonb, so it cannot be told whether its aggregate fits; leave the aggregate out", Err: err}
	}
	return err
}
