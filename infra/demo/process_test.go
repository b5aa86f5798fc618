package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// process is a demo under way, with a temporary folder of its own, which is also
// how all that it starts is found.
type process struct {
	cmd    *exec.Cmd
	temp   string
	output output
	exited chan struct{} // closed once it has ended
}

// output is what the demo printed so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// startDemo starts the demo with these variables on top of a clean environment.
func startDemo(t *testing.T, variables ...string) *process {
	t.Helper()
	temp, err := os.MkdirTemp("", "demo-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	// Root's Postgres runs as nobody, who has to get there.
	if err := os.Chmod(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), temp: temp, exited: make(chan struct{})}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "PG") && !strings.HasPrefix(name, "N8N_") && !slices.Contains([]string{"DATABASE_URL", "OUTBOX_TABLE", "TMPDIR"}, name) {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Env = append(append(p.cmd.Env, actAsDemo+"=1", "TMPDIR="+temp), variables...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.exited)
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended, unless the test failed
	return p
}

// end waits for the exit status.
func (p *process) end(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("it still runs after %v:\n%s", within, p.output.String())
		return 0
	}
}

// succeeds waits for the end, looks at what is left behind, and returns what was
// printed.
func (p *process) succeeds(t *testing.T) string {
	t.Helper()
	if status := p.end(t, 4*time.Minute); status != 0 {
		t.Fatalf("exit status %d:\n%s", status, p.output.String())
	}
	p.leavesNothing(t)
	return p.output.String()
}

// await waits until the demo has printed a text.
func (p *process) await(t *testing.T, text string) {
	t.Helper()
	const patience = 4 * time.Minute // a cold build of the emulator on a slow machine
	for deadline := time.Now().Add(patience); !strings.Contains(p.output.String(), text); {
		select {
		case <-p.exited:
			t.Fatalf("it ended early (%v):\n%s", p.cmd.ProcessState, p.output.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v it has not said %q:\n%s", patience, text, p.output.String())
		}
	}
}

// left lists the processes and files that are there because of the demo.
func (p *process) left(t *testing.T) (found []string) {
	t.Helper()
	environs, _ := filepath.Glob("/proc/[0-9]*/environ") // it fails for a bad pattern only
	for _, path := range environs {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(p.temp)) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			found = append(found, path+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	entries, err := os.ReadDir(p.temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		found = append(found, filepath.Join(p.temp, e.Name()))
	}
	return found
}

func (p *process) leavesNothing(t *testing.T) {
	t.Helper()
	if left := p.left(t); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
