package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/secret"
	"outbox-dispatcher/internal/telemetry"
)

const (
	// maxReturned is the payload that show returns at most: a Lambda may return
	// 6 MB, and a payload is escaped a little on the way.
	maxReturned = 5 << 20
	// progressEvery is how often long work writes a line to the log.
	progressEvery = 30 * time.Second
)

// function is the Lambda.
type function struct {
	parts
	name string // of the function
}

// newFunction makes the parts that outlive an invocation. A store does not: its
// sessions are dead after the instance was frozen, and the table may be another
// one by then.
func newFunction(lookup config.Lookup, getenv func(string) string, stdout io.Writer) *function {
	c := telemetry.FromEnv(getenv, stdout, stdout)
	c.Log = stdout
	c.Metrics, c.Tracing, c.Text = nil, false, false // those are the dispatcher's
	c.Level = min(c.Level, slog.LevelInfo)           // the audit is written whatever LOG_LEVEL says
	t := telemetry.New(c)
	t.Install()
	return &function{
		parts: parts{lookup: lookup, secrets: &secret.Reader{}, log: t.Logger(), inLambda: true},
		name:  getenv("AWS_LAMBDA_FUNCTION_NAME"),
	}
}

// handle does the action that the event names.
func (f *function) handle(ctx context.Context, event json.RawMessage) (any, error) {
	r, err := operator.ParseRequest(event)
	if err != nil {
		return nil, err
	}
	o, close, err := f.wire(r)
	if err != nil {
		return nil, err
	}
	defer close()
	o.Who = f.who(ctx)
	o.MaxPayload = maxReturned
	o.Progress = f.progress(ctx)
	o.Say = func(step string) { f.log.InfoContext(ctx, "migrate", "step", step) }
	result, err := o.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	return result, nil
}

// who tells what Lambda knows of its caller: somebody who came by Cognito has a
// name, everybody else is in CloudTrail under the requestId of the line.
func (f *function) who(ctx context.Context) operator.Who {
	w := operator.Who{Host: "Lambda " + f.name}
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		w.User = lc.Identity.CognitoIdentityID
	}
	return w
}

func (f *function) progress(ctx context.Context) func(operator.Progress) {
	last := time.Now()
	return func(p operator.Progress) {
		if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		f.log.InfoContext(ctx, "progress", slog.String("action", p.Action), slog.Int("done", p.Done), slog.Int("of", p.Of), slog.Float64("part", p.Part))
	}
}
