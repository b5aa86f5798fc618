package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"outbox-dispatcher/internal/cycle"
)

// function is the bootstrap under a runtime API. Unlike that of internal/testkit/lambdatest
// it notes when the process first asks for work, and what the process writes goes
// to a file, so that reading it costs no CPU while it is measured.
type function struct {
	cmd     *exec.Cmd
	log     *os.File
	server  *http.Server
	next    chan invocation
	ended   chan ending
	exited  chan error
	started time.Time
	asked   chan time.Time // when the process first asked for work
}

type invocation struct {
	event    string
	deadline time.Time
}

type ending struct {
	ok   bool
	body []byte
}

// traceHeader is of a sampled trace, as an invocation in Lambda has it.
const traceHeader = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"

// start starts the bootstrap. env is what it has beyond what Lambda sets.
func (p *place) start(env ...string) (*function, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &function{next: make(chan invocation), ended: make(chan ending, 1), exited: make(chan error, 1), asked: make(chan time.Time, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", f.serveNext(sync.OnceFunc(func() { f.asked <- time.Now() })))
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/{how}", f.serveEnd)
	f.server = &http.Server{Handler: mux}
	go func() { _ = f.server.Serve(l) }() // until it is closed
	if f.log, err = os.CreateTemp(p.folder, "bootstrap-*.log"); err != nil {
		return nil, errors.Join(err, f.server.Close())
	}
	f.cmd = exec.Command(p.bootstrap)
	f.cmd.Env = append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + l.Addr().String(), "AWS_LAMBDA_FUNCTION_NAME=bench", "AWS_LAMBDA_LOG_FORMAT=JSON",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256", "AWS_REGION=eu-central-1", "PATH=/usr/bin:/bin", "HOME=/tmp",
	}, env...)
	f.cmd.Stdout, f.cmd.Stderr = f.log, f.log
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	f.started = time.Now()
	if err := f.cmd.Start(); err != nil {
		return nil, errors.Join(err, f.server.Close(), f.log.Close())
	}
	go func() { f.exited <- f.cmd.Wait() }()
	return f, nil
}

// env is what the bootstrap needs to work on a database.
func (p *place) env(database string, inFlight int, more ...string) []string {
	return append([]string{
		"DATABASE_URL=" + p.server.URL(database), "N8N_WEBHOOK_URL=" + p.sink.webhook(), "N8N_WEBHOOK_TRIGGER_TOKEN=" + token,
		"N8N_HTTP_TIMEOUT_SECONDS=10", "DISPATCH_CONCURRENCY=" + strconv.Itoa(inFlight), "METRICS_STACK=bench",
	}, more...)
}

func (f *function) serveNext(asked func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked()
		select {
		case i := <-f.next:
			h := w.Header()
			h.Set("Lambda-Runtime-Aws-Request-Id", "bench")
			h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(i.deadline.UnixMilli(), 10))
			h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-central-1:123456789012:function:bench")
			h.Set("Lambda-Runtime-Trace-Id", traceHeader)
			_, _ = io.WriteString(w, i.event) // a process that is gone is told of by exited
		case <-r.Context().Done():
		}
	}
}

func (f *function) serveEnd(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a broken one is no report
	w.WriteHeader(http.StatusAccepted)
	f.ended <- ending{r.PathValue("how") == "response", body}
}

// invoke does one invocation and returns its report.
func (f *function) invoke(event string, timeout time.Duration) (r cycle.Report, err error) {
	late := time.NewTimer(timeout + time.Second)
	defer late.Stop()
	gone := func(err error) error { return fmt.Errorf("the bootstrap ended: %v\n%s", err, f.output()) }
	select {
	case f.next <- invocation{event, time.Now().Add(timeout)}:
	case err := <-f.exited:
		return r, gone(err)
	}
	select {
	case e := <-f.ended:
		if !e.ok {
			return r, fmt.Errorf("the invocation failed: %s", e.body)
		}
		return r, json.Unmarshal(e.body, &r)
	case err := <-f.exited:
		return r, gone(err)
	case <-late.C:
		return r, errors.New("the invocation did not end in time")
	}
}

// output is what the process wrote.
func (f *function) output() string {
	text, _ := os.ReadFile(f.log.Name()) // for people, and for the lines of its start
	return string(text)
}

// pid of the process.
func (f *function) pid() int { return f.cmd.Process.Pid }

func (f *function) stop() {
	_ = f.cmd.Process.Kill() // it may have ended by itself
	_ = f.server.Close()
	_ = f.log.Close()
	_ = os.Remove(f.log.Name())
}
