package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"outbox-dispatcher/internal/operator"
)

// list does a list through to its end and returns the numbers of its events, a
// bar between two pages.
func (d *desk) list(l operator.List) string {
	d.t.Helper()
	var pages []string
	for {
		r, err := (&operator.Operator{Store: d.store}).Do(d.t.Context(), &l)
		if err != nil {
			d.t.Fatalf("list: %v", err)
		}
		page := r.(operator.Page)
		var ids []string
		for _, e := range page.Events {
			ids = append(ids, e.ID)
		}
		pages = append(pages, numbers(ids))
		if page.Cursor == "" {
			return strings.Join(pages, " | ")
		}
		if l.Cursor = page.Cursor; len(pages) > 100 {
			d.t.Fatal("the list has no end")
		}
	}
}

// gallery has an event of every kind.
func gallery(t *testing.T) *desk {
	d := newDesk(t)
	ago := func(minutes int) string { return fmt.Sprintf("now() - interval '%d min'", minutes) }
	in := func(minutes int) string { return fmt.Sprintf("now() + interval '%d min'", minutes) }
	d.put(1, "occurred_at", ago(50))
	d.put(2, "occurred_at", ago(40), "next_attempt_at", ago(5), "attempts", "3", "last_error", "'HTTP 503 from n8n'", "last_error_code", "'connectionError'")
	d.put(3, "occurred_at", ago(30), "next_attempt_at", in(1), "attempts", "9")
	d.put(4, "occurred_at", in(5)) // never tried, dated in the future
	d.put(5, "occurred_at", ago(90), "lost_leases", "2", "last_error_code", "'staleLeaseRecovered'")
	d.put(6, "occurred_at", ago(20), "delivery_status", "'delivering'", "next_attempt_at", in(2))
	d.put(7, "occurred_at", ago(21), "delivery_status", "'delivering'", "next_attempt_at", ago(2))
	d.put(8, "occurred_at", ago(22), "delivery_status", "'delivering'")
	d.put(9, "occurred_at", ago(300), "delivery_status", "'failed'", "attempts", "100", "last_error", "'HTTP 403 Forbidden'", "last_error_code", "'connectionError'", "event_type", "'order.cancelled'")
	d.put(10, "occurred_at", ago(200), "delivery_status", "'failed'", "attempts", "100", "last_error", "'100% lost'", "last_error_code", "'malformedPayload'", "payload_json", `'{"aggregate": {"type": "order", "id": "7"}}'`)
	d.put(11, "occurred_at", ago(250), "delivery_status", "'failed'", "attempts", "100", "payload_json", `'{"aggregate": 7}'`)
	d.put(12, "occurred_at", ago(2), "delivery_status", "'succeeded'", "external_run_id", "'12'")
	d.put(13, "occurred_at", ago(3), "delivery_status", "'succeeded'")
	d.put(14, "occurred_at", ago(4), "delivery_status", "'paused'", "payload_json", "'[]'")
	return d
}

func TestList(t *testing.T) {
	t.Parallel()
	d := gallery(t)
	minutes := func(n int) operator.Duration {
		var span operator.Duration
		_ = span.Set(fmt.Sprintf("%dm", n))
		return span
	}
	for _, c := range []struct {
		name string
		list operator.List
		want string
	}{
		{"WhatIsNotDoneByDueTime", operator.List{}, "9 11 10 5 1 8 2 7 3 6 4"},
		{"TurnedRound", operator.List{Sort: "-due"}, "4 6 3 7 2 8 1 5 10 11 9"},
		{"InPages", operator.List{Limit: 4}, "9 11 10 5 | 1 8 2 7 | 3 6 4"},
		{"InPagesTurnedRound", operator.List{Limit: 4, Sort: "-due"}, "4 6 3 7 | 2 8 1 5 | 10 11 9"},
		{"APageThatEndsTheList", operator.List{Limit: 11}, "9 11 10 5 1 8 2 7 3 6 4"},
		{"OneByOne", operator.List{Status: operator.Words{"failed"}, Limit: 1}, "9 | 11 | 10"},
		{"ByAge", operator.List{Sort: "occurred", Limit: 6}, "9 11 10 5 1 2 | 3 8 7 6 4"},
		{"ByAttempts", operator.List{Sort: "-attempts", Limit: 3}, "11 10 9 | 3 2 8 | 7 6 5 | 4 1"},
		{"ById", operator.List{Sort: "id", Limit: 8}, "1 2 3 4 5 6 7 8 | 9 10 11"},

		{"Pending", operator.List{Status: operator.Words{"pending"}}, "5 1 2 3 4"},
		{"Due", operator.List{Status: operator.Words{"due"}}, "1 2 4"},
		{"Later", operator.List{Status: operator.Words{"later"}}, "3"},
		{"Suspect", operator.List{Status: operator.Words{"suspect"}}, "5"},
		{"Delivering", operator.List{Status: operator.Words{"delivering"}}, "8 7 6"},
		{"Leased", operator.List{Status: operator.Words{"leased"}}, "6"},
		{"Expired", operator.List{Status: operator.Words{"expired"}}, "7"},
		{"Parked", operator.List{Status: operator.Words{"parked"}}, "8"},
		{"Failed", operator.List{Status: operator.Words{"failed"}}, "9 11 10"},
		{"Succeeded", operator.List{Status: operator.Words{"succeeded"}}, "12 13"},
		{"SomebodyElses", operator.List{Status: operator.Words{"paused"}}, "14"},
		{"AStatusThatNobodyHas", operator.List{Status: operator.Words{"faild"}}, ""},
		{"SeveralStatuses", operator.List{Status: operator.Words{"succeeded", "failed", "paused"}, Limit: 2}, "9 10 | 11 12 | 13 14"},
		{"AnEventInTwoOfThem", operator.List{Status: operator.Words{"pending", "due"}, Limit: 2}, "5 1 | 2 3 | 4"},

		{"OfACode", operator.List{Filter: operator.Filter{Code: "connectionError"}}, "9 2"},
		{"FailedOfACode", operator.List{Status: operator.Words{"failed"}, Filter: operator.Filter{Code: "connectionError"}}, "9"},
		{"OfAType", operator.List{Filter: operator.Filter{Type: "order.cancelled"}}, "9"},
		{"WithTextInAnyCase", operator.List{Filter: operator.Filter{Text: "http"}}, "9 2"},
		{"TextIsNoPattern", operator.List{Filter: operator.Filter{Text: "0% L"}}, "10"},
		{"Older", operator.List{Filter: operator.Filter{OlderThan: minutes(100)}}, "9 11 10"},
		{"Newer", operator.List{Filter: operator.Filter{NewerThan: minutes(100)}}, "5 1 8 2 7 3 6 4"},
		{"Between", operator.List{Filter: operator.Filter{OlderThan: minutes(35), NewerThan: minutes(100)}}, "5 1 2"},
		{"DueForSoLong", operator.List{Filter: operator.Filter{DueFor: minutes(4)}}, "5 1 2"},
		{"AggregateByKey", operator.List{Filter: operator.Filter{Aggregate: "id=7"}, Sort: "id"}, "1 2 3 4 5 6 7 8 9 10"},
		{"AggregateByJSON", operator.List{Filter: operator.Filter{Aggregate: `{"id": "7"}`}}, "10"},
		{"AggregateThatIsAValue", operator.List{Filter: operator.Filter{Aggregate: "7"}}, "11"},
		{"AggregateOfPayloadsThatAreNoObject", operator.List{Status: operator.Words{"paused"}, Filter: operator.Filter{Aggregate: "id=7"}}, ""},
		{"EverythingAtOnce", operator.List{Status: operator.Words{"failed"}, Filter: operator.Filter{Code: "connectionError", Type: "order.cancelled", Text: "forbidden", Aggregate: "type=order", OlderThan: minutes(1), NewerThan: minutes(1000)}}, "9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.list.Limit == 0 {
				c.list.Limit = 20
			}
			if got := d.list(c.list); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestListTellsAllButThePayload(t *testing.T) {
	t.Parallel()
	d := gallery(t)
	page, err := d.store.List(t.Context(), operator.Query{Status: []string{"pending"}, Sort: "attempts", Descending: true, Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	e := page.Events[1]
	if e.ID != eventID(2) || e.Type != "order.placed" || e.Status != "pending" || e.State != operator.Due || e.Attempts != 3 || e.Code != "connectionError" ||
		e.Error != "HTTP 503 from n8n" || e.NextAttemptAt == nil || page.Now.Since(*e.NextAttemptAt).Round(1e9).Minutes() < 4.9 || e.AgeSeconds < 2390 || e.AgeSeconds > 2460 {
		t.Errorf("%+v", e)
	}
}

func TestListSortsNumbersAsNumbers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for n, attempts := range []string{"100", "9", "20"} {
		d.put(n+1, "delivery_status", "'failed'", "attempts", attempts)
	}
	if got := d.list(operator.List{Sort: "attempts", Limit: 1}); got != "2 | 3 | 1" {
		t.Error(got)
	}
}

// A filter that fits little is looked for in a bounded part of the table at a
// time; the cursor goes on behind it, and nothing is left out.
func TestAPageLooksAtABoundedPartOfTheTable(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`insert into outbox_events (event_id, event_type, occurred_at, payload_json, delivery_status)
		select ('00000000-0000-4000-9000-' || lpad(n::text, 12, '0'))::uuid, 'order.placed', now(), '{}', 'succeeded' from generate_series(1, 45000) n`)
	d.exec("update outbox_events set event_type = 'rare' where event_id in ('00000000-0000-4000-9000-000000000007', '00000000-0000-4000-9000-000000041000')")
	l := operator.List{Status: operator.Words{"succeeded"}, Limit: 20, Filter: operator.Filter{Type: "rare"}}
	if got := d.list(l); got != "7 |  | 41000" {
		t.Error(got)
	}
	note := func(l operator.List) string {
		r, err := (&operator.Operator{Store: d.store}).Do(t.Context(), &l)
		if err != nil {
			t.Fatal(err)
		}
		return r.(operator.Page).Note
	}
	if got := note(l); !strings.Contains(got, "looked at 20000 events") {
		t.Error(got)
	}

	d.exec("update outbox_events set delivery_status = 'failed', last_error_code = 'connectionError'")
	l.Status = operator.Words{"failed"}
	if got := note(l); !strings.Contains(got, "more than 20000 events are failed") {
		t.Error(got)
	}
	l.Code, l.Sort = "connectionError", "id" // which an index has
	if got := d.list(l); got != "7 |  | 41000" {
		t.Error(got)
	}
	l.Sort = "-id"
	if got := d.list(l); got != "41000 |  | 7" {
		t.Error(got)
	}
}

// A cursor names a place and no number, so that what changes before it shifts
// nothing behind it.
func TestACursorIsStable(t *testing.T) {
	t.Parallel()
	d := gallery(t)
	q := operator.Query{Status: []string{"failed"}, Sort: "due", Limit: 1}
	page, err := d.store.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	d.exec("delete from outbox_events where event_id = '" + eventID(9) + "'") // the one that was shown
	d.put(20, "delivery_status", "'failed'", "occurred_at", "now() - interval '2 day'")
	q.After, q.Limit = page.Next, 10
	if page, err = d.store.List(t.Context(), q); err != nil || len(page.Events) != 2 || page.Events[0].ID != eventID(11) {
		t.Errorf("%+v, %v", page.Events, err)
	}
}

func TestListOfTimesBeyondAllBounds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for n, at := range []string{"'-infinity'", "'4713-01-01 BC'", "now()", "'294276-01-01'", "'infinity'"} {
		d.put(n+1, "occurred_at", at, "delivery_status", "'failed'")
	}
	if got := d.list(operator.List{Sort: "occurred", Limit: 2}); got != "1 2 | 3 4 | 5" {
		t.Error(got)
	}
	if got := d.list(operator.List{Sort: "-due", Limit: 2}); got != "5 4 | 3 2 | 1" {
		t.Error(got)
	}
	d.exec("update outbox_events set delivery_status = 'pending'") // which is walked through, and not sorted
	for sort, want := range map[string]string{"due": "1 2 | 3 4 | 5", "-due": "5 4 | 3 2 | 1"} {
		if got := d.list(operator.List{Status: operator.Words{"pending"}, Sort: sort, Limit: 2}); got != want {
			t.Errorf("pending by %s: %s", sort, got)
		}
	}
}

func TestListOfJSONPayloads(t *testing.T) {
	t.Parallel()
	d := jsonDesk(t)
	d.put(1)
	if got := d.list(operator.List{Limit: 5, Filter: operator.Filter{Aggregate: "id=7"}}); got != "1" {
		t.Error(got)
	}
	d.put(2, "payload_json", `'{"a": "\u0000"}'`)
	if got := d.list(operator.List{Limit: 5}); got != "1 2" && got != "2 1" {
		t.Error(got)
	}
	_, err := d.store.List(t.Context(), operator.Query{Status: []string{"pending"}, Sort: "id", Limit: 5, Filter: operator.Filter{Aggregate: "id=7"}})
	if err == nil || !strings.Contains(err.Error(), "leave the aggregate out") {
		t.Errorf("error %v", err)
	}
}
