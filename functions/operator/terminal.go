package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/secret"
	"outbox-dispatcher/internal/telemetry"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFault  = 1 // it could not be done, or not all of it
	exitUsage  = 2 // it cannot be meant so, or was not confirmed; nothing was done
	exitDoctor = 3 // doctor found faults
)

// terminal is the command line.
type terminal struct {
	parts
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string

	asks   bool // somebody sits there and can be asked
	moves  bool // progress can be written over
	colour bool // of the results
	width  int  // of the results; 0: any

	json bool // flag
	ran  bool // a command began: what goes wrong now is no wrong usage
	code int  // exit status of a command that ended without an error

	// do does a request; tests that only parse put something else here.
	do func(ctx context.Context, r operator.Request) (any, error)
}

func newTerminal(in io.Reader, out, errs io.Writer, lookup config.Lookup, getenv func(string) string) *terminal {
	c := telemetry.FromEnv(getenv, out, errs)
	c.Log, c.Metrics, c.Tracing = errs, nil, false
	c.Level = min(c.Level, slog.LevelInfo) // the audit is written whatever LOG_LEVEL says
	t := &terminal{
		parts: parts{lookup: lookup, secrets: &secret.Reader{}, log: telemetry.New(c).Logger()},
		in:    in, out: out, err: errs, getenv: getenv,
		asks: isTerminal(in) && isTerminal(errs), moves: isTerminal(errs),
		colour: isTerminal(out) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb",
	}
	if f, ok := out.(*os.File); ok && isTerminal(out) {
		t.width, _, _ = term.GetSize(int(f.Fd())) // 0 if it does not tell
	}
	t.do = t.perform
	return t
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// run does one command and returns the exit status.
func (t *terminal) run(ctx context.Context, args []string) int {
	root := t.root()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return t.code
	}
	fmt.Fprintln(t.err, "operator:", err)
	var usage *operator.UsageError
	var refused *operator.RefusedError
	if !t.ran || errors.As(err, &usage) {
		fmt.Fprintf(t.err, "%s --help tells more.\n", command.CommandPath())
		return exitUsage
	}
	if errors.As(err, &refused) {
		return exitUsage
	}
	return exitFault
}

// perform wires an operator for the request and lets it do that.
func (t *terminal) perform(ctx context.Context, r operator.Request) (any, error) {
	o, close, err := t.wire(r)
	if err != nil {
		return nil, err
	}
	defer close()
	line := &progressLine{w: t.err, moves: t.moves}
	defer line.end()
	o.Who = who(t.getenv)
	o.Progress = line.show
	o.Say = func(step string) { fmt.Fprintln(t.err, step) }
	if t.asks {
		o.Confirm = t.confirm
	}
	return o.Do(ctx, r)
}

// command makes a command out of a request and of how its result is printed.
func command[T any](t *terminal, c *cobra.Command, r operator.Request, print func(*page, T)) *cobra.Command {
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		t.ran = true
		result, err := t.do(cmd.Context(), r)
		var partial *operator.PartialError
		known, fits := result.(T)
		if !fits || err != nil && !errors.As(err, &partial) {
			return err
		}
		p := &page{w: t.out, colour: t.colour, width: t.width}
		if t.json {
			p.json(result)
		} else {
			print(p, known)
		}
		t.code = exitOf(result)
		if p.err != nil && err == nil {
			err = fmt.Errorf("the result cannot be written: %w", p.err)
		}
		return err
	}
	return c
}

// exitOf is the exit status of a result that came without an error.
func exitOf(result any) int {
	if d, ok := result.(operator.Diagnosis); ok && !d.OK {
		return exitDoctor
	}
	if r, ok := result.(interface{ Incomplete() bool }); ok && r.Incomplete() {
		return exitFault
	}
	return exitOK
}

// who is the person at this machine.
func who(getenv func(string) string) operator.Who {
	var w operator.Who
	if u, err := user.Current(); err == nil {
		w.User = u.Username
	}
	if caller := getenv("SUDO_USER"); caller != "" {
		w.User = caller + " as " + w.User
	}
	w.Host, _ = os.Hostname()
	return w
}
