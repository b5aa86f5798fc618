package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"outbox-dispatcher/internal/cycle"
)

// dispatcher is the real one, built from this tree, an invocation a process. Its
// settings are the defaults but for those in invoke.
type dispatcher struct {
	folder   string // where its binary lies
	database string
	webhook  string
	token    string

	invocations int
	attempts    []attempt // all so far
}

// attempt is one POST as the dispatcher logged it.
type attempt struct {
	EventID    string `json:"event_id"`
	Status     string `json:"status"`
	Code       string `json:"code"`
	Error      string `json:"error"`
	HTTPStatus int    `json:"http_status"` // 0: no answer
}

// build compiles dispatcher and operator into the folder.
func build(ctx context.Context, folder string) error {
	out, err := exec.CommandContext(ctx, "go", "build", "-o", folder, "./functions/dispatcher", "./functions/operator").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// migrate makes the table.
func (d *dispatcher) migrate(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(d.folder, "operator"), "migrate")
	cmd.Env = []string{"DATABASE_URL=" + d.database}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("operator migrate: %w\n%s", err, out)
	}
	return nil
}

// invocation is one that runs.
type invocation struct {
	dispatcher *dispatcher
	cmd        *exec.Cmd
	out, log   bytes.Buffer
}

// start begins an invocation. Settings come on top of the usual ones.
func (d *dispatcher) start(ctx context.Context, settings ...string) (*invocation, error) {
	i := &invocation{dispatcher: d, cmd: exec.CommandContext(ctx, filepath.Join(d.folder, "dispatcher"))}
	i.cmd.Env = append([]string{
		"DATABASE_URL=" + d.database,
		"N8N_WEBHOOK_URL=" + d.webhook,
		"N8N_WEBHOOK_TRIGGER_TOKEN=" + d.token,
		"N8N_BACKOFF_CAP_SECONDS=2", // what failed is due again before anybody gets tired
	}, settings...)
	i.cmd.Stdout, i.cmd.Stderr = &i.out, &i.log
	d.invocations++
	return i, i.cmd.Start()
}

// finish waits for the end of an invocation, which has to be a good one: that
// deliveries fail is no fault of it.
func (i *invocation) finish() (cycle.Report, []attempt, error) {
	if err := i.cmd.Wait(); err != nil {
		return cycle.Report{}, nil, fmt.Errorf("the invocation failed: %w\n%s", err, i.log.String())
	}
	attempts := i.attempts()
	var r cycle.Report
	if err := json.Unmarshal(i.out.Bytes(), &r); err != nil {
		return r, nil, fmt.Errorf("the report is not JSON: %w\n%s", err, i.out.String())
	}
	switch {
	case r.Claimed != r.Succeeded+r.Retried+r.Failed+r.Released+r.Lost+r.Unrecorded:
		return r, nil, fmt.Errorf("the report does not add up: %+v", r)
	case len(attempts) != r.Succeeded+r.Retried+r.Failed:
		return r, nil, fmt.Errorf("%d attempts are in the log, and the report is %+v", len(attempts), r)
	case r.Failed+r.Lost+r.Unrecorded+r.LeaseLostFailed > 0:
		return r, nil, fmt.Errorf("events failed or outcomes were lost: %+v", r)
	}
	return r, attempts, nil
}

// kill ends an invocation with SIGKILL. What it logged until then counts.
func (i *invocation) kill() {
	_ = i.cmd.Process.Kill()
	_ = i.cmd.Wait()
	i.attempts()
}

// attempts reads the log, once the process has ended.
func (i *invocation) attempts() []attempt {
	var found []attempt
	for line := range strings.Lines(i.log.String()) {
		var entry struct {
			Message string `json:"msg"`
			attempt
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "attempt" {
			found = append(found, entry.attempt)
		}
	}
	i.dispatcher.attempts = append(i.dispatcher.attempts, found...)
	return found
}

// invoke runs one invocation from start to end.
func (d *dispatcher) invoke(ctx context.Context, settings ...string) (cycle.Report, []attempt, error) {
	i, err := d.start(ctx, settings...)
	if err != nil {
		return cycle.Report{}, nil, err
	}
	return i.finish()
}
