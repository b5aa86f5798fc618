package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// daemon stands in for the X-Ray daemon.
type daemon struct {
	address string
	conn    *net.UDPConn
}

// doc is a datagram: the line in front, and the document.
type doc struct {
	raw  []byte
	body map[string]any
}

func listen(t testing.TB) *daemon {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadBuffer(4 << 20)
	t.Cleanup(func() { conn.Close() })
	return &daemon{conn.LocalAddr().String(), conn}
}

// listenForever returns the address of a daemon that reads and forgets.
func listenForever(b *testing.B) string {
	d := listen(b)
	go func() {
		buf := make([]byte, 64<<10)
		for {
			if _, _, err := d.conn.ReadFromUDP(buf); err != nil {
				return
			}
		}
	}()
	return d.address
}

// wait returns the documents that came: n of them, and none behind these.
func (d *daemon) wait(t *testing.T, n int) (docs []doc) {
	t.Helper()
	buf := make([]byte, 64<<10)
	for {
		patience := 5 * time.Second
		if len(docs) >= n {
			patience = 50 * time.Millisecond
		}
		d.conn.SetReadDeadline(time.Now().Add(patience))
		size, _, err := d.conn.ReadFromUDP(buf)
		if err != nil {
			break
		}
		head, body, _ := bytes.Cut(bytes.Clone(buf[:size]), []byte("\n"))
		one := doc{raw: body}
		if err := json.Unmarshal(body, &one.body); err != nil || string(head) != `{"format": "json", "version": 1}` {
			t.Fatalf("datagram %q: %v", buf[:size], err)
		}
		if one.body["end_time"] == nil || one.body["in_progress"] != nil || one.body["type"] != "subsegment" || one.body["trace_id"] != traceID {
			t.Errorf("not a closed subsegment of our trace: %s", body)
		}
		docs = append(docs, one)
	}
	if len(docs) != n {
		t.Fatalf("%d documents, want %d", len(docs), n)
	}
	return docs
}

func names(docs []doc) map[string]int {
	n := map[string]int{}
	for _, d := range docs {
		n[d.body["name"].(string)]++
	}
	return n
}

func TestTrace(t *testing.T) {
	setup := func(t *testing.T) (*Telemetry, *daemon) {
		d := listen(t)
		return New(Config{Tracing: true, Daemon: d.address}), d
	}

	t.Run("StepsHangBelowTheInvocationAndEachOther", func(t *testing.T) {
		telemetry, d := setup(t)
		ctx := traced(t.Context(), sampled)
		deliver, endDeliver := telemetry.Step(ctx, "deliver")
		_, endClaim := telemetry.Step(deliver, "claim")
		time.Sleep(2 * time.Millisecond)
		endClaim(nil)
		endDeliver(nil)
		docs := d.wait(t, 2)
		claim, parent := docs[0].body, docs[1].body
		if claim["name"] != "claim" || parent["name"] != "deliver" || claim["parent_id"] != parent["id"] || parent["parent_id"] != parentID {
			t.Errorf("got %s and %s", docs[0].raw, docs[1].raw)
		}
		if took := claim["end_time"].(float64) - claim["start_time"].(float64); took < 0.002 || took > 1 {
			t.Errorf("claim took %v s", took)
		}
		if claim["fault"] != nil || claim["cause"] != nil {
			t.Errorf("claim is a fault: %s", docs[0].raw)
		}
	})

	t.Run("AFailedStepSaysWhy", func(t *testing.T) {
		telemetry, d := setup(t)
		_, end := telemetry.Step(traced(t.Context(), sampled), "claim")
		end(errors.New("database away"))
		body := d.wait(t, 1)[0].body
		if body["fault"] != true || !strings.Contains(fmt.Sprint(body["cause"]), "database away") {
			t.Errorf("got %v", body)
		}
		if text := fmt.Sprint(body["cause"]); strings.Contains(text, "stack") || strings.Contains(text, "working_directory") {
			t.Errorf("cause has more than the reason: %s", text)
		}
	})

	t.Run("AStepThatNeverEndsHidesNoOther", func(t *testing.T) {
		telemetry, d := setup(t)
		lost, _ := telemetry.Step(traced(t.Context(), sampled), "deliver")
		_, end := telemetry.Step(lost, "claim")
		end(nil)
		if got := names(d.wait(t, 1)); got["claim"] != 1 {
			t.Errorf("got %v, want the claim", got)
		}
	})

	t.Run("AFailedAttemptCanBeSearchedFor", func(t *testing.T) {
		telemetry, d := setup(t)
		step, _ := telemetry.Step(traced(t.Context(), sampled), "deliver")
		a := failure()
		a.Started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		telemetry.Attempted(step, a)
		body := d.wait(t, 1)[0].body
		if got, want := fmt.Sprint(body["annotations"]), "map[attempt:3 code:connectionError event_type:vehicle.updated]"; got != want {
			t.Errorf("annotations %s, want %s", got, want)
		}
		if body["name"] != "attempt" || body["fault"] != true || !strings.Contains(fmt.Sprint(body["cause"]), "bad gateway") ||
			!strings.Contains(fmt.Sprint(body["metadata"]), a.EventID) || !strings.Contains(fmt.Sprint(body["http"]), "502") {
			t.Errorf("got %v", body)
		}
		start, end := body["start_time"].(float64), body["end_time"].(float64)
		if start != float64(a.Started.Unix()) || math.Abs(end-start-0.040) > 0.001 {
			t.Errorf("from %f to %f, want the times of the POST", start, end)
		}
		if parent := body["parent_id"]; parent == parentID || parent == "" {
			t.Errorf("parent %v, want the step", parent)
		}
	})

	t.Run("OfTheOthersOnlySlowAttemptsAreTraced", func(t *testing.T) {
		telemetry, d := setup(t)
		ctx := traced(t.Context(), sampled)
		telemetry.Attempted(ctx, success())
		queued := success()
		queued.Duration = slow
		telemetry.Attempted(ctx, queued)
		body := d.wait(t, 1)[0].body
		if got, want := fmt.Sprint(body["annotations"]), "map[attempt:1 event_type:vehicle.updated]"; got != want || body["fault"] != nil {
			t.Errorf("annotations %s, want %s and no fault", got, want)
		}
	})

	t.Run("AttemptsAreCappedAnInvocation", func(t *testing.T) {
		telemetry, d := setup(t)
		ctx := traced(t.Context(), sampled)
		queued := success()
		queued.Duration = 2 * slow
		for range 2 {
			for range 200 { // the slow ones leave room for failures
				telemetry.Attempted(ctx, queued)
			}
			for range 200 {
				telemetry.Attempted(ctx, failure())
			}
			telemetry.Reported(ctx, cycle.Report{}, nil)
		}
		faults := 0
		for _, doc := range d.wait(t, 2*(maxFailures+maxSlow)) {
			if doc.body["fault"] != nil {
				faults++
			}
		}
		if faults != 2*maxFailures {
			t.Errorf("%d failures traced, want %d", faults, 2*maxFailures)
		}
		if 3*(maxFailures+maxSlow) > 50 {
			t.Error("more annotations than X-Ray indexes")
		}
	})

	t.Run("StepsAreCappedAnInvocation", func(t *testing.T) {
		telemetry, d := setup(t)
		ctx := traced(t.Context(), sampled)
		for range 1000 {
			_, end := telemetry.Step(ctx, "claim")
			end(nil)
		}
		d.wait(t, maxSteps)
	})

	t.Run("ADocumentFitsADatagramWhateverIsInIt", func(t *testing.T) {
		telemetry, d := setup(t)
		ctx := traced(t.Context(), sampled)
		a := failure()
		a.EventType, a.Error, a.Code = strings.Repeat("<\U0001F69A>", 100_000), strings.Repeat("<\U0001F69A>\n", 100_000), outbox.MalformedResponse
		telemetry.Attempted(ctx, a)
		_, end := telemetry.Step(ctx, "claim")
		end(errors.New(strings.Repeat("<&>", 100_000)))
		for _, doc := range d.wait(t, 2) {
			if len(doc.raw) > 8<<10 {
				t.Errorf("%d bytes, want 8 KB at most", len(doc.raw))
			}
		}
	})

	t.Run("NothingIsSentUnlessLambdaAsksForIt", func(t *testing.T) {
		telemetry, d := setup(t)
		off := New(Config{Daemon: d.address})
		for _, header := range []any{
			nil, "", "garbage", 42, "Root=" + traceID + ";Sampled=1", "Parent=" + parentID + ";Sampled=1",
			"Root=" + traceID + ";Parent=" + parentID, strings.Replace(sampled, "Sampled=1", "Sampled=0", 1),
		} {
			ctx := traced(t.Context(), header)
			step, end := telemetry.Step(ctx, "claim")
			telemetry.Attempted(step, failure())
			end(nil)
		}
		step, end := off.Step(traced(t.Context(), sampled), "claim")
		off.Attempted(step, failure())
		end(nil)
		d.wait(t, 0)
	})
}

func TestDaemonAddress(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:2000":                        "127.0.0.1:2000",
		"169.254.79.129:2000":                   "169.254.79.129:2000",
		"localhost:2000":                        "127.0.0.1:2000",
		"[::1]:2000":                            "[::1]:2000",
		"tcp:127.0.0.1:2001 udp:127.0.0.2:2002": "127.0.0.2:2002",
		"udp:127.0.0.2:2002 tcp:127.0.0.1:2001": "127.0.0.2:2002",
		"udp:127.0.0.2:2002":                    "127.0.0.2:2002",
		"daemon.example.com:2000":               "", // would have to be looked up
		"127.0.0.1":                             "",
		"127.0.0.1:2000000":                     "",
		"nonsense":                              "",
	} {
		got, err := daemonAddress(address)
		if want == "" && err == nil || want != "" && (err != nil || got.String() != want) {
			t.Errorf("%q: got %v, %v; want %q", address, got, err, want)
		}
	}
}

// The SDK itself panics at its package init on each of these.
func TestBadDaemonAddressEndsNoProgram(t *testing.T) {
	for _, address := range []string{"nonsense", "[::1]:2000", "127.0.0.1:x", "no-such-host.invalid:2000", "a b c"} {
		for name, env := range map[string][]string{"outside Lambda": nil, "in Lambda": {"AWS_LAMBDA_RUNTIME_API=127.0.0.1:1"}} {
			stdout, stderr := runChild(t, "start", append(env, "AWS_XRAY_DAEMON_ADDRESS="+address)...)
			all := lines(t, stdout+stderr)
			if last := all[len(all)-1]; last["msg"] != "started" || last["address"] != address {
				t.Errorf("%s, %q: got %v, want the variable as it was", name, address, last)
			}
			wantWarning := env != nil && address != "[::1]:2000"
			if (len(all) == 2 && all[0]["msg"] == "tracing is off") != wantWarning {
				t.Errorf("%s, %q: got %v, warning wanted: %v", name, address, all, wantWarning)
			}
		}
	}
}

// The SDK's own lines would be plain text on stdout.
func TestNoDaemonSaysNothing(t *testing.T) {
	stdout, _ := runChild(t, "trace without a daemon", "AWS_LAMBDA_RUNTIME_API=127.0.0.1:1", "AWS_XRAY_DAEMON_ADDRESS=127.0.0.1:9", "AWS_XRAY_CONTEXT_MISSING=RUNTIME_ERROR")
	for _, line := range lines(t, stdout) {
		if line["msg"] != "attempt" {
			t.Errorf("got %v", line)
		}
	}
}
