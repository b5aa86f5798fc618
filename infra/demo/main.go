// Command demo shows the dispatcher at work on this machine: `make run`, or
//
//	go run ./infra/demo
//
// It starts a throw-away Postgres and a stand-in n8n, puts sample events of
// every kind into the table, builds the Lambda function, invokes it a few times
// under the Lambda runtime emulator as a schedule would, and shows what became
// of the events.
//
//	throw-away Postgres <──── function under the emulator ────> stand-in n8n
//	     ^      |                        ^
//	samples   table, before and after    4 invocations, 3 s apart
//
// # In place of the throw-away ones
//
//	DATABASE_URL               a database; OUTBOX_TABLE a table in it
//	N8N_WEBHOOK_URL            an n8n
//	N8N_WEBHOOK_TRIGGER_TOKEN  its token, which it then needs
//
// Sample events go only into a table that is missing, that is empty, or that
// holds nothing but samples of an earlier run; such a table is migrated first,
// and the samples stay in it. A table with other events is left as it is: what
// is due there is delivered, to the n8n of N8N_WEBHOOK_URL and never to the
// stand-in, which would acknowledge what nobody received.
//
// # What is left behind
//
// Nothing, also after Ctrl-C and after SIGKILL: see janitor.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// errUnread ends a demo whose output is closed.
var errUnread = errors.New("nobody reads the output any more")

func main() { os.Exit(realMain()) }

// realMain returns the exit status: 0, 1 with an error on stderr, or 130 when it
// was told to end.
func realMain() int {
	told, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// The next Ctrl-C ends us at once, and the janitor cleans up. Not in the same
	// second: timeout(1) sends its signal twice.
	context.AfterFunc(told, func() {
		time.Sleep(time.Second)
		stop()
	})
	// A reader that goes away, as in `make run | head`, must not end us before we
	// have cleaned up: the write then fails in place of the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(told)
	defer cancel(nil)

	err := run(ctx, newScreen(os.Stdout, os.Getenv, func() { cancel(errUnread) }))
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errLeft):
	case told.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: told to end; everything is cleaned up")
		return 130
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	fmt.Fprintln(os.Stderr, "demo:", err)
	return 1
}
