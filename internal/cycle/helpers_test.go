package cycle_test

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/pgtest"
)

// session is a session of somebody else, such as one that holds a lock.
type session struct {
	s    *stage
	conn *pgx.Conn
}

func (s *stage) connect() *session {
	s.t.Helper()
	return &session{s, pgtest.Conn(s.t, s.url)}
}

func (o *session) exec(sql string) {
	o.s.t.Helper()
	if _, err := o.conn.PgConn().Exec(context.Background(), sql).ReadAll(); err != nil {
		o.s.t.Errorf("%s: %v", sql, err)
	}
}

var errDead = errors.New("this worker is dead")

// mortal is the store of a worker that can die: from then on nothing that it
// does reaches the table.
type mortal struct {
	cycle.Store
	killer string
	dead   bool
}

func (m *mortal) Take(ctx context.Context, c cycle.Claim) (cycle.Batch, error) {
	if m.dead {
		return cycle.Batch{}, errDead
	}
	b, err := m.Store.Take(ctx, c)
	return b, err
}

// Record writes what was decided before the death and nothing after it.
func (m *mortal) Record(ctx context.Context, group []outbox.Outcome) ([]cycle.Fate, error) {
	fates := make([]cycle.Fate, len(group))
	for i, o := range group {
		if m.dead = m.dead || o.EventID == m.killer; m.dead {
			continue // told as recorded: nobody is there to be told
		}
		one, err := m.Store.Record(ctx, group[i:i+1])
		if err != nil {
			return nil, err
		}
		fates[i] = one[0]
	}
	return fates, nil
}

func (m *mortal) Release(ctx context.Context, events []outbox.Event) ([]cycle.Fate, error) {
	return make([]cycle.Fate, len(events)), nil
}

// deadly counts the POSTs of the event that kills.
type deadly struct {
	cycle.Webhook
	killer string
	posts  *int
}

func (d *deadly) Post(ctx context.Context, token string, body []byte) outbox.Answer {
	a := d.Webhook.Post(ctx, token, body)
	if len(body) > 50 && string(body[13:13+36]) == d.killer {
		*d.posts++
	}
	return a
}

// webhookFunc is a webhook that a test makes up.
type webhookFunc func(token string, body []byte) outbox.Answer

func (f webhookFunc) Post(_ context.Context, token string, body []byte) outbox.Answer {
	return f(token, body)
}
