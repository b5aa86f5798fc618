package telemetry

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-xray-sdk-go/v2/strategy/exception"
	"github.com/aws/aws-xray-sdk-go/v2/xray"
	"github.com/aws/aws-xray-sdk-go/v2/xraylog"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/telemetry/daemonenv"
)

const (
	// slow is from when an acknowledged attempt has a subsegment: n8n answers within
	// a tenth of that unless it queues.
	slow = time.Second
	// maxFailures and maxSlow bound the attempts an invocation traces. X-Ray indexes
	// 50 annotations a trace and an attempt has three. The log has all attempts.
	maxFailures = 12
	maxSlow     = 4
	// maxSteps bounds the steps an invocation traces: a trace holds 500 KB, and an
	// invocation that drains a backlog has hundreds of steps, all alike.
	maxSteps = 100
	// maxTraceRunes bounds an error text, so that a document stays under 8 KB, far
	// from the 64 KB of a datagram.
	maxTraceRunes = 500
)

func init() {
	daemonenv.Restore()
	// The SDK's lines are plain text on stdout, among our JSON. Its documentation
	// wants this done in an init.
	xray.SetLogger(xraylog.NullLogger)
}

// tracer sends subsegments to the X-Ray daemon. A nil tracer sends none.
//
// It fills the SDK's documents itself and sends each when its step or attempt has
// ended, rather than let the SDK build a tree of open segments: there a child that
// is never closed keeps its parents from being sent, a call without a segment
// panics, and a tree of many events outgrows a datagram.
type tracer struct {
	emitter xray.Emitter

	mu                    sync.Mutex
	failures, slow, steps int // traced in this invocation
}

// newTracer returns a tracer to the daemon at an address of X-Ray's kind.
func newTracer(daemon string) (*tracer, error) {
	address, err := daemonAddress(daemon)
	if err != nil {
		return nil, err
	}
	emitter, err := xray.NewDefaultEmitter(net.UDPAddrFromAddrPort(address)) // dials at its first document
	if err != nil {
		return nil, err
	}
	return &tracer{emitter: emitter}, nil
}

// daemonAddress reads "address:port" or, as X-Ray writes it too,
// "tcp:address:port udp:address:port". A name is refused, so that tracing never
// waits for the DNS.
func daemonAddress(daemon string) (netip.AddrPort, error) {
	address := daemon
	for part := range strings.FieldsSeq(daemon) {
		if udp, ok := strings.CutPrefix(part, "udp:"); ok {
			address = udp
		}
	}
	if port, ok := strings.CutPrefix(address, "localhost:"); ok {
		address = "127.0.0.1:" + port
	}
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return parsed, fmt.Errorf("AWS_XRAY_DAEMON_ADDRESS: %q is not address:port", daemon)
	}
	return parsed, nil
}

// traceHeader is what Lambda says of the trace of an invocation.
type traceHeader struct {
	root    string // id of the trace
	parent  string // id of the segment above ours
	sampled bool   // false: nobody wants our documents
}

// lambdaTraceKey is the key under which aws-lambda-go puts the header, as in
// "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1".
const lambdaTraceKey = "x-amzn-trace-id"

func traceHeaderOf(ctx context.Context) (h traceHeader) {
	text, _ := ctx.Value(lambdaTraceKey).(string)
	for part := range strings.SplitSeq(text, ";") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "Root":
			h.root = value
		case "Parent":
			h.parent = value
		case "Sampled":
			h.sampled = value == "1"
		}
	}
	return h
}

// step is a step under way. nil: it is not traced.
type step struct {
	name, id, parent, trace string
	began                   time.Time
}

// stepKey is the key of the id of the step that a context belongs to.
type stepKey struct{}

// context returns ctx for what happens within the step.
func (s *step) context(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, stepKey{}, s.id)
}

// parent tells where a subsegment that starts under ctx belongs.
func (t *tracer) parent(ctx context.Context) (trace, parent string, ok bool) {
	if t == nil {
		return "", "", false
	}
	h := traceHeaderOf(ctx)
	if id, ok := ctx.Value(stepKey{}).(string); ok {
		h.parent = id
	}
	return h.root, h.parent, h.sampled && h.root != "" && h.parent != ""
}

// begin starts a step.
func (t *tracer) begin(ctx context.Context, name string, now time.Time) *step {
	trace, parent, ok := t.parent(ctx)
	if !ok || !t.may(&t.steps, maxSteps) {
		return nil
	}
	return &step{name: name, id: xray.NewSegmentID(), parent: parent, trace: trace, began: now}
}

// end sends a step.
func (t *tracer) end(s *step, now time.Time, err error) {
	if s == nil {
		return
	}
	doc := document(s.name, s.id, s.trace, s.parent, s.began, now)
	if err != nil {
		fail(doc, fmt.Sprintf("%T", err), errorText(err, maxTraceRunes))
	}
	t.emitter.Emit(doc)
}

// attempt sends an attempt if it failed or was slow, and there was not much of
// that yet.
func (t *tracer) attempt(ctx context.Context, a cycle.Attempt) {
	failed := a.Code != ""
	if !failed && a.Duration < slow {
		return
	}
	trace, parent, ok := t.parent(ctx)
	if !ok || failed && !t.may(&t.failures, maxFailures) || !failed && !t.may(&t.slow, maxSlow) {
		return
	}
	began := a.Started
	if began.IsZero() { // nothing was sent
		began = time.Now()
	}
	doc := document("attempt", xray.NewSegmentID(), trace, parent, began, began.Add(a.Duration))
	doc.Annotations = map[string]any{"event_type": outbox.CleanTo(a.EventType, maxNameRunes), "attempt": a.Number}
	doc.Metadata = map[string]map[string]any{"default": {"event_id": a.EventID, "status": string(a.Status)}}
	if a.HTTPStatus != 0 {
		doc.GetHTTP().GetResponse().Status = a.HTTPStatus
	}
	if failed {
		doc.Annotations["code"] = string(a.Code)
		fail(doc, string(a.Code), outbox.CleanTo(a.Error, maxTraceRunes))
	}
	t.emitter.Emit(doc)
}

// reset starts a new invocation.
func (t *tracer) reset() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures, t.slow, t.steps = 0, 0, 0
}

// may counts one more, unless there are as many as there may be.
func (t *tracer) may(count *int, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *count >= limit {
		return false
	}
	*count++
	return true
}

// document returns a subsegment that stands for itself: X-Ray puts it in its place
// by the ids of its trace and parent.
func document(name, id, trace, parent string, began, ended time.Time) *xray.Segment {
	doc := &xray.Segment{
		Name: name, ID: id, TraceID: trace, ParentID: parent, Type: "subsegment",
		StartTime: seconds(began), EndTime: seconds(ended),
		Sampled: true,
	}
	doc.ParentSegment = doc // where the emitter looks whether it is sampled
	return doc
}

// fail marks a document as failed. The text is the caller's: the SDK would add a
// stack trace and the working directory.
func fail(doc *xray.Segment, kind, text string) {
	doc.Fault = true
	doc.Cause = &xray.CauseData{Exceptions: []exception.Exception{{ID: xray.NewSegmentID(), Type: kind, Message: text}}}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }
