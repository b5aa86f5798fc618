package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/testkit/lambdatest"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// The program as it is deployed, under a Lambda runtime API.
func TestTheRealBootstrap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "failed")
	path := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f := lambdatest.Start(t, path, "DATABASE_URL="+b.url, "N8N_WEBHOOK_URL="+n8ntest.New(t).URL(), "N8N_WEBHOOK_TRIGGER_TOKEN=token")
	for _, c := range []struct {
		event string
		ok    bool
		want  string
	}{
		{`{"action": "status"}`, true, `"failed":1`},
		{`{"action": "replay", "id": "` + eventID(1) + `"}`, true, `"changed":1`},
		{`{"action": "list", "status": "due"}`, true, eventID(1)},
		{`{"action": "pause", "reason": "test"}`, true, `"paused":true`},
		{`{"action": "doctor"}`, true, `"name":"way out","result":"ok"`},
		{`{"action": "status", "quiet": true}`, false, `"errorType":"UsageError"`},
		{`{"action": "prune", "older_than_days": 30}`, false, `"errorType":"RefusedError"`},
	} {
		if r := f.Invoke(c.event, 20*time.Second); r.OK != c.ok || !strings.Contains(r.Body, c.want) {
			t.Errorf("%s: %+v, want %s", c.event, r, c.want)
		}
	}
	audits := 0
	for line := range strings.Lines(f.Output()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line that is no JSON: %s", line)
		}
		if strings.Contains(line, `"msg":"audit"`) && strings.Contains(line, `"requestId":"request-`) && strings.Contains(line, `"host":"Lambda test"`) {
			audits++
		}
	}
	if audits != 2 {
		t.Errorf("%d lines of the audit in\n%s", audits, f.Output())
	}
}
