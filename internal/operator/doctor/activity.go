package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

// EventType is that of the event which the doctor posts.
const EventType = "dispatcher.doctor"

// accepted posts one event of the doctor's own: n8n looks at the token of a
// whole and proper POST alone, so that nothing less would tell.
func (e *examination) accepted(ctx context.Context) operator.Check {
	const name = "token accepted"
	switch {
	case !e.asked.Post:
		return unknown(name, "not tried: only a real POST tells, and it runs the workflow once", "doctor with post (--post) sends one event of the type "+EventType)
	case e.Tokens == nil || e.Webhook == nil:
		return unknown(name, "the settings are wrong", settingsFirst)
	case !e.connected:
		return unknown(name, "there is no connection", "mend the connection first")
	}
	token, err := e.Tokens.Token(ctx)
	if err != nil {
		return unknown(name, "there is no token", "mend the token first")
	}
	id := newID()
	body, _ := outbox.Envelope(id, EventType, outbox.Micros(time.Now().UnixMicro()), outbox.Payload{
		Object: true, Correlation: []byte(`"doctor"`), Aggregate: []byte(`{"type":"doctor"}`), Data: []byte(`{}`),
	}, 1<<20)
	v := outbox.Judge(id, e.Webhook.Post(ctx, token, body))
	switch {
	case v.Code == "":
		return ok(name, fmt.Sprintf("n8n took the token, and the workflow acknowledged event %s with execution %s", id, outbox.CleanTo(v.RunID, 100)))
	case v.HTTPStatus == http.StatusUnauthorized, v.HTTPStatus == http.StatusForbidden:
		return fault(name, "n8n refuses the token: "+v.Text, "put the token of n8n's credential into the secret")
	case v.HTTPStatus >= 200 && v.HTTPStatus <= 299 && v.Signal == outbox.EventFault:
		return warning(name, "n8n took the token, but the workflow did not acknowledge the event: "+v.Text,
			"if it refuses the type "+EventType+", all is well; if not, let it end in Respond to Webhook as the README says")
	}
	return fault(name, v.Text, "look at the execution of event "+id+" in n8n")
}

// newID returns a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// waited is for how long an event may be due before one wonders whether anybody
// comes: five ticks.
const waited = 5 * time.Minute

// schedule tells whether somebody invokes the dispatcher: AWS knows, where it can
// be asked; else the table lets it guess.
func (e *examination) schedule(ctx context.Context) operator.Check {
	const name = "schedule"
	const mend = "set ScheduleEnabled=true and deploy, or enable it in EventBridge Scheduler"
	asking := ""
	if schedule, _ := e.Lookup("DISPATCHER_SCHEDULE"); schedule != "" && e.Schedule != nil {
		s, err := e.Schedule(ctx, schedule)
		switch {
		case err != nil:
			asking = "AWS does not tell (" + err.Error() + "); "
		case !s.Enabled:
			return fault(name, "it is disabled ("+s.Rate+")", mend)
		default:
			return ok(name, "it is enabled, "+s.Rate+e.pausedNote(ctx))
		}
	}
	if e.inspection == nil || !e.inspection.Exists || len(e.inspection.Problems)+len(e.inspection.Missing) > 0 {
		return unknown(name, asking+"not known from here", "look at EventBridge Scheduler in the console")
	}
	o, err := e.Store.Overview(ctx)
	age := time.Duration(o.OldestDueAgeSeconds * float64(time.Second)).Round(time.Second)
	switch {
	case err != nil:
		return unknown(name, asking+"not known from here: "+err.Error(), "look at EventBridge Scheduler in the console")
	case o.Paused:
		return warning(name, asking+"somebody paused the dispatcher, so nothing goes out", "operator status says who and why; operator resume ends it")
	case o.Leased > 0:
		return ok(name, fmt.Sprintf("%ssomebody is at work: live leases: %d", asking, o.Leased))
	case age > waited:
		return fault(name, fmt.Sprintf("%san event has been due for %s and nobody takes it", asking, operator.Span(age)), mend)
	}
	return unknown(name, asking+"not known from here: nothing has waited for long", "look at EventBridge Scheduler in the console")
}

// pausedNote tells of a pause, if the table can be asked.
func (e *examination) pausedNote(ctx context.Context) string {
	if e.inspection == nil || !e.inspection.HasControl {
		return ""
	}
	if o, err := e.Store.Overview(ctx); err == nil && o.Paused {
		return "; but somebody paused the dispatcher (operator status says who)"
	}
	return ""
}
