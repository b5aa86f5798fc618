package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"go.uber.org/goleak"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// children are what this test binary does when it is started as another process:
// for what is settled once a process.
var children = map[string]func(){
	"start": func() { // as a main does
		t := New(FromEnv(os.Getenv, os.Stdout, os.Stderr))
		t.Install()
		t.Logger().Info("started", "address", os.Getenv("AWS_XRAY_DAEMON_ADDRESS"))
	},
	"handler error": func() { // as aws-lambda-go does
		New(FromEnv(os.Getenv, os.Stdout, os.Stderr)).Install()
		log.Printf("%s", `{"errorMessage":"no database","errorType":"CycleError"}`)
	},
	"trace without a daemon": func() {
		t := New(FromEnv(os.Getenv, os.Stdout, os.Stderr))
		ctx := traced(context.Background(), sampled)
		for range 50 {
			_, end := t.Step(ctx, "claim")
			end(errors.New("x"))
			t.Attempted(ctx, failure())
		}
	},
}

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv("TELEMETRY_TEST_CHILD")]; ok {
		child()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// runChild runs one of the children with these variables and no others.
func runChild(t *testing.T, name string, env ...string) (stdout, stderr string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(env, "TELEMETRY_TEST_CHILD="+name, "GORACE=atexit_sleep_ms=0")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &errs)
	}
	return out.String(), errs.String()
}

const (
	traceID  = "1-5759e988-bd862e3fe1be46a994272793"
	parentID = "53995c3f42cd8ad8"
	sampled  = "Root=" + traceID + ";Parent=" + parentID + ";Sampled=1;Lineage=1:2:3"
)

// traced returns ctx as aws-lambda-go makes it.
func traced(ctx context.Context, header any) context.Context {
	//lint:ignore SA1029 the key is that of aws-lambda-go
	return context.WithValue(ctx, lambdaTraceKey, header)
}

func inLambda(ctx context.Context) context.Context {
	return lambdacontext.NewContext(traced(ctx, sampled), &lambdacontext.LambdaContext{AwsRequestID: "request-1"})
}

func success() cycle.Attempt {
	return cycle.Attempt{
		EventID: "11111111-2222-4333-8444-555555555555", EventType: "vehicle.updated", Number: 1, Status: outbox.Succeeded, HTTPStatus: 200,
		Started: time.Now().Add(-80 * time.Millisecond), Duration: 80 * time.Millisecond, CommitToAck: 1500 * time.Millisecond, RunID: "4711",
	}
}

func failure() cycle.Attempt {
	return cycle.Attempt{
		EventID: "11111111-2222-4333-8444-555555555556", EventType: "vehicle.updated", Number: 3, Status: outbox.Pending,
		Code: outbox.ConnectionError, Error: "HTTP 502 from n8n.example.com: bad gateway", HTTPStatus: 502,
		Started: time.Now().Add(-40 * time.Millisecond), Duration: 40 * time.Millisecond,
	}
}

// lines parses what was written, a JSON object a line.
func lines(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %.200q", err, line)
		}
		all = append(all, m)
	}
	return all
}

// buffer is a writer that several goroutines may use, as os.Stdout is.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
	writes int
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes++
	return b.Buffer.Write(p)
}

func TestFromEnv(t *testing.T) {
	var stdout, stderr bytes.Buffer
	for name, c := range map[string]struct {
		env  map[string]string
		want Config
	}{
		"OutsideLambdaLogsGoToStderrAndNothingElse": {
			nil, Config{Log: &stderr},
		},
		"InLambdaAllGoesToStdoutAndXRay": {
			map[string]string{"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001", "METRICS_STACK": "prod", "AWS_XRAY_DAEMON_ADDRESS": "169.254.79.129:2000"},
			Config{Log: &stdout, Metrics: &stdout, Stack: "prod", Tracing: true, Daemon: "169.254.79.129:2000"},
		},
		"XRayCanBeSwitchedOff": {
			map[string]string{"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001", "AWS_XRAY_SDK_DISABLED": "TRUE"},
			Config{Log: &stdout, Metrics: &stdout},
		},
		"LevelOfTheConsole": {map[string]string{"AWS_LAMBDA_LOG_LEVEL": "WARN"}, Config{Log: &stderr, Level: 4}},
		"LevelOfOursWins":   {map[string]string{"AWS_LAMBDA_LOG_LEVEL": "WARN", "LOG_LEVEL": "debug"}, Config{Log: &stderr, Level: -4}},
		"UnknownLevelIsInfo": {
			map[string]string{"LOG_LEVEL": "loud"}, Config{Log: &stderr},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := FromEnv(func(name string) string { return c.env[name] }, &stdout, &stderr); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// The observer is called from deliveries: whatever breaks in it, they go on.
func TestNothingEndsADelivery(t *testing.T) {
	for name, telemetry := range map[string]*Telemetry{
		"ZeroConfig":        New(Config{}),
		"WriterThatPanics":  New(Config{Log: brokenWriter{panics: true}, Metrics: brokenWriter{panics: true}, Level: -4}),
		"WriterThatFails":   New(Config{Log: brokenWriter{}, Metrics: brokenWriter{}, Level: -4}),
		"DaemonThatIsNone":  New(Config{Tracing: true, Daemon: "nonsense"}),
		"NobodyListens":     New(Config{Tracing: true, Daemon: "127.0.0.1:9"}),
		"EmitterThatPanics": {log: New(Config{}).log, tracer: &tracer{}},
		"Discard":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			var o cycle.Observer = cycle.Discard{}
			if telemetry != nil {
				o = telemetry
			}
			for _, header := range []any{nil, "", "Root=;Parent=;Sampled=1", "=;;=", sampled, 42} {
				ctx := traced(t.Context(), header)
				stepCtx, end := o.Step(ctx, "deliver")
				o.Attempted(stepCtx, failure())
				o.Attempted(stepCtx, cycle.Attempt{})
				end(errors.New("no"))
				end(nil) // twice
				o.Reported(ctx, cycle.Report{}, nil)
				o.Reported(ctx, cycle.Report{}, errors.New("no"))
			}
		})
	}
}

type brokenWriter struct{ panics bool }

func (b brokenWriter) Write([]byte) (int, error) {
	if b.panics {
		panic("writer")
	}
	return 0, io.ErrClosedPipe
}

// A webhook's URL is a secret but for its host. Nothing of it is shown, even where
// an error brings it along.
func TestShowsNothingSecret(t *testing.T) {
	d := listen(t)
	var out buffer
	telemetry := New(Config{Log: &out, Metrics: &out, Level: -4, Tracing: true, Daemon: d.address})
	ctx := inLambda(t.Context())

	const hook = "https://bot:hunter2@n8n.example.com/webhook/4f9c-hook?token=abc1"
	var err error = &url.Error{Op: "Post", URL: hook, Err: errors.New("dial tcp 127.0.0.1:1: connection refused")}
	stepCtx, end := telemetry.Step(ctx, "deliver")
	for i := range 200 {
		a := failure()
		a.Error = strings.Repeat(fmt.Sprintf("%d: n8n.example.com <&> \"refused\" \x00\n", i), 60) // 2 KB
		telemetry.Attempted(stepCtx, a)
	}
	end(fmt.Errorf("deliver: %w", err))
	_, end = telemetry.Step(ctx, "claim")
	end(fmt.Errorf("rewritten %s: %w", hook, err))
	telemetry.Reported(ctx, cycle.Report{}, fmt.Errorf("deliver: %w", err))

	all := out.String()
	docs := d.wait(t, maxFailures+2)
	for _, doc := range docs {
		if len(doc.raw) > 8<<10 {
			t.Errorf("a datagram of %d bytes, want 8 KB at most", len(doc.raw))
		}
		all += string(doc.raw)
	}
	for _, secret := range []string{"hunter2", "4f9c-hook", "abc1", "/webhook"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	if n := strings.Count(all, "connection refused"); n < 5 {
		t.Errorf("the reason is shown %d times, want it in both traces, both step lines and the line of the invocation", n)
	}
	lines(t, out.String()) // still JSON
}

// Several goroutines deliver while steps come and go: run with -race.
func TestGoroutines(t *testing.T) {
	d := listen(t)
	var out buffer
	telemetry := New(Config{Log: &out, Metrics: &out, Level: -4, Tracing: true, Daemon: d.address})
	ctx := inLambda(t.Context())
	stepCtx, end := telemetry.Step(ctx, "deliver")
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			for i := range 50 {
				a := success()
				if i%2 == 0 {
					a = failure()
				}
				telemetry.Attempted(stepCtx, a)
				_, end := telemetry.Step(ctx, "record")
				end(nil)
			}
		})
	}
	workers.Wait()
	end(nil)
	telemetry.Reported(ctx, cycle.Report{}, nil)

	got := map[string]int{}
	for _, line := range lines(t, out.String()) {
		if values, ok := line["DeliveryDuration"].([]any); ok {
			got["values"] += len(values)
			continue
		}
		got[line["msg"].(string)]++
	}
	if want := map[string]int{"attempt": 500, "step": 501, "invocation": 1, "values": 500}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	docs := d.wait(t, maxFailures+maxSteps)
	if names := names(docs); names["attempt"] != maxFailures || names["record"]+names["deliver"] != maxSteps {
		t.Errorf("traced %v, want %d attempts and %d steps", names, maxFailures, maxSteps)
	}
	ids := map[any]bool{}
	for _, doc := range docs {
		ids[doc.body["id"]] = true
	}
	if len(ids) != len(docs) {
		t.Errorf("%d documents share %d ids", len(docs), len(ids))
	}
}

func BenchmarkAttempted(b *testing.B) {
	d := listenForever(b)
	queued := success()
	queued.Duration = 2 * time.Second
	for _, attempt := range []struct {
		name string
		a    cycle.Attempt
	}{{"Acknowledged", success()}, {"Failed", failure()}, {"Slow", queued}} {
		for _, tracing := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/tracing=%v", attempt.name, tracing), func(b *testing.B) {
				t := New(Config{Log: io.Discard, Metrics: io.Discard, Tracing: tracing, Daemon: d})
				ctx := inLambda(b.Context())
				b.ReportAllocs()
				for b.Loop() {
					t.Attempted(ctx, attempt.a)
					t.tracer.reset() // so that each one is traced
				}
			})
		}
	}
}

func BenchmarkStep(b *testing.B) {
	d := listenForever(b)
	for _, tracing := range []bool{false, true} {
		b.Run(fmt.Sprintf("tracing=%v", tracing), func(b *testing.B) {
			t := New(Config{Log: io.Discard, Tracing: tracing, Daemon: d})
			ctx := inLambda(b.Context())
			b.ReportAllocs()
			for b.Loop() {
				_, end := t.Step(ctx, "claim")
				end(nil)
				t.tracer.reset()
			}
		})
	}
}

func BenchmarkReported(b *testing.B) {
	t := New(Config{Log: io.Discard, Metrics: io.Discard})
	a := success()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for range 500 {
			t.measure(a)
		}
		b.StartTimer()
		t.Reported(b.Context(), cycle.Report{}, nil)
	}
}

// sortedKeys is for comparing what a line holds.
func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
