package postgres

import (
	"context"
	"time"

	"outbox-dispatcher/internal/operator"
)

// The files operator_*.go are what people do with the table: internal/operator
// decides, and these carry out. A dispatcher uses none of them.

var _ operator.Store = (*Store)(nil)

// lookTimeout bounds a look of a person: it may read some ten thousand rows from a
// cold disk, and holds nobody up. What changes rows has the time of outcomes: it
// takes milliseconds, and others skip the rows that it has locked.
const lookTimeout = 30 * time.Second

// askTable looks at the table: one statement, in one round trip. more are pairs
// for the placeholders. A session that is of no more use was found out by the look
// at the shape of the table before it: an operator's store lives for one action.
func (s *Store) askTable(ctx context.Context, sql string, more []string, args ...any) ([][]string, error) {
	rows, err := s.sendOne(ctx, lookTimeout, sql, more, args...)
	return rows, s.explain(ctx, err)
}

// changeRows changes rows: one statement, sent once. It is not tried again, since a
// change whose answer was lost cannot be told from one that somebody else made.
// The error is one of pgx, for the caller to look at and to explain.
func (s *Store) changeRows(ctx context.Context, sql string, more []string, args ...any) ([][]string, error) {
	return s.sendOne(ctx, s.limits.record, sql, more, args...)
}

func (s *Store) sendOne(ctx context.Context, limit time.Duration, sql string, more []string, args ...any) ([][]string, error) {
	shape, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	more = append([]string{"{control}", ControlTable(s.table).String()}, more...)
	var rows [][]string
	_, err = s.send(ctx, limit, statement{sql: shape.replacer(more...).Replace(sql), args: args, row: func(columns [][]byte) error {
		rows = append(rows, asTexts(columns))
		return nil
	}})
	return rows, err
}

// firstColumn returns the first column of rows.
func firstColumn(rows [][]string) []string {
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = row[0]
	}
	return texts
}

// Role is the name with which the session logged in. The table need not be there.
func (s *Store) Role(ctx context.Context) (string, error) {
	rows, err := s.exchange(ctx, "select session_user::text")
	if err != nil {
		return "", s.explain(ctx, err)
	}
	return rows[0][0], nil
}
