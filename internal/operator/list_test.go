package operator

import (
	"context"
	"strings"
	"testing"
)

// pages is a store that gives one page and keeps what it was asked.
type pages struct {
	Store
	page  Page
	asked Query
}

func (p *pages) List(_ context.Context, q Query) (Page, error) {
	p.asked = q
	return p.page, nil
}

func TestListAsksForWhatItIsAsked(t *testing.T) {
	t.Parallel()
	p := &pages{page: Page{Next: &Mark{Key: "2026-11-30 20:00:00+00", ID: someID}}}
	o := &Operator{Store: p}
	first := &List{Limit: 20, Filter: Filter{Code: "c"}}
	got, err := o.Do(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if q := p.asked; strings.Join(q.Status, " ") != "pending delivering failed" || q.Sort != "due" || q.Descending || q.After != nil || q.Filter != first.Filter {
		t.Errorf("asked %+v", q)
	}
	page := got.(Page)
	if page.Cursor == "" || page.Events == nil {
		t.Fatalf("page %+v", page)
	}

	next := &List{Limit: 5, Filter: Filter{Code: "c"}, Sort: "due", Cursor: page.Cursor} // the default by its name
	if _, err := o.Do(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if a := p.asked.After; a == nil || *a != *p.page.Next {
		t.Errorf("the second page begins at %+v", p.asked.After)
	}

	for name, other := range map[string]*List{
		"filter": {Limit: 20, Filter: Filter{Code: "d"}, Cursor: page.Cursor},
		"sort":   {Limit: 20, Filter: Filter{Code: "c"}, Sort: "-due", Cursor: page.Cursor},
		"status": {Limit: 20, Filter: Filter{Code: "c"}, Status: Words{"failed"}, Cursor: page.Cursor},
	} {
		_, err := o.Do(t.Context(), other)
		if err == nil || !strings.Contains(err.Error(), "cursor belongs to a list with another") {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

func TestListSortsTheRestByID(t *testing.T) {
	t.Parallel()
	p := &pages{}
	if _, err := (&Operator{Store: p}).Do(t.Context(), &List{Limit: 1, Status: Words{"succeeded", "failed", "succeeded"}}); err != nil {
		t.Fatal(err)
	}
	if strings.Join(p.asked.Status, " ") != "failed succeeded" || p.asked.Sort != "id" {
		t.Errorf("asked %+v", p.asked)
	}
}

func TestListDoubtsAStatusThatNobodyHas(t *testing.T) {
	t.Parallel()
	note := func(status string, events ...Event) string {
		got, err := (&Operator{Store: &pages{page: Page{Events: events}}}).Do(t.Context(), &List{Limit: 1, Status: Words{status}})
		if err != nil {
			t.Fatal(err)
		}
		return got.(Page).Note
	}
	if got := note("faild"); got != "faild is no status of the dispatcher's; a slip of the keyboard?" {
		t.Error(got)
	}
	for _, got := range []string{note("failed"), note("parked"), note("succeeded"), note("paused", Event{})} {
		if got != "" {
			t.Error(got)
		}
	}
}

func FuzzCursor(f *testing.F) {
	l := &List{Limit: 1}
	f.Add(l.cursor(Mark{Key: "k", ID: someID}))
	f.Add("e30")
	f.Fuzz(func(t *testing.T, cursor string) {
		l := &List{Limit: 1, Cursor: cursor}
		m, err := l.after()
		if err == nil && cursor != "" && (!uuid().MatchString(m.ID) || !storable(m.Key)) {
			t.Errorf("%q was taken as %+v", cursor, m)
		}
	})
}
