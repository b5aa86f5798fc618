package main

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"outbox-dispatcher/internal/operator"
)

var errParsed = errors.New("parsed")

// parse parses a command line and returns the request that it means. Nothing is
// done.
func parse(args []string) (r operator.Request, err error) {
	term := newTerminal(strings.NewReader(""), io.Discard, io.Discard, func(string) (string, bool) { return "", false }, func(string) string { return "" })
	term.do = func(_ context.Context, asked operator.Request) (any, error) {
		r = asked
		return nil, errParsed
	}
	root := term.root()
	root.SetArgs(args)
	if err := root.Execute(); err != nil && !errors.Is(err, errParsed) {
		return nil, err
	}
	return r, nil
}

// A flag is a member with dashes, and every member has its flag.
func TestFlagsAndMembersAreTheSame(t *testing.T) {
	t.Parallel()
	term := newTerminal(strings.NewReader(""), io.Discard, io.Discard, nil, func(string) string { return "" })
	commands := map[string]*cobra.Command{}
	for _, c := range term.root().Commands() {
		commands[c.Name()] = c
	}
	for _, action := range operator.Actions() {
		c := commands[action]
		if c == nil {
			t.Errorf("there is no command %s", action)
			continue
		}
		var flags, members []string
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		for _, m := range operator.Members(operator.New(action)) {
			members = append(members, strings.ReplaceAll(m, "_", "-"))
		}
		slices.Sort(flags)
		slices.Sort(members)
		flags = slices.DeleteFunc(flags, func(f string) bool { return f == "help" })
		if !slices.Equal(flags, members) {
			t.Errorf("%s has the flags %v and the members %v", action, flags, members)
		}
	}
}

// The same request by flags and by members.
func TestACommandLineMeansWhatItsEventMeans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, event string }{
		{"status", `{"action": "status"}`},
		{"list --status failed,due --code c --type t --aggregate id=7 --text x --older-than 1d --newer-than 2d --due-for 5m --sort -due --limit 3 --cursor abc",
			`{"action": "list", "status": ["failed", "due"], "code": "c", "type": "t", "aggregate": "id=7", "text": "x", "older_than": "1d", "newer_than": "48h", "due_for": "300s", "sort": "-due", "limit": 3, "cursor": "abc"}`},
		{"show ID --payload", `{"action": "show", "id": "ID", "payload": true}`},
		{"replay A B --rate 2.5 --limit 9 --dry-run --yes", `{"action": "replay", "ids": ["A", "B"], "rate": 2.5, "limit": 9, "dry_run": true, "yes": true}`},
		{"replay --all", `{"action": "replay", "all": true}`},
		{"cancel --status due,suspect --reason why", `{"action": "cancel", "status": "due,suspect", "reason": "why"}`},
		{"cancel A --as code --reason why -y", `{"action": "cancel", "ids": ["A"], "as": "code", "reason": "why", "yes": true}`},
		{"reclaim A --force", `{"action": "reclaim", "id": "A", "force": true}`},
		{"prune --older-than-days 30 --failed --limit 5 --batch 10 --pause 1s --dry-run", `{"action": "prune", "older_than_days": 30, "failed": true, "limit": 5, "batch": 10, "pause": "1s", "dry_run": true}`},
		{"pause --reason why", `{"action": "pause", "reason": "why"}`},
		{"resume", `{"action": "resume"}`},
		{"migrate", `{"action": "migrate"}`},
		{"doctor --post --role r", `{"action": "doctor", "post": true, "role": "r"}`},
	} {
		got, err := parse(strings.Fields(c.args))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		want, err := operator.ParseRequest([]byte(c.event))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s means\n%+v\n%s means\n%+v, %v", c.args, got, c.event, want, err)
		}
	}
}
