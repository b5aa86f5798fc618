// Command dispatcher carries due outbox events to n8n. In Lambda it is the
// function that a schedule invokes; anywhere else it does one invocation and
// prints its report as JSON:
//
//	go run ./functions/dispatcher [--event FILE] [--timeout 60s]
//
// The settings come from the environment; README.md lists them.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	limitMemory()
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		lambda.Start(newInstance().invoke)
		return
	}
	os.Exit(local(os.Args[1:]))
}

// local does one invocation outside Lambda and returns the exit status.
func local(args []string) int {
	flags := flag.NewFlagSet("dispatcher", flag.ExitOnError)
	file := flags.String("event", "", "`file` with the event of the invocation; without it {}")
	timeout := flags.Duration("timeout", 60*time.Second, "time that the invocation has")
	_ = flags.Parse(args) // exits on an error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	var event []byte
	if *file != "" {
		var err error
		if event, err = os.ReadFile(*file); err != nil {
			fmt.Fprintln(os.Stderr, "dispatcher:", err)
			return 1
		}
	}
	i := newInstance()
	defer func() { i.close() }()
	report, err := i.invoke(ctx, event)
	if err == nil || report.Claimed > 0 {
		_ = json.NewEncoder(os.Stdout).Encode(report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dispatcher:", err)
		return 1
	}
	return 0
}

// limitMemory tells the garbage collector what memory the function has, less an eighth
// for what is not on the heap. Outside Lambda there is no limit. GOGC=300: an event leaves
// 10 KB of garbage and the live heap is small, so that by default it would run every few
// hundred events.
func limitMemory() {
	if mb, err := strconv.ParseInt(os.Getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"), 10, 64); err == nil {
		debug.SetMemoryLimit(mb << 20 / 8 * 7)
	}
	debug.SetGCPercent(300)
}
