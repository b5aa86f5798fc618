package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// River at its best: the cooldown and the poll as short as they help, and a pool
// that lets claims and completions overlap. By default it fetches ten times a
// second, which would compare a setting and not a program.
const (
	riverCooldown = time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverPool     = 10
)

// riverArgs is an event as the arguments of a job.
type riverArgs struct {
	EventID       string          `json:"event_id"`
	EventType     string          `json:"event_type"`
	OccurredAt    string          `json:"occurred_at"`
	CorrelationID json.RawMessage `json:"correlation_id"`
	Aggregate     json.RawMessage `json:"aggregate"`
	Data          json.RawMessage `json:"data"`
}

func (riverArgs) Kind() string { return "outbox_event" }

// riverWorker does the same POST and the same check.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	poster *poster
}

func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	body, err := json.Marshal(job.Args)
	if err != nil {
		return err
	}
	run, err := w.poster.post(ctx, job.Args.EventID, body)
	if err != nil {
		return err
	}
	return river.RecordOutput(ctx, map[string]string{"execution_id": run}) // as the outbox keeps external_run_id
}

// riverRole inserts the events as jobs, and then works them off.
func riverRole(j job) (func() (done, failed int, err error), error) {
	ctx := context.Background()
	cfg, err := pgxpool.ParseConfig(j.Database)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = riverPool
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{poster: newPoster(j.Webhook, j.InFlight)})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: log, Workers: workers, FetchCooldown: riverCooldown, FetchPollInterval: riverPoll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: j.InFlight}},
	})
	if err != nil {
		return nil, err
	}
	if err := riverFill(ctx, pool, client, log, j); err != nil {
		return nil, err
	}
	return func() (done, failed int, err error) {
		events, stop := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 2 * j.Events, Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed}})
		defer stop()
		box := time.After(j.Box)
		if err := client.Start(ctx); err != nil {
			return 0, 0, err
		}
		for done < j.Events {
			select {
			case e := <-events:
				if e.Kind == river.EventKindJobCompleted {
					done++
				} else {
					failed++
				}
			case <-box:
				return done, failed, nil
			}
		}
		return done, failed, nil
	}, nil
}

func riverFill(ctx context.Context, pool *pgxpool.Pool, client *river.Client[pgx.Tx], log *slog.Logger, j job) error {
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: log})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "truncate river_job"); err != nil {
		return err
	}
	jobs := make([]river.InsertManyParams, j.Events)
	for i := range jobs {
		e := eventOf(i, j.Bytes)
		jobs[i].Args = riverArgs{e.ID, eventType, e.Occurred.Format("2006-01-02T15:04:05.000000+00:00"), json.RawMessage(e.Correlation), json.RawMessage(e.Aggregate), json.RawMessage(e.Data)}
	}
	if _, err := client.InsertManyFast(ctx, jobs); err != nil {
		return err
	}
	for _, sql := range []string{"vacuum analyze river_job", "checkpoint"} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
