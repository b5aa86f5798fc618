package operator

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"outbox-dispatcher/internal/outbox"
)

// List asks for a page of events.
type List struct {
	// Status holds values of delivery_status, or states: due, later, suspect,
	// leased, expired, parked. Empty: pending, delivering and failed.
	Status Words `json:"status"`
	Filter
	// Sort is due (next_attempt_at, else occurred_at), occurred, attempts or id;
	// a minus in front turns it round. Empty: due; for statuses that only the
	// primary key finds, such as succeeded, id.
	Sort   string `json:"sort"`
	Limit  int    `json:"limit"`
	Cursor string `json:"cursor"` // of the page before; the rest must be the same
}

// Sorts are the orders that a list can have.
var Sorts = []string{"due", "occurred", "attempts", "id"}

// States are the words for Status beside the values of delivery_status.
var States = []string{string(Due), string(Later), string(Suspect), string(Leased), string(Expired), string(Parked)}

const (
	// defaultList fills a screen.
	defaultList = 20
	// maxList of events, with errors of 2,000 characters each, stay below the
	// 6 MB that a Lambda may return.
	maxList = 1000
)

// Action is list.
func (*List) Action() string { return "list" }

func (l *List) check() error {
	if err := between("limit", l.Limit, 1, maxList); err != nil {
		return err
	}
	for i, word := range l.Status {
		l.Status[i] = strings.TrimSpace(word)
		if l.Status[i] == "" || !storable(word) {
			return usage("status must be words such as failed,pending")
		}
	}
	if !slices.Contains(Sorts, strings.TrimPrefix(l.sort(), "-")) {
		return usage("sort must be one of %s, with a minus in front to turn it round", strings.Join(Sorts, ", "))
	}
	if strings.TrimPrefix(l.sort(), "-") != "id" && l.others() {
		return usage("events in %s can only be sorted by id: no index holds them in another order", strings.Join(l.statuses(), ", "))
	}
	if err := l.Filter.check(); err != nil {
		return err
	}
	_, err := l.after()
	return err
}

func (l *List) do(ctx context.Context, o *Operator) (any, error) {
	after, err := l.after()
	if err != nil {
		return nil, err
	}
	sort, desc := strings.CutPrefix(l.sort(), "-")
	page, err := o.Store.List(ctx, Query{
		Status: l.statuses(), Filter: l.Filter, Sort: sort, Descending: desc, Limit: l.Limit, After: after,
	})
	if err != nil {
		return nil, err
	}
	if page.Next != nil {
		page.Cursor = l.cursor(*page.Next)
	}
	if page.Events == nil {
		page.Events = []Event{}
	}
	if strange := l.strange(); len(page.Events) == 0 && page.Note == "" && strange != "" {
		page.Note = fmt.Sprintf("%s is no status of the dispatcher's; a slip of the keyboard?", strange)
	}
	return page, nil
}

// strange returns a status that somebody else must have made up, if there is one.
func (l *List) strange() string {
	for _, word := range l.statuses() {
		if !Indexed(word) && word != string(outbox.Succeeded) {
			return word
		}
	}
	return ""
}

// statuses returns what to look through, each once.
func (l *List) statuses() []string {
	if len(l.Status) == 0 {
		return []string{string(outbox.Pending), string(outbox.Delivering), string(outbox.Failed)}
	}
	words := slices.Clone([]string(l.Status))
	slices.Sort(words)
	return slices.Compact(words)
}

// others reports whether a status is asked for that our indexes do not hold.
func (l *List) others() bool {
	return slices.ContainsFunc(l.statuses(), func(word string) bool { return !Indexed(word) })
}

// Indexed reports whether our partial indexes hold the events of a status or
// state.
func Indexed(word string) bool {
	switch outbox.Status(word) {
	case outbox.Pending, outbox.Delivering, outbox.Failed:
		return true
	}
	return slices.Contains(States, word)
}

func (l *List) sort() string {
	switch {
	case l.Sort != "":
		return l.Sort
	case l.others():
		return "id"
	}
	return "due"
}

// Query is a list as the store takes it.
type Query struct {
	Status     []string // values of delivery_status or states
	Filter     Filter
	Sort       string // one of Sorts
	Descending bool
	Limit      int
	After      *Mark // where the page begins; nil: at the start
}

// Mark is a place in an order: the value that is sorted by, as the database
// writes it, and the event_id that tells equal ones apart.
type Mark struct {
	Key string `json:"k"` // empty when sorted by id
	ID  string `json:"i"`
}

// Page of events.
type Page struct {
	Events []Event `json:"events"`
	// Cursor asks for the next page; empty: this was the last. A page may be
	// short, or empty, and yet not the last: a filter is looked for in a bounded
	// part of the table at a time.
	Cursor string `json:"cursor,omitempty"`
	// Note says what bounded the page, if something did.
	Note string  `json:"note,omitempty"`
	Now  Instant `json:"now"`
	Next *Mark   `json:"-"`
}

// cursorForm is what a cursor holds: a place, and for what list it was made.
type cursorForm struct {
	Mark
	List string `json:"l"`
}

func (l *List) cursor(m Mark) string {
	b, _ := json.Marshal(cursorForm{m, l.fingerprint()}) // texts always can be
	return base64.RawURLEncoding.EncodeToString(b)
}

func (l *List) after() (*Mark, error) {
	if l.Cursor == "" {
		return nil, nil
	}
	wrong := usage("cursor is not one that a list has returned")
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(l.Cursor))
	if err != nil {
		return nil, wrong
	}
	var c cursorForm
	if json.Unmarshal(b, &c) != nil || !uuid().MatchString(c.ID) || !storable(c.Key) {
		return nil, wrong
	}
	if c.List != l.fingerprint() {
		return nil, usage("cursor belongs to a list with another status, filter or sort; give the same as for the page before")
	}
	return &c.Mark, nil
}

// fingerprint tells lists with another order or other events apart.
func (l *List) fingerprint() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", l.statuses(), l.sort(), fmt.Sprintf("%#v", l.Filter)))
	return hex.EncodeToString(sum[:6])
}
