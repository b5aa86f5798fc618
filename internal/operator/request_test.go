package operator

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

const someID = "7f1c2a34-0000-4000-8000-000000000001"

func TestParseRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, event string
		want        Request
	}{
		{"Status", `{"action": "status"}`, &Status{}},
		{"ListWithItsDefaults", `{"action": "list"}`, &List{Limit: 20}},
		{"StatusesAsAText", `{"action": "list", "status": "failed,pending", "limit": 5}`, &List{Status: Words{"failed", "pending"}, Limit: 5}},
		{"StatusesAsAList", `{"action": "list", "status": ["failed"], "sort": "-occurred"}`, &List{Status: Words{"failed"}, Sort: "-occurred", Limit: 20}},
		{"FilterIsFlat", `{"action": "list", "code": "connectionError", "older_than": "1d12h", "aggregate": "id=7"}`,
			&List{Filter: Filter{Code: "connectionError", OlderThan: Duration(36 * time.Hour), Aggregate: "id=7"}, Limit: 20}},
		{"Show", `{"action": "show", "id": "` + someID + `", "payload": true}`, &Show{ID: someID, Payload: true}},
		{"ReplayByFilter", `{"action": "replay", "code": "connectionError", "limit": 7, "rate": 0.5, "dry_run": true}`,
			&Replay{Choice: Choice{Filter: Filter{Code: "connectionError"}}, Limit: 7, Rate: 0.5, DryRun: true}},
		{"ReplayByIds", `{"action": "replay", "ids": ["` + someID + `"], "yes": true}`,
			&Replay{Choice: Choice{IDs: []string{someID}}, Limit: 100, Rate: DefaultRate, Yes: true}},
		{"Cancel", `{"action": "cancel", "id": "` + someID + `", "reason": "sent by hand"}`,
			&Cancel{Choice: Choice{ID: someID}, Limit: 100, As: "cancelled", Reason: "sent by hand"}},
		{"Reclaim", `{"action": "reclaim", "id": "` + someID + `", "force": true}`, &Reclaim{ID: someID, Force: true, Limit: maxChange}},
		{"Prune", `{"action": "prune", "older_than_days": 30, "yes": true}`,
			&Prune{OlderThanDays: 30, Batch: 1000, Pause: Duration(50 * time.Millisecond), Yes: true}},
		{"Pause", `{"action": "pause", "reason": "n8n is being upgraded"}`, &Pause{Reason: "n8n is being upgraded"}},
		{"Resume", `{"action": "resume"}`, &Resume{}},
		{"Migrate", `{"action": "migrate"}`, &Migrate{}},
		{"Doctor", `{"action": "doctor", "post": true, "role": "r"}`, &Doctor{Post: true, Role: "r"}},
		{"TheLastOfADoubledMemberCounts", `{"action": "list", "limit": 1, "limit": 2}`, &List{Limit: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseRequest([]byte(c.event))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if err := got.check(); err != nil {
				t.Errorf("it is refused: %v", err)
			}
		})
	}
}

func TestParseRequestRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, event, names string }{
		{"Nothing", ``, "JSON object"},
		{"Null", `null`, "JSON object"},
		{"AList", `[]`, "JSON object"},
		{"BrokenJSON", `{"action": "status"`, "JSON object"},
		{"NoAction", `{}`, "action is missing"},
		{"AnActionThatIsNoText", `{"action": 1}`, "action must be a text"},
		{"AnUnknownAction", `{"action": "drop"}`, `unknown action "drop"; known are status, list`},
		{"AScheduledEvent", `{"source": "aws.scheduler"}`, "action is missing"},
		{"AnUnknownMember", `{"action": "status", "verbose": true}`, `unknown member "verbose" of status`},
		{"AMemberOfAnotherAction", `{"action": "cancel", "rate": 5}`, `unknown member "rate" of cancel`},
		{"AnotherCase", `{"action": "show", "ID": "` + someID + `"}`, `unknown member "ID" of show`},
		{"Null member", `{"action": "list", "limit": null}`, "limit of list must be a whole number"},
		{"AFractionForANumber", `{"action": "list", "limit": 1.5}`, "limit of list must be a whole number"},
		{"ATextForANumber", `{"action": "replay", "rate": "5"}`, "rate of replay must be a number"},
		{"ATextForABoolean", `{"action": "replay", "yes": "true"}`, "yes of replay must be true or false"},
		{"ANumberForAText", `{"action": "show", "id": 7}`, "id of show must be a text"},
		{"ATextForAList", `{"action": "replay", "ids": "x"}`, "ids of replay must be a list of texts"},
		{"ANumberForATimeSpan", `{"action": "list", "older_than": 7}`, "older_than of list must be a time span"},
		{"AWrongTimeSpan", `{"action": "list", "older_than": "yesterday"}`, "older_than of list must be a time span"},
		{"AnObjectForStatus", `{"action": "list", "status": {}}`, "status of list must be a text such as failed,pending"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ParseRequest([]byte(c.event))
			wantUsage(t, err, c.names)
			if r != nil {
				t.Errorf("returned %+v beside the error", r)
			}
		})
	}
}

func wantUsage(t *testing.T, err error, names string) {
	t.Helper()
	var usage *UsageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), names) {
		t.Errorf("got error %v, want a UsageError that holds %q", err, names)
	}
}

func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	change := func(action string, f func(r Request)) Request {
		r := New(action)
		f(r)
		return r
	}
	list := func(f func(l *List)) Request { return change("list", func(r Request) { f(r.(*List)) }) }
	replay := func(f func(r *Replay)) Request { return change("replay", func(r Request) { f(r.(*Replay)) }) }
	cancel := func(f func(c *Cancel)) Request {
		return change("cancel", func(r Request) { c := r.(*Cancel); c.Reason = "why"; f(c) })
	}
	prune := func(f func(p *Prune)) Request {
		return change("prune", func(r Request) { p := r.(*Prune); p.OlderThanDays = 7; f(p) })
	}
	for _, c := range []struct {
		name  string
		r     Request
		wrong string // empty: it is right
	}{
		{"LimitBelow", list(func(l *List) { l.Limit = 0 }), "limit must be a whole number from 1 to 1000"},
		{"LimitAbove", list(func(l *List) { l.Limit = 1001 }), "limit must be"},
		{"EmptyStatus", list(func(l *List) { l.Status = Words{""} }), "status must be"},
		{"NULInAStatus", list(func(l *List) { l.Status = Words{"a\x00"} }), "status must be"},
		{"SpacesAroundAStatus", list(func(l *List) { l.Status = Words{" failed ", "pending"} }), ""},
		{"UnknownSort", list(func(l *List) { l.Sort = "size" }), "sort must be one of"},
		{"SortTurnedRound", list(func(l *List) { l.Sort = "-attempts" }), ""},
		{"SucceededByDueTime", list(func(l *List) { l.Status, l.Sort = Words{"succeeded"}, "due" }), "can only be sorted by id"},
		{"SucceededById", list(func(l *List) { l.Status, l.Sort = Words{"succeeded"}, "-id" }), ""},
		{"SucceededByDefault", list(func(l *List) { l.Status = Words{"succeeded"} }), ""},
		{"NULInAFilter", list(func(l *List) { l.Text = "\x00" }), "text must be text in UTF-8"},
		{"BrokenUTF8InAFilter", list(func(l *List) { l.Code = "\xff" }), "code must be text in UTF-8"},
		{"BrokenJSONForAggregate", list(func(l *List) { l.Aggregate = `{"id":` }), "aggregate must be"},
		{"NoCursor", list(func(l *List) { l.Cursor = "abc" }), "cursor is not one"},

		{"ShowWithoutAnId", &Show{}, "say which event"},
		{"ShowWithAWrongId", &Show{ID: "7"}, `"7" is no event id`},
		{"ShowWithACopiedId", &Show{ID: ` "` + strings.ToUpper(someID) + `" `}, ""},

		{"ReplayOfNothing", replay(func(r *Replay) {}), "say which events"},
		{"ReplayOfAll", replay(func(r *Replay) { r.All = true }), ""},
		{"ReplayByIdAndFilter", replay(func(r *Replay) { r.ID, r.Code = someID, "x" }), "ids or a filter, not both"},
		{"ReplayOfAStatus", replay(func(r *Replay) { r.Status = Words{"failed"} }), ""},
		{"ReplayOfAnotherStatus", replay(func(r *Replay) { r.Status = Words{"failed", "succeeded"} }), "status can only be failed here"},
		{"ReplayByIdAndStatus", replay(func(r *Replay) { r.ID, r.Status = someID, Words{"failed"} }), "ids or a filter, not both"},
		{"CancelOfAState", cancel(func(c *Cancel) { c.Status = Words{"suspect", "due"} }), ""},
		{"CancelOfWhatIsDelivering", cancel(func(c *Cancel) { c.Status = Words{"delivering"} }), "status can only be pending, due, later, suspect here"},
		{"ReplayByIdAndAll", replay(func(r *Replay) { r.ID, r.All = someID, true }), "ids or all, not both"},
		{"ReplayByAWrongId", replay(func(r *Replay) { r.IDs = []string{someID, "x"} }), `"x" is no event id`},
		{"ReplayOfWhatIsDue", replay(func(r *Replay) { r.DueFor = Duration(time.Minute) }), "due_for is for pending events"},
		{"ReplayAtNoRate", replay(func(r *Replay) { r.All, r.Rate = true, 0 }), "rate must be"},
		{"ReplayAtTooHighARate", replay(func(r *Replay) { r.All, r.Rate = true, 10_001 }), "rate must be"},
		{"ReplayOfTooMany", replay(func(r *Replay) { r.All, r.Limit = true, maxChange+1 }), "limit must be"},
		{"ReplayOfTooManyIds", replay(func(r *Replay) { r.IDs = manyIDs(maxIDs + 1) }), "at most 10000 ids"},

		{"CancelWithoutAReason", cancel(func(c *Cancel) { c.All, c.Reason = true, " \n" }), "say why"},
		{"CancelAsACodeOfTheDispatcher", cancel(func(c *Cancel) { c.All, c.As = true, "connectionError" }), "cannot be connectionError"},
		{"CancelAsNoCode", cancel(func(c *Cancel) { c.All, c.As = true, "two words" }), "as must be a code"},
		{"CancelByIdWithCode", cancel(func(c *Cancel) { c.ID, c.Code = someID, "mine" }), "the code to write is as"},
		{"CancelOfNothing", cancel(func(c *Cancel) {}), "say which events"},
		{"CancelOfWhatIsDue", cancel(func(c *Cancel) { c.DueFor = Duration(time.Hour) }), ""},

		{"ReclaimByForceOfAll", change("reclaim", func(r Request) { r.(*Reclaim).Force = true }), "force is for one event"},
		{"ReclaimOfAWrongId", &Reclaim{ID: "x"}, "is no event id"},

		{"PruneWithoutAnAge", prune(func(p *Prune) { p.OlderThanDays = 0 }), "say how old"},
		{"PruneBelowTheFloor", prune(func(p *Prune) { p.OlderThanDays = 6 }), "from 7 to"},
		{"PruneOfTheFuture", prune(func(p *Prune) { p.OlderThanDays = -7 }), "from 7 to"},
		{"PruneAtTheFloor", prune(func(p *Prune) {}), ""},
		{"PruneInTooLargeBatches", prune(func(p *Prune) { p.Batch = 10_001 }), "batch must be"},
		{"PruneWithTooLongAPause", prune(func(p *Prune) { p.Pause = Duration(2 * time.Minute) }), "pause must be"},
		{"PruneWithANegativeLimit", prune(func(p *Prune) { p.Limit = -1 }), "limit must not be negative"},

		{"PauseWithABrokenReason", &Pause{Reason: "\xff"}, "reason must be"},
		{"DoctorWithABrokenRole", &Doctor{Role: "\x00"}, "role must be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.r.check()
			if c.wrong == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			wantUsage(t, err, c.wrong)
		})
	}
}

func manyIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = someID[:24] + strings.Repeat("0", 4) + string([]byte{hexDigit(i >> 28), hexDigit(i >> 24), hexDigit(i >> 20), hexDigit(i >> 16), hexDigit(i >> 12), hexDigit(i >> 8), hexDigit(i >> 4), hexDigit(i)})
	}
	return ids
}

func hexDigit(n int) byte { return "0123456789abcdef"[n&15] }

func TestEveryActionHasMembersOfItsOwn(t *testing.T) {
	t.Parallel()
	if got := strings.Join(Actions(), " "); got != "status list show replay cancel reclaim prune pause resume migrate doctor" {
		t.Errorf("actions: %s", got)
	}
	for _, action := range Actions() {
		seen := map[string]bool{}
		for _, m := range Members(New(action)) {
			if m == "action" || seen[m] || m != strings.ToLower(m) || strings.ContainsAny(m, "- ") {
				t.Errorf("%s: the member %q is doubled, or not in snake_case", action, m)
			}
			seen[m] = true
		}
	}
	if New("drop") != nil {
		t.Error("there is an action drop")
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(`{"action": "list", "status": ["failed"], "older_than": "2h"}`)
	f.Add(`{"action": "replay", "ids": ["x"], "rate": 1e309}`)
	f.Add(`{"action": "prune", "older_than_days": 99999999999999999999}`)
	f.Add(`{"action": "list", "aggregate": "{\"a\":1}", "cursor": "e30"}`)
	f.Fuzz(func(t *testing.T, event string) {
		r, err := ParseRequest([]byte(event))
		var usage *UsageError
		switch {
		case err == nil && r == nil:
			t.Fatal("neither a request nor an error")
		case err != nil && !errors.As(err, &usage):
			t.Fatalf("error of type %T", err)
		case err == nil:
			if err := r.check(); err != nil && !errors.As(err, &usage) {
				t.Fatalf("check: error of type %T", err)
			}
		}
	})
}
