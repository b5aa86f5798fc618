package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"outbox-dispatcher/internal/cycle"
)

// pause is the time from one invocation to the next. A schedule's shortest is a
// minute; three seconds are enough for a first retry, which is due after two.
const pause = 3 * time.Second

// schedule is what the function is invoked with: by a schedule, by hand from the
// console, with nothing, and by the schedule again.
var schedule = []struct{ file, who string }{
	{"schedule.json", "the schedule"},
	{"small.json", "by hand"},
	{"empty.json", "by hand"},
	{"schedule.json", "the schedule"},
}

// show invokes the function and shows what became of the events.
func show(ctx context.Context, s *screen, root string, t *table, n *n8n, lambda *emulator) error {
	before, err := t.read(ctx)
	if err != nil {
		return err
	}
	s.line("")
	s.head(fmt.Sprintf("%d invocations, %.0f s apart", len(schedule), pause.Seconds()))
	total, failed := invokeAll(ctx, s, root, n, lambda)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	after, err := t.read(ctx)
	if err != nil {
		return err
	}
	status, err := t.store.Status(ctx)
	if err != nil {
		return err
	}
	s.line("")
	s.events(t, before, after)
	s.line("")
	s.head("What moved, and where the events are now")
	for _, line := range picture(total, status.Statuses) {
		s.line(line)
	}
	s.line("")
	for _, line := range closingWords(t, n, status) {
		s.line(line)
	}
	return failed
}

// invokeAll does the invocations one after the other and returns the sum of
// their reports. The error holds what the function returned in place of one.
func invokeAll(ctx context.Context, s *screen, root string, n *n8n, lambda *emulator) (total cycle.Report, failed error) {
	started := time.Now()
	posts := 0
	for i, invocation := range schedule {
		// An invocation can take longer than the pause; the next one follows at once.
		select {
		case <-time.After(time.Until(started.Add(time.Duration(i) * pause))):
		case <-ctx.Done():
			return total, failed
		}
		file := filepath.Join("infra", "events", invocation.file)
		event, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return total, err
		}
		at := time.Since(started)
		report, err := lambda.invoke(ctx, event)
		if ctx.Err() != nil {
			return total, failed
		}
		s.line(fmt.Sprintf("%2d  %4.1f s  %-12s  %s", i+1, at.Seconds(), invocation.who, s.paint(dim, file)))
		if err != nil {
			s.line(s.paint(red, "    "+cut(err.Error(), screenWidth-4)))
			failed = errors.Join(failed, fmt.Errorf("invocation %d: %w", i+1, err))
			continue
		}
		sent := -1
		if n.standIn != nil {
			now, _, _ := n.standIn.counts()
			sent, posts = now-posts, now
		}
		s.report(report, sent)
		total = add(total, report)
	}
	return total, failed
}

// add sums up what was done; the figures of the backlog are the newest.
func add(a, b cycle.Report) cycle.Report {
	b.Cycles += a.Cycles
	b.Reclaimed += a.Reclaimed
	b.Claimed += a.Claimed
	b.Succeeded += a.Succeeded
	b.Retried += a.Retried
	b.Failed += a.Failed
	b.Released += a.Released
	b.Lost += a.Lost
	b.Unrecorded += a.Unrecorded
	b.LeaseLostFailed += a.LeaseLostFailed
	return b
}
