package lambdatest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Emulator is AWS's runtime emulator with a bootstrap in it. It is given no
// deadline but the timeout of the function, and two invocations at once crash it.
type Emulator struct {
	t       testing.TB
	address string
	pidFile string // holds the process id of the bootstrap
	exited  chan struct{}
	out     output
}

// StartEmulator starts the emulator, a program, with the bootstrap in it, which
// starts with the first invocation. env is all of its environment but what Lambda
// sets.
//
// The emulator drops the trace header, so that the bootstrap talks to it through a
// proxy that adds Trace to each invocation.
func StartEmulator(t testing.TB, emulator, bootstrap string, timeout time.Duration, env ...string) *Emulator {
	t.Helper()
	e := &Emulator{t: t, address: freeAddress(t), pidFile: filepath.Join(t.TempDir(), "pid"), exited: make(chan struct{}), out: newOutput(t)}
	api := freeAddress(t)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: api})
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Header.Set("Lambda-Runtime-Trace-Id", Trace)
		return nil
	}
	proxy.ErrorLog = log.New(io.Discard, "", 0) // the bootstrap ends while it waits for an event
	server := httptest.NewServer(proxy)
	// The emulator tells the bootstrap its own address; this one is put in its place.
	script := filepath.Join(t.TempDir(), "bootstrap")
	text := fmt.Sprintf("#!/bin/sh\necho $$ >'%s'\nAWS_LAMBDA_RUNTIME_API=%s exec '%s'\n", e.pidFile, server.Listener.Addr(), bootstrap)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(emulator, "--log-level", "error", "--runtime-interface-emulator-address", e.address, "--runtime-api-address", api, script)
	cmd.Env = append(environment(), append(env, fmt.Sprintf("AWS_LAMBDA_FUNCTION_TIMEOUT=%d", int(timeout.Seconds())))...)
	cmd.Stdout, cmd.Stderr = e.out.File, e.out.File
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting the emulator: %v", err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its output
		close(e.exited)
	}()
	t.Cleanup(func() {
		e.signal(syscall.SIGCONT)
		_ = cmd.Process.Signal(syscall.SIGTERM) // it ends the bootstrap first
		select {
		case <-e.exited:
		case <-time.After(3 * time.Second):
			e.signal(syscall.SIGKILL)
			_ = cmd.Process.Kill()
			<-e.exited
		}
		server.CloseClientConnections()
		server.Close()
	})
	for range 1000 {
		conn, err := net.Dial("tcp", e.address)
		if err == nil {
			_ = conn.Close()
			return e
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the emulator does not listen: %s", e.Output())
	return nil
}

// Invoke does one invocation and returns how it ended. timeout bounds the wait for
// the emulator; the bootstrap has the timeout of the function.
func (e *Emulator) Invoke(event string, timeout time.Duration) Result {
	e.t.Helper()
	client := http.Client{Timeout: timeout}
	started := time.Now()
	res, err := client.Post("http://"+e.address+"/2015-03-31/functions/function/invocations", "application/json", strings.NewReader(event))
	if err != nil {
		return Result{Died: true, Body: err.Error(), Took: time.Since(started)}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return Result{Died: true, Body: err.Error(), Took: time.Since(started)}
	}
	var failed struct {
		Type string `json:"errorType"`
	}
	ok := json.Unmarshal(body, &failed) == nil && failed.Type == "" && res.StatusCode == http.StatusOK
	return Result{OK: ok, Body: string(body), Took: time.Since(started)}
}

// Freeze stops the bootstrap as Lambda does between two invocations; Thaw lets it
// go on.
func (e *Emulator) Freeze() { e.signal(syscall.SIGSTOP) }

// Thaw undoes Freeze.
func (e *Emulator) Thaw() { e.signal(syscall.SIGCONT) }

func (e *Emulator) signal(s syscall.Signal) {
	if pid := e.PID(); pid != 0 {
		_ = syscall.Kill(pid, s) // it may be gone
	}
}

// PID of the bootstrap, 0 if none was started.
func (e *Emulator) PID() int {
	text, err := os.ReadFile(e.pidFile)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(text)))
	return pid
}

// PeakMemory is the most memory the bootstrap has had resident, in bytes.
func (e *Emulator) PeakMemory() int64 { return procStatus(e.PID(), "VmHWM:") }

// Output is everything the emulator and the bootstrap wrote so far.
func (e *Emulator) Output() string { return e.out.String() }

// freeAddress is an address on loopback that nobody listens on at the moment.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
