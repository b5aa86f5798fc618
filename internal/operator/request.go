package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// UsageError says what is wrong with a request. Nothing was done.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

func usage(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// Request is one action with its members. The members of the Lambda's event are
// its fields by their JSON names; the flags of the command line are the same
// with dashes. New makes one with the defaults.
type Request interface {
	// Action is its name.
	Action() string
	// check returns a *UsageError if it cannot be meant so.
	check() error
	do(ctx context.Context, o *Operator) (any, error)
}

// requests in the order of the help.
var requests = []func() Request{
	func() Request { return &Status{} },
	func() Request { return &List{Limit: defaultList} },
	func() Request { return &Show{} },
	func() Request { return &Replay{Limit: defaultChange, Rate: DefaultRate} },
	func() Request { return &Cancel{Limit: defaultChange, As: DefaultCancelCode} },
	func() Request { return &Reclaim{Limit: maxChange} },
	func() Request { return &Prune{Batch: defaultBatch, Pause: Duration(defaultPause)} },
	func() Request { return &Pause{} },
	func() Request { return &Resume{} },
	func() Request { return &Migrate{} },
	func() Request { return &Doctor{} },
}

// New returns the request of that name with its defaults, or nil.
func New(action string) Request {
	for _, make := range requests {
		if r := make(); r.Action() == action {
			return r
		}
	}
	return nil
}

// Actions lists the names, in the order of the help.
func Actions() []string {
	var names []string
	for _, make := range requests {
		names = append(names, make().Action())
	}
	return names
}

// ParseRequest reads the event of a Lambda: {"action": "...", ...}. An error is a
// *UsageError that names the member.
func ParseRequest(event []byte) (Request, error) {
	const example = `such as {"action": "status"}`
	given, err := object(event)
	if err != nil {
		return nil, usage("event: it must be a JSON object, %s", example)
	}
	raw, there := given["action"]
	if !there {
		return nil, usage("event: the member action is missing, %s; known are %s", example, strings.Join(Actions(), ", "))
	}
	var action string
	if err := json.Unmarshal(raw, &action); err != nil {
		return nil, usage("event: action must be a text, %s", example)
	}
	r := New(action)
	if r == nil {
		return nil, usage("event: unknown action %q; known are %s", action, strings.Join(Actions(), ", "))
	}
	delete(given, "action")
	members, names := membersOf(r), Members(r)
	for _, name := range sortedKeys(given) {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, usage("event: unknown member %q of %s; known are %s", name, action, strings.Join(append([]string{"action"}, names...), ", "))
		}
		if err := decode(given[name], members[i].to); err != nil {
			return nil, usage("event: %s of %s %v", name, action, err)
		}
	}
	return r, nil
}

// object reads one JSON object. Of a member that is there twice the last counts.
func object(text []byte) (members map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	if members == nil {
		return nil, errors.New("null")
	}
	return members, nil
}

// Members lists the names of the members of a request.
func Members(r Request) (names []string) {
	for _, m := range membersOf(r) {
		names = append(names, m.name)
	}
	return names
}

// member of a request, and where its value goes.
type member struct {
	name string
	to   any
}

// membersOf lists the members of a request, those of embedded structs included.
func membersOf(r Request) (members []member) {
	v := reflect.ValueOf(r).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name := f.Tag.Get("json"); name != "" && !f.Anonymous {
			members = append(members, member{name, v.FieldByIndex(f.Index).Addr().Interface()})
		}
	}
	return members
}

// decode puts a value into a member, or says what the member must be.
func decode(raw json.RawMessage, to any) error {
	if string(bytes.TrimSpace(raw)) != "null" {
		err := json.Unmarshal(raw, to)
		if err == nil {
			return nil
		}
		var own *memberError
		if errors.As(err, &own) {
			return own
		}
	}
	switch to.(type) {
	case *bool:
		return errors.New("must be true or false")
	case *int:
		return errors.New("must be a whole number")
	case *float64:
		return errors.New("must be a number")
	case *[]string:
		return errors.New("must be a list of texts")
	}
	return errors.New("must be a text")
}

// memberError is what a member with a form of its own says of a wrong value.
type memberError struct{ text string }

func (e *memberError) Error() string { return e.text }

// Words is a list of words: separated by commas, or a JSON array.
type Words []string

// UnmarshalJSON reads "a,b" and ["a", "b"].
func (w *Words) UnmarshalJSON(raw []byte) error {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		*w = list
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return &memberError{"must be a text such as failed,pending, or a list of texts"}
	}
	*w = strings.Split(text, ",")
	return nil
}

// between checks a number.
func between(name string, n, lowest, highest int) error {
	if n < lowest || n > highest {
		return usage("%s must be a whole number from %d to %d", name, lowest, highest)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
