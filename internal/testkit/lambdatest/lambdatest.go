// Package lambdatest runs the real bootstrap of a function under a Lambda runtime
// API made for tests, which has the trace id, the deadline and the death of the
// process under control.
//
//	f := lambdatest.Start(t, lambdatest.Build(t, "./functions/dispatcher"), env)
//	r := f.Invoke(`{}`, 10*time.Second)
//
// AWS's own runtime emulator is there too (StartEmulator): it is the real thing,
// but it drops the trace id and cannot be told when a deadline is.
package lambdatest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Function is a bootstrap and the runtime API that it talks to. After the death
// of the process, the next invocation starts another, as Lambda does.
type Function struct {
	t         testing.TB
	bootstrap string
	env       []string
	api       *httptest.Server
	next      chan *invocation

	mu      sync.Mutex
	current map[string]*invocation
	count   int
	process *exec.Cmd
	exited  chan struct{}
	out     output
}

type invocation struct {
	id, trace, event string
	deadline         time.Time
	done             chan Result
}

// Result is how an invocation ended.
type Result struct {
	OK       bool   // the handler returned no error
	Body     string // the report, or Lambda's error document
	TimedOut bool   // the deadline passed; the process was killed at it, as Lambda does
	Died     bool   // the process ended
	Took     time.Duration
}

var builds sync.Map // package -> func() (string, error)

// Build compiles the bootstrap of a package of this module as it is deployed, once
// for the test process, and returns its path.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	build, _ := builds.LoadOrStore(pkg, sync.OnceValues(func() (string, error) {
		root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
		if err != nil {
			return "", err
		}
		dir, err := os.MkdirTemp("", "outbox-bootstrap-")
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, "bootstrap")
		cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
		cmd.Dir = strings.TrimSpace(string(root))
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return path, nil
	}))
	path, err := build.(func() (string, error))()
	if err != nil {
		t.Fatalf("building %s: %v", pkg, err)
	}
	return path
}

// Clean removes what Build made. It belongs behind m.Run in TestMain.
func Clean() {
	builds.Range(func(_, build any) bool {
		if path, err := build.(func() (string, error))(); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		return true
	})
}

// Start starts the runtime API. The process starts with the first invocation. env
// is all of its environment but what Lambda sets.
func Start(t testing.TB, bootstrap string, env ...string) *Function {
	t.Helper()
	f := &Function{t: t, bootstrap: bootstrap, env: env, next: make(chan *invocation), current: map[string]*invocation{}, out: newOutput(t)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", f.serveNext)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", f.serveEnd(true))
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", f.serveEnd(false))
	f.api = httptest.NewServer(mux)
	t.Cleanup(func() {
		f.Kill()
		f.api.CloseClientConnections()
		f.api.Close()
	})
	return f
}

func (f *Function) serveNext(w http.ResponseWriter, r *http.Request) {
	select {
	case i := <-f.next:
		f.mu.Lock()
		f.current[i.id] = i
		f.mu.Unlock()
		h := w.Header()
		h.Set("Lambda-Runtime-Aws-Request-Id", i.id)
		h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(i.deadline.UnixMilli(), 10))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-central-1:123456789012:function:test")
		h.Set("Lambda-Runtime-Trace-Id", i.trace)
		_, _ = io.WriteString(w, i.event)
	case <-r.Context().Done():
	}
}

func (f *Function) serveEnd(ok bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		i := f.current[r.PathValue("id")]
		delete(f.current, r.PathValue("id"))
		f.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		if i != nil {
			i.done <- Result{OK: ok, Body: string(body)}
		}
	}
}

// Trace is a trace header of a sampled trace.
const Trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"

// Invoke does one invocation and returns how it ended. At the deadline the
// process is killed, as Lambda does.
func (f *Function) Invoke(event string, timeout time.Duration) (r Result) {
	f.t.Helper()
	f.mu.Lock()
	f.count++
	i := &invocation{id: fmt.Sprintf("request-%d", f.count), trace: Trace, event: event, deadline: time.Now().Add(timeout), done: make(chan Result, 1)}
	f.mu.Unlock()
	exited := f.ensure()
	started := time.Now()
	defer func() { r.Took = time.Since(started) }()
	late := time.After(timeout)
	select {
	case f.next <- i:
	case <-exited:
		return Result{Died: true}
	case <-late:
		f.Kill()
		return Result{TimedOut: true}
	}
	select {
	case r := <-i.done:
		return r
	case <-exited:
		return Result{Died: true}
	case <-late:
		f.Kill()
		return Result{TimedOut: true}
	}
}

// ensure starts a process if none is there, and returns what closes at its end.
func (f *Function) ensure() chan struct{} {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.process != nil {
		select {
		case <-f.exited:
		default:
			return f.exited
		}
	}
	cmd := exec.Command(f.bootstrap)
	cmd.Env = append(environment(), "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(f.api.URL, "http://"))
	cmd.Env = append(cmd.Env, f.env...)
	cmd.Stdout, cmd.Stderr = f.out.File, f.out.File
	if err := cmd.Start(); err != nil {
		f.t.Fatalf("starting the bootstrap: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	f.process, f.exited = cmd, exited
	return exited
}

// environment is what Lambda sets for every function.
func environment() []string {
	return []string{
		"AWS_LAMBDA_FUNCTION_NAME=test", "AWS_LAMBDA_LOG_FORMAT=JSON", "AWS_REGION=eu-central-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "PATH=/usr/bin:/bin", "HOME=/tmp",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256", "AWS_XRAY_CONTEXT_MISSING=IGNORE_ERROR",
	}
}

// Kill ends the process with SIGKILL and waits for its end. It may be called at
// any time, and again.
func (f *Function) Kill() {
	f.mu.Lock()
	process, exited := f.process, f.exited
	f.mu.Unlock()
	if process == nil {
		return
	}
	_ = process.Process.Kill() // it may have ended by itself
	<-exited
}

// Freeze stops the process as Lambda does between two invocations; Thaw lets it
// go on.
func (f *Function) Freeze() { f.signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (f *Function) Thaw() { f.signal(syscall.SIGCONT) }

func (f *Function) signal(s os.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.process != nil {
		_ = f.process.Process.Signal(s)
	}
}

// PID of the process, 0 if none was started.
func (f *Function) PID() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.process == nil {
		return 0
	}
	return f.process.Process.Pid
}

// PeakMemory is the most memory the process has had resident, in bytes. 0 if it
// is gone.
func (f *Function) PeakMemory() int64 {
	return procStatus(f.PID(), "VmHWM:")
}

func procStatus(pid int, key string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// Output is everything the process wrote so far.
func (f *Function) Output() string { return f.out.String() }

// WaitOutput waits until the output holds a text.
func (f *Function) WaitOutput(ctx context.Context, text string) bool {
	for !strings.Contains(f.Output(), text) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// output is a file that processes write to themselves: what was written before an
// answer can be read once the answer is here.
type output struct{ *os.File }

func newOutput(t testing.TB) output {
	t.Helper()
	file, err := os.CreateTemp("", "outbox-output-")
	if err != nil {
		t.Fatalf("keeping the output: %v", err)
	}
	t.Cleanup(func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	})
	return output{file}
}

func (o output) String() string {
	text, err := os.ReadFile(o.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}
