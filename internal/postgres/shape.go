package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"outbox-dispatcher/internal/config"
)

//go:embed sql/columns.sql
var columnsSQL string

// column of the table, with the types that the statements can work with.
type column struct {
	name  string
	types []string
	ours  bool // added by migrate
}

var (
	texts    = []string{"text", "character varying"}
	integers = []string{"integer", "bigint", "smallint"}
	instants = []string{"timestamp with time zone"}

	columns = []column{
		{"event_id", []string{"uuid"}, false},
		{"event_type", texts, false},
		{"occurred_at", instants, false},
		{"payload_json", []string{"jsonb", "json"}, false},
		{"delivery_status", texts, false},
		{"attempts", integers, false},
		{"next_attempt_at", instants, false},
		{"last_error", texts, false},
		{"last_error_code", texts, false},
		{"external_run_id", texts, false},
		{"lost_leases", integers, true},
		{"lost_leases_at", integers, true},
		{"attempts_base", integers, true},
	}
)

// ControlTable is the name of the table that holds whether the dispatcher is
// paused.
func ControlTable(t config.Table) config.Table {
	const suffix = "_control"
	t.Name = shorten(t.Name, suffix) + suffix
	return t
}

// shorten cuts a name so that a suffix still fits into what Postgres keeps.
func shorten(name, suffix string) string {
	const keeps = 63 // NAMEDATALEN - 1
	for len(name)+len(suffix) > keeps {
		_, last := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-last]
	}
	return name
}

// shape is what a look at the table told.
type shape struct {
	names   []string // for the placeholders of the statements, in pairs
	control bool     // the control table is there
}

// look returns the shape of the table; it asks the database once.
func (s *Store) look(ctx context.Context) (*shape, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shape != nil {
		return s.shape, nil
	}
	shape, err := s.lookAgain(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	s.shape = shape
	return shape, nil
}

// forget makes the next look ask the database.
func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shape = nil
}

func (s *Store) lookAgain(ctx context.Context) (*shape, error) {
	control := ControlTable(s.table)
	rows, err := s.exchange(ctx, columnsSQL, s.table.String(), control.String())
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, row := range rows {
		found[row[0]] = row[1]
	}
	if err := s.check(rows, found, control); err != nil {
		return nil, err
	}
	shape := &shape{control: rows[0][4] == "true"}
	// As long as there is no control table, its appearance stops the claim, and
	// the look is taken anew.
	there := "to_regclass('" + strings.ReplaceAll(control.String(), "'", "''") + "') is not null"
	if shape.control {
		there = "exists (select from " + control.String() + " where paused)"
	}
	shape.names = []string{
		"{table}", s.table.String(),
		"{json}", found["payload_json"],
		"{paused}", there,
		"{running}", "not (" + there + ")",
		"{whom}", "true",
	}
	return shape, nil
}

// check names the first thing that is not as it has to be.
func (s *Store) check(rows [][]string, found map[string]string, control config.Table) error {
	if len(rows) == 0 {
		return &DatabaseError{Text: fmt.Sprintf("the table %s is not there, or not on the search path of the role; set OUTBOX_TABLE, or make it with `operator migrate`", s.table)}
	}
	var missing, added []string
	for _, c := range columns {
		typ, there := found[c.name]
		switch {
		case !there && c.ours:
			added = append(added, c.name)
		case !there:
			missing = append(missing, c.name)
		case !slices.Contains(c.types, typ):
			return &DatabaseError{Text: wrongType(s.table, c, typ)}
		}
	}
	switch {
	case len(missing) > 0:
		return &DatabaseError{Text: fmt.Sprintf("the table %s lacks %s: it is not the outbox table, or its service has not made it yet", s.table, strings.Join(append(missing, added...), ", "))}
	case len(added) > 0:
		return &DatabaseError{Text: fmt.Sprintf("the table %s lacks %s; run `operator migrate`", s.table, strings.Join(added, ", "))}
	case rows[0][2] != "true" || rows[0][3] != "true":
		return &DatabaseError{Text: fmt.Sprintf("the role of the dispatcher may not SELECT and UPDATE %s; grant it both", s.table)}
	case rows[0][6] != "read committed":
		return &DatabaseError{Text: fmt.Sprintf("the sessions of the dispatcher run at the isolation level %q, where rows that others change make it fail; use: alter role ... set default_transaction_isolation = 'read committed'", rows[0][6])}
	case rows[0][4] == "true" && rows[0][5] != "true":
		return &DatabaseError{Text: fmt.Sprintf("the role of the dispatcher may not SELECT %s, where a pause is kept; grant it", control)}
	}
	return nil
}
