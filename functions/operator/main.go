// Command operator is for people: what waits, what failed and why, and how to put
// it right without SQL. In Lambda it is a function whose event names an action,
// {"action": "status"}; anywhere else it is a command line with the same actions
// and the same members as flags:
//
//	go run ./functions/operator --help
//
// The settings come from the environment; README.md lists them. Most actions need
// those of the database alone.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/aws/aws-lambda-go/lambda"

	"outbox-dispatcher/internal/config"
)

func main() {
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		lambda.Start(newFunction(config.Environ, os.Getenv, os.Stdout).handle)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code := newTerminal(os.Stdin, os.Stdout, os.Stderr, config.Environ, os.Getenv).run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
