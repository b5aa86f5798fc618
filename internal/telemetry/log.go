package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// maxNameRunes bounds names that others chose (event type, execution id) wherever
// they are shown. Longer ones are cut; the row has them whole.
const maxNameRunes = 200

// newLogger returns the logger of c.
func newLogger(c Config) *slog.Logger {
	w := c.Log
	if w == nil {
		w = io.Discard
	}
	options := &slog.HandlerOptions{Level: c.Level}
	if c.Text {
		return slog.New(contextHandler{slog.NewTextHandler(w, options)})
	}
	// Lambda's filter by level reads "level" and wants "timestamp".
	options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			a.Key = "timestamp"
		}
		return a
	}
	return slog.New(contextHandler{slog.NewJSONHandler(w, options)})
}

// level reads the name of a level, as people write it and as Lambda does.
func level(name string) slog.Level {
	switch strings.ToUpper(name) {
	case "TRACE", "DEBUG":
		return slog.LevelDebug
	case "WARN", "WARNING":
		return slog.LevelWarn
	case "ERROR", "FATAL":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// contextHandler adds to each line which invocation and which trace it is of.
type contextHandler struct{ slog.Handler }

func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		r.AddAttrs(slog.String("requestId", lc.AwsRequestID))
	}
	if root := traceHeaderOf(ctx).root; root != "" {
		r.AddAttrs(slog.String("trace_id", root))
	}
	return h.Handler.Handle(ctx, r)
}

func (h contextHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return contextHandler{h.Handler.WithAttrs(as)}
}

func (h contextHandler) WithGroup(name string) slog.Handler {
	return contextHandler{h.Handler.WithGroup(name)}
}

func (t *Telemetry) logStep(ctx context.Context, name string, took time.Duration, err error) {
	if !t.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{slog.String("step", name), slog.Float64("duration_ms", milliseconds(took))}
	if err != nil {
		attrs = append(attrs, slog.String("error", errorText(err, outbox.MaxErrorRunes)))
	}
	t.log.LogAttrs(ctx, slog.LevelDebug, "step", attrs...)
}

// logAttempt writes the one line of an attempt. What it holds depends on how the
// attempt ended; a field that has nothing to say is left out.
func (t *Telemetry) logAttempt(ctx context.Context, a cycle.Attempt) {
	level := slog.LevelWarn
	switch a.Status {
	case outbox.Succeeded:
		level = slog.LevelInfo
	case outbox.Failed:
		level = slog.LevelError
	}
	if !t.log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("event_id", a.EventID),
		slog.String("event_type", outbox.CleanTo(a.EventType, maxNameRunes)),
		slog.Int("attempt", a.Number),
		slog.String("status", string(a.Status)))
	if a.Code == "" {
		attrs = append(attrs,
			slog.String("run_id", outbox.CleanTo(a.RunID, maxNameRunes)),
			slog.Int64("commit_to_ack_ms", a.CommitToAck.Milliseconds()))
	} else {
		attrs = append(attrs, slog.String("code", string(a.Code)), slog.String("error", outbox.Clean(a.Error)))
	}
	if a.HTTPStatus != 0 {
		attrs = append(attrs, slog.Int("http_status", a.HTTPStatus))
	}
	attrs = append(attrs, slog.Float64("duration_ms", milliseconds(a.Duration)))
	t.log.LogAttrs(ctx, level, "attempt", attrs...)
}

// logInvocation writes the one line of an invocation: the report, by the names
// that its JSON has.
func (t *Telemetry) logInvocation(ctx context.Context, r cycle.Report, err error) {
	level := slog.LevelInfo
	switch {
	case err != nil:
		level = slog.LevelError
	case r.Stopped == cycle.EndpointDown:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.Bool("enabled", r.Enabled),
		slog.Int("cycles", r.Cycles),
		slog.Int("reclaimed", r.Reclaimed),
		slog.Int("claimed", r.Claimed),
		slog.Int("succeeded", r.Succeeded),
		slog.Int("retried", r.Retried),
		slog.Int("failed", r.Failed),
		slog.Int("released", r.Released),
		slog.Int("lost", r.Lost),
		slog.Int("unrecorded", r.Unrecorded),
		slog.Int("lease_lost_failed", r.LeaseLostFailed),
		slog.Int("backlog_due", r.BacklogDue),
		slog.Float64("oldest_due_age_seconds", r.OldestDueAgeSeconds),
		slog.Int("parked", r.Parked),
		slog.Int("failed_total", r.FailedTotal),
		slog.Int64("duration_ms", r.DurationMS),
		slog.String("stopped", string(r.Stopped)),
	}
	if r.DryRun != nil {
		// The events stand in the return value; here they could outgrow a line.
		attrs = append(attrs, slog.Int("dry_run_due", len(r.DryRun.Due)))
	}
	if err != nil {
		attrs = append(attrs,
			slog.String("error", errorText(err, outbox.MaxErrorRunes)),
			slog.String("error_type", fmt.Sprintf("%T", err)))
	}
	t.log.LogAttrs(ctx, level, "invocation", attrs...)
}

// errorText makes one line of an error. net/http writes the whole URL into its
// errors, and the path and the query of a webhook are secrets, so that goes.
func errorText(err error, limit int) string {
	text := err.Error()
	if u, ok := errors.AsType[*url.Error](err); ok {
		text = strings.ReplaceAll(text, u.Error(), fmt.Sprintf("%s: %v", cmp.Or(u.Op, "HTTP"), u.Err))
		if u.URL != "" {
			text = strings.ReplaceAll(text, u.URL, "URL")
		}
	}
	return outbox.CleanTo(text, limit)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
