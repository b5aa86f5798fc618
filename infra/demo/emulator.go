package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"outbox-dispatcher/internal/cycle"
)

const (
	// emulatorTries: the free ports that were found can be taken before the
	// emulator takes them.
	emulatorTries = 3
	// emulatorStart bounds its start, which takes milliseconds.
	emulatorStart = 10 * time.Second
	// emulatorStop: it ends within milliseconds, with an invocation under way
	// after the time that Lambda leaves a function to shut down.
	emulatorStop = 3 * time.Second
	invokePath   = "/2015-03-31/functions/function/invocations"
)

// emulator is a running Lambda runtime emulator with the function in it. Two
// invocations at once crash it, so it has one user.
type emulator struct {
	address string
	cmd     *exec.Cmd
	log     string        // file with what emulator and function printed
	exited  chan struct{} // closed once the process is gone
}

// startEmulator starts the emulator and waits until it listens. The function
// starts with the first invocation, as in Lambda.
func startEmulator(ctx context.Context, s *screen, built programs, folder string, env map[string]string) (*emulator, error) {
	env["TMPDIR"] = folder // how the janitor knows them
	var environ []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		environ = append(environ, name+"="+env[name])
	}
	var err error
	for range emulatorTries {
		e := &emulator{log: filepath.Join(folder, "lambda.log")}
		if err = e.launch(ctx, built, folder, environ); err == nil {
			s.say("the function runs under the emulator on " + e.address)
			return e, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("start the emulator: %w", err)
}

func (e *emulator) launch(ctx context.Context, built programs, folder string, environ []string) error {
	addresses, err := freeAddresses(2)
	if err != nil {
		return err
	}
	log, err := os.Create(e.log)
	if err != nil {
		return err
	}
	defer log.Close()
	e.address = addresses[0]
	e.cmd = exec.Command(built.emulator, "--runtime-interface-emulator-address", addresses[0], "--runtime-api-address", addresses[1], built.bootstrap)
	e.cmd.Dir, e.cmd.Env = folder, environ
	e.cmd.Stdout, e.cmd.Stderr = log, log
	// A group of its own: it is ended by close, and a Ctrl-C passes it by.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.cmd.Start(); err != nil {
		return err
	}
	e.exited = make(chan struct{})
	go func() {
		_ = e.cmd.Wait() // how it ended is in its log
		close(e.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, emulatorStart)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-e.exited:
			return fmt.Errorf("it ended by itself: %s", e.tail())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), e.close())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// invoke sends an event and returns the report. The error is what the function
// returned, or what became of it.
func (e *emulator) invoke(ctx context.Context, event []byte) (report cycle.Report, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.address+invokePath, bytes.NewReader(event))
	if err != nil {
		return report, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return report, e.explain(ctx, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return report, e.explain(ctx, err)
	}
	var failed struct {
		Message string `json:"errorMessage"`
		Type    string `json:"errorType"`
	}
	switch {
	case json.Unmarshal(body, &failed) != nil: // a time-out comes as plain text
		return report, errors.New(strings.TrimSpace(string(body)))
	case failed.Type != "" || res.StatusCode != http.StatusOK:
		return report, fmt.Errorf("%s (%s)", failed.Message, failed.Type)
	}
	return report, json.Unmarshal(body, &report)
}

func (e *emulator) explain(ctx context.Context, err error) error {
	select {
	case <-e.exited:
		return fmt.Errorf("the emulator ended: %s", e.tail())
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// close ends the emulator, which ends the function before. What does not end is
// left to the janitor.
func (e *emulator) close() error {
	_ = e.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-e.exited:
	case <-time.After(emulatorStop):
		_ = e.cmd.Process.Kill()
		<-e.exited
	}
	return nil
}

// tail is the end of the log.
func (e *emulator) tail() string {
	const enough = 2000
	text, err := os.ReadFile(e.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-enough):]))
}

// freeAddresses returns different addresses on loopback that nobody listens on
// at the moment.
func freeAddresses(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // only at the end, so that the next one is another
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}
