// Package telemetry tells people what the dispatcher does: log lines (slog),
// metrics (CloudWatch embedded metric format) and traces (X-Ray). It is the only
// package that knows any of the three.
//
//	step          a log line at DEBUG             a subsegment
//	unchangeable  a log line: a row that the database lets nobody change
//	attempt       a log line                      a subsegment if it failed or was slow
//	invocation    a log line                      all metrics, zeros included
//
// # Guarantees
//
// Nothing here can fail, end or noticeably slow a delivery: a panic stops at the
// edge of this package, and no call waits for a server (a trace is a UDP datagram
// to this machine). No line, metric or trace holds a payload, a token, or the path
// or query of a URL.
//
// # What it costs
//
// An attempt costs 6 us for its log line, and 24 us more if it is traced; no more
// than maxFailures + maxSlow of them an invocation are. A step costs 9 us. Without a
// sampled trace header, as everywhere outside Lambda, tracing costs nothing. (Go
// 1.26, a core of 2 GHz; BenchmarkAttempted, BenchmarkStep.)
//
// The X-Ray SDK itself costs 8.5 MB of the bootstrap (arm64, stripped: 10.8 MB
// without it), 2 ms of init and 5 MB of memory, for it brings gRPC and fasthttp
// along. What is used of it is in trace.go: its document and its emitter.
package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// Config says where telemetry goes. The zero value discards all of it.
type Config struct {
	Log     io.Writer  // log lines; nil: none
	Text    bool       // lines for a terminal instead of JSON
	Level   slog.Level // of the least line that is written; zero: INFO
	Metrics io.Writer  // metric lines; nil: none
	Stack   string     // dimension of the metrics; empty: DefaultStack
	Tracing bool
	Daemon  string // address of the X-Ray daemon; empty: DefaultDaemon
}

const (
	// DefaultStack is the dimension of the metrics outside a stack.
	DefaultStack = "local"
	// DefaultDaemon is where the X-Ray daemon listens if nothing else is said.
	DefaultDaemon = "127.0.0.1:2000"
)

// FromEnv reads the configuration from the environment:
//
//	AWS_LAMBDA_RUNTIME_API   set: in Lambda, so logs and metrics go to stdout, as
//	                         JSON, and X-Ray is on. Else logs go to stderr, as text
//	                         if that is a terminal, and there is nothing more.
//	LOG_LEVEL                debug, info, warn or error; then AWS_LAMBDA_LOG_LEVEL,
//	                         which the Lambda console sets. Anything else is info.
//	METRICS_STACK            dimension Stack of the metrics
//	AWS_XRAY_DAEMON_ADDRESS  where traces go; AWS_XRAY_SDK_DISABLED=true: nowhere
//
// An application log level above INFO, set in Lambda's own logging configuration,
// makes Lambda drop the metric lines with all other lines at INFO. LOG_LEVEL does
// not.
func FromEnv(getenv func(string) string, stdout, stderr io.Writer) Config {
	c := Config{
		Log:    stderr,
		Level:  level(cmp.Or(getenv("LOG_LEVEL"), getenv("AWS_LAMBDA_LOG_LEVEL"))),
		Stack:  getenv("METRICS_STACK"),
		Daemon: getenv("AWS_XRAY_DAEMON_ADDRESS"),
	}
	if getenv("AWS_LAMBDA_RUNTIME_API") == "" {
		c.Text = isTerminal(stderr)
		return c
	}
	c.Log, c.Metrics = stdout, stdout
	c.Tracing = !strings.EqualFold(getenv("AWS_XRAY_SDK_DISABLED"), "true")
	return c
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Telemetry observes the dispatcher. Its methods may be called from several
// goroutines; invocations come one after the other, each ended by Reported.
type Telemetry struct {
	log     *slog.Logger
	metrics io.Writer
	stack   string
	tracer  *tracer // nil: no tracing

	mu          sync.Mutex // guards the two below, of the running invocation
	delivery    samples    // ms
	commitToAck samples    // s
}

var _ cycle.Observer = (*Telemetry)(nil)

// New returns a Telemetry. A wrong address of the daemon is logged, and then
// nothing is traced.
func New(c Config) *Telemetry {
	t := &Telemetry{log: newLogger(c), metrics: c.Metrics, stack: cmp.Or(c.Stack, DefaultStack)}
	if c.Tracing {
		var err error
		if t.tracer, err = newTracer(cmp.Or(c.Daemon, DefaultDaemon)); err != nil {
			t.log.Warn("tracing is off", "error", err.Error())
		}
	}
	return t
}

// Logger returns the logger. Its lines carry requestId and trace_id of the
// context they are given.
func (t *Telemetry) Logger() *slog.Logger { return t.log }

// Install makes the logger that of slog and of the log package, for libraries
// that write there. aws-lambda-go does so with the error of an invocation and
// before it gives up, so what comes by way of log is an ERROR.
func (t *Telemetry) Install() {
	slog.SetDefault(t.log)
	slog.SetLogLoggerLevel(slog.LevelError)
	log.SetOutput(discreet{log.Writer()})
}

// discreet drops what net/http logs of bytes that a server sent behind its
// answer: it quotes them, and they may repeat a token. There is no switch for it,
// and nothing is lost, since the answer itself was read.
type discreet struct{ io.Writer }

func (d discreet) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response received on idle HTTP channel")) {
		return len(line), nil
	}
	return d.Writer.Write(line)
}

// Step marks the start of a step, and its end when the returned function is
// called. Subsegments of what happens under the returned context hang below it.
func (t *Telemetry) Step(ctx context.Context, name string) (stepCtx context.Context, end func(error)) {
	stepCtx, end = ctx, func(error) {} // if all else fails
	defer ignorePanic()
	began := time.Now()
	s := t.tracer.begin(ctx, name, began)
	return s.context(ctx), func(err error) {
		defer ignorePanic()
		ended := time.Now()
		t.tracer.end(s, ended, err)
		t.logStep(ctx, name, ended.Sub(began), err)
	}
}

// Unchangeable tells of a row that nobody can take.
func (t *Telemetry) Unchangeable(ctx context.Context, u cycle.Unchangeable) {
	defer ignorePanic()
	t.log.WarnContext(ctx, "unchangeable", "event_id", u.EventID, "error", outbox.Clean(u.Reason))
}

// Attempted tells of one attempt.
func (t *Telemetry) Attempted(ctx context.Context, a cycle.Attempt) {
	defer ignorePanic()
	t.measure(a)
	t.tracer.attempt(ctx, a)
	t.logAttempt(ctx, a)
}

// Reported tells of a whole invocation. It may also be called for one that ended
// before its cycle could begin, with an empty report and the error.
func (t *Telemetry) Reported(ctx context.Context, r cycle.Report, err error) {
	defer ignorePanic()
	r = finite(r)
	t.logInvocation(ctx, r, err)
	t.writeMetrics(time.Now(), r)
	t.tracer.reset()
}

// ignorePanic ends a panic where telemetry ends: what is watched goes on.
func ignorePanic() { _ = recover() }
