package operator

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Filter chooses events; what is empty does not count, the rest must all fit.
type Filter struct {
	Code      string   `json:"code"`       // last_error_code, exactly
	Type      string   `json:"type"`       // event_type, exactly
	Aggregate string   `json:"aggregate"`  // the payload's aggregate: KEY=VALUE, a plain value, or JSON that it must contain
	Text      string   `json:"text"`       // a piece of last_error; upper and lower case are the same
	OlderThan Duration `json:"older_than"` // occurred_at is at least so long ago
	NewerThan Duration `json:"newer_than"` // occurred_at is less long ago
	DueFor    Duration `json:"due_for"`    // pending, and due for at least so long
}

func (f Filter) check() error {
	for name, text := range map[string]string{"code": f.Code, "type": f.Type, "text": f.Text, "aggregate": f.Aggregate} {
		if !storable(text) {
			return usage("%s must be text in UTF-8 without NUL", name)
		}
	}
	_, err := f.Aggregates()
	return err
}

// storable reports whether Postgres can hold a text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// Aggregates returns JSON of which the payload's aggregate must contain one, in
// the sense of the operator @> of jsonb. Nil: any aggregate will do. A value that
// reads as a number, true, false or null is looked for as such and as a text.
func (f Filter) Aggregates() ([]string, error) {
	text := strings.TrimSpace(f.Aggregate)
	if text == "" {
		return nil, nil
	}
	if strings.ContainsRune(`{["`, rune(text[0])) {
		if !json.Valid([]byte(text)) {
			return nil, usage("aggregate must be KEY=VALUE, a plain value, or valid JSON")
		}
		return []string{text}, nil
	}
	key, value, pair := strings.Cut(text, "=")
	if !pair {
		key, value = "", text
	}
	var documents []string
	for _, v := range forms(value) {
		if pair {
			v = "{" + quoteJSON(key) + ":" + v + "}"
		}
		documents = append(documents, v)
	}
	return documents, nil
}

// forms a value can have in JSON.
func forms(value string) []string {
	forms := []string{quoteJSON(value)}
	if value != "" && !strings.ContainsRune(`{["`, rune(value[0])) && json.Valid([]byte(value)) {
		forms = append(forms, value)
	}
	return forms
}

func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // a string always can be
	return string(b)
}

// words tells the filter in words, to follow "failed events".
func (f Filter) words() string {
	var w []string
	add := func(format string, value any, given bool) {
		if given {
			w = append(w, fmt.Sprintf(format, value))
		}
	}
	add("of code %s", f.Code, f.Code != "")
	add("of type %s", f.Type, f.Type != "")
	add("of aggregate %s", f.Aggregate, f.Aggregate != "")
	add("whose error holds %q", f.Text, f.Text != "")
	add("older than %s", f.OlderThan, f.OlderThan != 0)
	add("newer than %s", f.NewerThan, f.NewerThan != 0)
	add("due for %s", f.DueFor, f.DueFor != 0)
	return strings.Join(w, ", ")
}

// Choice names the events to change: by their ids, by a filter, or all of them.
// To leave out all three is refused: a forgotten filter must not choose all.
type Choice struct {
	ID  string   `json:"id"`
	IDs []string `json:"ids"`
	All bool     `json:"all"`
	// Status narrows what the action is for: replay takes failed; cancel takes
	// pending, due, later and suspect.
	Status Words `json:"status"`
	Filter
}

// ids returns the ids given, each once, in the form of the database.
func (c Choice) ids() ([]string, error) {
	var ids []string
	seen := map[string]bool{}
	for _, given := range append([]string{c.ID}, c.IDs...) {
		if given == "" {
			continue
		}
		id, err := eventID(given)
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// open reports that neither a filter nor a status narrows the choice.
func (c Choice) open() bool { return c.Filter == Filter{} && len(c.Status) == 0 }

// words of Status, or the one that the action is for.
func (c Choice) statuses(all string) []string {
	var words []string
	for _, word := range c.Status {
		words = append(words, strings.TrimSpace(word))
	}
	if len(words) == 0 || slices.Contains(words, all) {
		return []string{all}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// named reports whether events are named one by one.
func (c Choice) named() bool { return c.ID != "" || len(c.IDs) > 0 }

// check takes the words for Status that the action is for.
func (c Choice) check(allowed ...string) error {
	for _, word := range c.Status {
		if !slices.Contains(allowed, strings.TrimSpace(word)) {
			return usage("status can only be %s here", strings.Join(allowed, ", "))
		}
	}
	ids, err := c.ids()
	switch {
	case err != nil:
		return err
	case len(ids) > maxIDs:
		return usage("at most %d ids can be given at once", maxIDs)
	case len(ids) > 0 && !c.open():
		return usage("give ids or a filter, not both")
	case len(ids) > 0 && c.All:
		return usage("give ids or all, not both")
	case len(ids) == 0 && c.open() && !c.All:
		return usage("say which events: ids, a filter such as a code, or all")
	}
	return c.Filter.check()
}

var uuid = sync.OnceValue(func() *regexp.Regexp { // made on need: it would be a part of every cold start
	return regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
})

// eventID reads an id as people copy it.
func eventID(given string) (string, error) {
	id := strings.ToLower(strings.Trim(strings.TrimSpace(given), `{}"'`))
	if !uuid().MatchString(id) {
		return "", usage("%q is no event id, such as 7f1c2a34-0000-4000-8000-000000000001", given)
	}
	return id, nil
}

const (
	// maxIDs given one by one.
	maxIDs = 10_000
	// defaultChange bounds what a filter changes if nobody says how many: so many
	// are looked through at once, and n8n has them in less than a minute.
	defaultChange = 100
	// maxChange bounds one action. Their ids are held in memory, some 20 MB.
	maxChange = 100_000
)
