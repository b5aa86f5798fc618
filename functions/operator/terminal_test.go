package main

import (
	"fmt"
	"strings"
	"testing"

	"outbox-dispatcher/internal/testkit/pgtest"
)

func TestStatusOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "pending")
	b.put(2, "failed", "last_error_code", "'connectionError'")
	b.put(3, "paused")
	o := b.run("status").want(0, "failed      1       1 connectionError", "")
	o.want(0, "paused      1       somebody else's", "").want(0, "dispatcher  not paused", "")
	v := b.run("status", "--json").want(0, "", "").json()
	if v["due"] != 1.0 || v["statuses"].(map[string]any)["failed"] != 1.0 || v["paused"] != false {
		t.Errorf("%v", v)
	}
}

// Where more waits than is counted, it says so, to people and to programs.
func TestStatusOfACrowd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json, delivery_status, last_error_code)
		select gen_random_uuid(), 'order.placed', now(), '{}', case when n <= 10010 then 'pending' else 'failed' end, case when n > 10010 then 'connectionError' end
		from generate_series(1, 20030) n`)
	b.put(1, "failed", "last_error_code", "'unknownError'")
	o := b.run("status").want(0, "pending     10,000+  10,000+ due", "")
	o.want(0, "failed      10,001+  10,000+ connectionError, 1 unknownError", "")
	o.want(0, "succeeded   0", "")
	v := b.run("status", "--json").want(0, `"at_least": [`, "").json()
	if v["due"] != 10000.0 || v["counted_up_to"] != 10000.0 || fmt.Sprint(v["at_least"]) != "[due pending failed]" ||
		fmt.Sprint(v["failed_by_code"]) != "[map[at_least:true code:connectionError count:10000] map[at_least:false code:unknownError count:1]]" {
		t.Errorf("%v", v)
	}
	if v := newBench(t).run("status", "--json").json(); fmt.Sprint(v["at_least"], v["failed_by_code"]) != "[] []" {
		t.Errorf("of an empty table: %v", v)
	}
}

func TestListOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for n := 1; n <= 3; n++ {
		b.put(n, "failed", "last_error_code", "'connectionError'", "last_error", `E'HTTP 403\n\x1b[2Jand more'`)
	}
	b.put(4, "pending")
	o := b.run("list", "--status", "failed", "--limit", "2").want(0, "HTTP 403 [2Jand more", "")
	if strings.Contains(o.out, "\x1b") {
		t.Error("control characters of a row reach the terminal")
	}
	_, cursor, ok := strings.Cut(o.out, "more: --cursor ")
	if !ok {
		t.Fatalf("no cursor in\n%s", o.out)
	}
	b.run("list", "--status", "failed", "--cursor", strings.TrimSpace(cursor)).want(0, eventID(3), "")
	v := b.run("list", "--status=failed,pending", "--code", "connectionError", "--sort", "-id", "--json").want(0, "", "").json()
	if events := v["events"].([]any); len(events) != 3 || events[0].(map[string]any)["event_id"] != eventID(3) {
		t.Errorf("%v", v)
	}
	if v := b.run("list", "--code", "none", "--json").want(0, "", "").json(); len(v["events"].([]any)) != 0 {
		t.Errorf("%v", v)
	}
	b.run("list", "--code", "none").want(0, "no event fits", "")
}

func TestShowOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "pending", "attempts", "3", "last_error_code", "'connectionError'", "last_error", "'HTTP 503'")
	b.put(2, "pending")
	o := b.run("show", eventID(1)).want(0, "object of 106 bytes: aggregate, correlation_id, data", "")
	o.want(0, "That will be attempt 4.", "")
	if strings.Contains(o.out, "customer") {
		t.Errorf("the payload is shown, and nobody asked for it:\n%s", o.out)
	}
	b.env["N8N_MAX_ATTEMPTS"] = "4"
	b.run("show", eventID(1)).want(0, "attempt 4 of 4, the last", "")
	b.run("show", strings.ToUpper(eventID(1)), "--payload").want(0, `"n": 1.50`, "")
	v := b.run("show", eventID(1), "--payload", "--json").want(0, "", "").json()
	if v["payload"].(map[string]any)["correlation_id"] != "secret of the customer" || v["state"] != "due" || v["next_attempt_at"] != nil {
		t.Errorf("%v", v)
	}
	b.run("show", eventID(9)).want(1, "", "there is no event "+eventID(9))
	b.run("show", "9").want(2, "", `"9" is no event id`)
	b.run("show").want(2, "", "say which event")
	b.run("show", eventID(1), eventID(2)).want(2, "", "takes one id")
}

// What a person reads about each state.
func TestWordsOfEachState(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "pending", "occurred_at", "now() + interval '2 hours 30 seconds'")
	b.put(2, "pending", "lost_leases", "2")
	b.put(3, "delivering", "next_attempt_at", "now() + interval '90 seconds'")
	b.put(4, "failed", "attempts", "7", "attempts_base", "7", "last_error_code", "'cancelled'")
	o := b.run("list", "--sort", "id")
	for _, want := range []string{
		"due      now                0         dated ahead", "suspect  due for 1h         0         1h", "leased   for another 1m", "failed                      7         1h",
	} {
		o.want(0, want, "")
	}
	b.run("show", eventID(1)).want(0, " UTC (in 2h)", "")
	b.run("show", eventID(2)).want(0, " UTC (1h ago)", "")
	o = b.run("show", eventID(4)).want(0, "attempts         7, all of them before the last replay", "")
	o.want(0, "no attempt was recorded since then", "").want(0, "somebody cancelled it", "")
	if strings.Contains(o.out, "+00:00") {
		t.Errorf("times are for programs:\n%s", o.out)
	}
	b.run("show", eventID(4), "--json").want(0, `+00:00",`, "")
	// Somebody is at work, so nobody need look why nobody comes.
	b.run("status").want(0, "due for longest: 1h", "").want(0, "table       outbox_events\n", "")
	if o := b.run("status"); strings.Contains(o.out, "nobody seems") {
		t.Error(o.out)
	}
	b.exec("delete from outbox_events where delivery_status = 'delivering'")
	b.run("status").want(0, "nobody seems to take what is due: operator doctor", "")
}

func TestWordsWhereNothingWasDone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "pending")
	b.run("replay", "--code", "none", "--yes").want(0, "no event fits: nothing is replayed\n", "")
	b.run("replay", "--code", "none", "--dry-run").want(0, "no event fits: nothing is to be replayed\n", "")
	b.run("replay", eventID(1), eventID(2)).want(1, "nothing is replayed\nskipped  "+eventID(1), "")
	b.run("cancel", "--status", "suspect", "--reason", "x", "--yes").want(0, "no event fits: nothing is cancelled", "")
	b.run("reclaim", eventID(1)).want(1, "nothing is reclaimed\nskipped  "+eventID(1)+" it is pending: nobody holds it", "")
	if o := b.run("replay", "--help"); strings.Contains(o.out, "--due-for") || strings.Contains(o.out, "--status") {
		t.Errorf("the help of replay names what is of no use to it:\n%s", o.out)
	}
}

func TestReplayOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "failed", "attempts", "100", "last_error_code", "'connectionError'")
	b.put(2, "failed", "attempts", "100", "last_error_code", "'malformedPayload'")
	b.put(3, "failed", "attempts", "100", "last_error_code", "'connectionError'")
	b.put(4, "succeeded", "last_error_code", "'connectionError'")
	const before = "failed failed failed succeeded"

	b.run("replay").want(2, "", "say which events")
	b.run("replay", "--code", "connectionError", "--dry-run").want(0, "to be replayed: 2 of 2 events", "")
	b.run("replay", "--code", "connectionError").want(2, "", "nobody is there to be asked; say yes (--yes")
	b.terminal, b.answer = true, "\n"
	o := b.run("replay", "--code", "connectionError").want(2, "", "Go on? [y/N]")
	o.want(2, "", "nothing was done")
	if !strings.Contains(o.err, eventID(1)) {
		t.Error("the question does not show what is meant")
	}
	if got := b.states(); got != before {
		t.Fatalf("something was done: %s", got)
	}

	b.answer = "y\n"
	o = b.run("replay", "--code", "connectionError", "--rate", "0.5").want(0, "replayed: 2 of 2 events", "About to replay 2 failed events of code connectionError")
	if got := b.states(); got != "pending failed pending succeeded" {
		t.Error(got)
	}
	a := o.audit()
	if len(a) != 1 || a[0]["action"] != "replay" || a[0]["changed"] != 2.0 || a[0]["role"] != "postgres" || a[0]["user"] == "" || a[0]["timestamp"] == nil ||
		len(a[0]["event_ids"].([]any)) != 2 {
		t.Errorf("audit %v", a)
	}
	b.terminal = false

	// One event needs no question.
	if o := b.run("replay", eventID(2)).want(0, "replayed: 1 of 1 event", `"what":"replay 1 failed event"`); strings.Contains(o.out, "a second") {
		t.Errorf("a rate of one event: %s", o.out)
	}
	if got := b.value("select attempts || ' ' || attempts_base from outbox_events where event_id = '" + eventID(2) + "'"); got != "100 100" {
		t.Error(got)
	}
	o = b.run("replay", eventID(4), eventID(5), "--json").want(1, "", "")
	skipped := o.json()["skipped"].([]any)
	if len(skipped) != 2 || skipped[0].(map[string]any)["reason"] != "it is succeeded, and replay needs it to be failed" {
		t.Errorf("skipped %v", skipped)
	}
	if strings.Contains(o.err, "audit") {
		t.Error("the audit tells of a change that was none")
	}
}

func TestCancelOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "pending")
	b.put(2, "delivering", "next_attempt_at", "now() + interval '1 min'")
	b.put(3, "pending")
	b.put(4, "pending")
	b.exec("update outbox_events set event_type = 'test' where event_id >= '" + eventID(3) + "'")
	b.run("cancel", eventID(1)).want(2, "", "say why")
	b.run("cancel", eventID(1), "--code", "mine", "--reason", "x").want(2, "", "the code to write is as (--as)")
	b.run("cancel", eventID(1), "--reason", "sent by hand").want(0, "cancelled: 1 of 1 event", `"msg":"audit"`)
	if got := b.value("select last_error_code || ': ' || last_error from outbox_events where event_id = '" + eventID(1) + "'"); !strings.HasPrefix(got, "cancelled: Cancelled by postgres (") || !strings.HasSuffix(got, "): sent by hand") {
		t.Error(got)
	}
	b.run("cancel", eventID(2), "--reason", "x").want(1, "skipped  "+eventID(2)+" it is delivering", "")
	b.run("cancel", "--type", "test", "--as", "testData", "--reason", "test data").want(2, "", "nobody is there to be asked")
	b.run("cancel", "--type", "test", "--as", "testData", "--reason", "test data", "--yes").want(0, "cancelled: 2 of 2 events", "")
	if got := b.states(); got != "failed delivering failed failed" {
		t.Error(got)
	}
}

func TestReclaimOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("reclaim").want(0, "no lease had run out: nothing was done", "")
	b.put(1, "delivering", "next_attempt_at", "now() - interval '1 min'")
	b.put(2, "delivering", "next_attempt_at", "now() + interval '1 min'")
	b.put(3, "delivering")
	b.put(4, "succeeded")
	b.run("reclaim", "--force").want(2, "", "force is for one event")
	b.run("reclaim").want(0, "1 event is pending again", "reclaim 1 expired lease")
	b.run("reclaim", eventID(2)).want(2, "", "may just be sending it")
	b.run("reclaim", eventID(3)).want(2, "", "is parked")
	b.run("reclaim", eventID(4)).want(1, "it is succeeded: nobody holds it", "")
	b.run("reclaim", eventID(2), "--force").want(0, "1 event is pending again", `"what":"take event `+eventID(2)+` back, which is leased"`)
	b.run("reclaim", eventID(3), "--force").want(0, "1 event is pending again", "")
	if got := b.states(); got != "pending pending pending succeeded" {
		t.Error(got)
	}
	b.exec("update outbox_events set delivery_status = 'delivering', next_attempt_at = now() - interval '1 min', lost_leases = 2, lost_leases_at = attempts")
	b.env["DISPATCH_MAX_LOST_LEASES"] = "3"
	b.run("reclaim").want(2, "", "reclaim 4 expired leases: nothing was done")
	b.run("reclaim", "-y").want(0, "4 events are failed, for too many leases lost in a row", "")
	b.env["DISPATCH_MAX_LOST_LEASES"] = "many"
	b.run("reclaim").want(1, "", "settings: DISPATCH_MAX_LOST_LEASES must be a whole number")
}

func TestPruneOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "succeeded", "occurred_at", "now() - interval '31 days'")
	b.put(2, "succeeded", "occurred_at", "now() - interval '29 days'")
	b.put(3, "failed", "occurred_at", "now() - interval '31 days'")
	b.run("prune").want(2, "", "say how old")
	b.run("prune", "--older-than-days", "6", "--yes").want(2, "", "from 7 to")
	b.run("prune", "--older-than-days", "30").want(2, "", "nobody is there to be asked")
	b.run("prune", "--older-than-days", "30", "--dry-run").want(0, "to be deleted: 1 event that had succeeded", "")
	if got := b.states(); got != "succeeded succeeded failed" {
		t.Fatalf("something was done: %s", got)
	}
	o := b.run("prune", "--older-than-days", "30", "--yes", "--json").want(0, "", `"phase":"begin"`)
	if v := o.json(); v["deleted"] != 1.0 || v["stopped"] != "complete" {
		t.Errorf("%v", v)
	}
	if a := o.audit(); len(a) != 2 || a[1]["phase"] != "end" || a[1]["changed"] != 1.0 {
		t.Errorf("audit %v", a)
	}
	b.run("prune", "--older-than-days", "30", "--failed", "--yes").want(0, "deleted: 1 event that had succeeded or failed", "")
	if got := b.states(); got != "succeeded" {
		t.Error(got)
	}
}

func TestPauseOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("pause", "--reason", "n8n is\nbeing upgraded").want(0, "the dispatcher is paused", `"what":"pause: n8n is being upgraded"`)
	b.run("status").want(0, "n8n is being upgraded", "").want(0, "paused since 20", "").want(0, "by postgres (", "")
	b.run("pause").want(0, "the dispatcher is paused\nit was paused already, since 20", "").want(0, "): n8n is being upgraded", "")
	b.run("status").want(0, "n8n is being upgraded", "") // still: a second pause says nothing new
	b.run("pause", "--reason", "and n8n's database").want(0, "it was paused already", "")
	b.run("status").want(0, "and n8n's database", "")
	b.run("resume").want(0, "the dispatcher runs\nit was paused, since 20", "")
	b.run("resume").want(0, "the dispatcher runs\nit was not paused", "")
	v := b.run("resume", "--json").want(0, "", "").json()
	if v["paused"] != false || v["before"].(map[string]any)["paused"] != false {
		t.Errorf("%v", v)
	}
}

func TestMigrateOnTheCommandLine(t *testing.T) {
	t.Parallel()
	b := &bench{t: t, url: pgtest.New(t)}
	b.env = map[string]string{"DATABASE_URL": b.url, "OUTBOX_TABLE": `"My Events"`}
	b.run("status").want(1, "", `operator: database: the table "My Events" is not there`)
	o := b.run("migrate").want(0, "migrated in 7 steps", `making the table "My Events"`)
	if a := o.audit(); len(a) != 1 || a[0]["action"] != "migrate" {
		t.Errorf("audit %v", a)
	}
	o = b.run("migrate").want(0, "nothing was left to do", "")
	if strings.Contains(o.err, "audit") {
		t.Error("the audit tells of a change that was none")
	}
	if v := b.run("migrate", "--json").want(0, "", "").json(); fmt.Sprint(v["steps"]) != "[]" {
		t.Errorf("%v", v)
	}
	b.run("status").want(0, `"My Events"`, "")
}

func TestOneClearErrorWhereItCannotBeDone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"NoSettings", nil, "operator: settings: DATABASE_URL is not set"},
		{"DatabaseAway", map[string]string{"DATABASE_URL": "postgres://u:topsecret@127.0.0.1:1/db"}, "operator: database: 127.0.0.1:1 refuses connections"},
		{"NoURL", map[string]string{"DATABASE_URL": "postgres://u:topsecret@[/db"}, "operator: settings: DATABASE_URL"},
		{"WrongTable", map[string]string{"DATABASE_URL": "postgres://127.0.0.1:1/db", "OUTBOX_TABLE": "a.b.c"}, "OUTBOX_TABLE must be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := &bench{t: t, env: c.env}
			for _, args := range [][]string{{"status"}, {"list", "--json"}, {"replay", "--all", "--yes"}, {"migrate"}} {
				o := b.run(args...).want(1, "", c.want)
				if o.out != "" || strings.Contains(o.err, "topsecret") || strings.Count(o.err, "\n") != 1 {
					t.Errorf("%v: stdout %q, stderr %q", args, o.out, o.err)
				}
			}
		})
	}
}

func TestWrongUsageIsStatusTwo(t *testing.T) {
	t.Parallel()
	b := &bench{t: t, env: map[string]string{}} // nothing is reached
	for _, c := range []struct{ args, want string }{
		{"drop", `unknown command "drop"`},
		{"staus", `unknown command "staus"; did you mean status?`},
		{"status extra", `status takes flags alone, not "extra"`},
		{"list --colour", "unknown flag: --colour"},
		{"list --limit many", "invalid argument"},
		{"list --older-than yesterday", "must be a time span such as"},
		{"replay --rate fast", "invalid argument"},
		{"resume 1", `resume takes flags alone, not "1"`},
	} {
		o := b.run(strings.Fields(c.args)...).want(2, "", c.want)
		o.want(2, "", " --help tells more.")
	}
}

func TestHelpHelps(t *testing.T) {
	t.Parallel()
	b := &bench{t: t, env: map[string]string{}}
	b.run().want(0, "Exit status: 0 done; 1", "")
	b.run("--help").want(0, "completion", "")
	for _, c := range newTerminal(strings.NewReader(""), nil, nil, b.lookup, func(string) string { return "" }).root().Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Short == "" || c.Example == "" || !strings.Contains(c.Example, "operator "+c.Name()) {
			t.Errorf("the help of %s has no example", c.Name())
		}
		o := b.run(c.Name(), "--help").want(0, "--json", "")
		o.want(0, strings.TrimSpace(strings.Split(c.Example, "\n")[0]), "")
	}
	b.run("completion", "bash").want(0, "operator", "")
	b.run("__complete", "list", "--status", "").want(0, "parked", "")
	b.run("__complete", "replay", "--code", "conn").want(0, "connectionError", "")
}

func TestColoursAreForTerminals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(1, "failed")
	if o := b.run("status"); strings.Contains(o.out, "\x1b") {
		t.Errorf("colours without a terminal: %q", o.out)
	}
	var out strings.Builder
	p := &page{w: &out, colour: true, width: 40}
	p.table([]string{"A", "LAST"}, [][]cell{{{text: "x", style: red}, {text: strings.Repeat("word ", 20)}}})
	if lines := strings.Split(out.String(), "\n"); lines[1] != "\x1b[31mx\x1b[0m  "+"word word word word word word word w…" {
		t.Errorf("%q", lines[1])
	}
}
