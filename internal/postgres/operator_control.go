package postgres

import (
	"context"
	_ "embed"
	"fmt"

	"outbox-dispatcher/internal/operator"
)

var (
	//go:embed sql/operator_pause.sql
	pauseSQL string
	//go:embed sql/operator_paused.sql
	pausedSQL string
)

// Overview counts what is where, and tells who paused the dispatcher.
func (s *Store) Overview(ctx context.Context) (operator.Overview, error) {
	o, err := s.Status(ctx)
	if err != nil || !o.Paused {
		return o, err
	}
	rows, err := s.askTable(ctx, pausedSQL, nil)
	if err != nil || len(rows) == 0 {
		return o, err
	}
	pause, err := readPause(rows[0])
	o.Pause = &pause
	return o, err
}

// SetPause pauses the dispatcher or lets it run.
func (s *Store) SetPause(ctx context.Context, p operator.PauseState) (operator.PauseState, error) {
	shape, err := s.look(ctx)
	if err == nil && !shape.control {
		s.forget() // it may have been made meanwhile
		shape, err = s.look(ctx)
	}
	if err != nil {
		return operator.PauseState{}, err
	}
	if !shape.control {
		return operator.PauseState{}, &DatabaseError{Text: fmt.Sprintf("the table %s, where a pause is kept, is not there; run `operator migrate`", ControlTable(s.table))}
	}
	rows, err := s.changeRows(ctx, pauseSQL, nil, p.Paused, p.Reason, p.ChangedBy)
	if err != nil {
		return operator.PauseState{}, s.explain(ctx, err)
	}
	return readPause(rows[0])
}

// readPause reads a row of the control table; nulls are its zero value.
func readPause(row []string) (operator.PauseState, error) {
	var r textReader
	return operator.PauseState{Paused: row[0] == "true", Reason: row[1], ChangedBy: row[2], ChangedAt: r.optional(row[3])}, r.err
}
