package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
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

// commandLine finds the commands that a text names: "go run ./functions/operator
// ..." where it stands, and `operator ...` in backquotes.
var commandLine = regexp.MustCompile("(?m)go run \\./functions/operator([^\n`#|]*)|`operator ([^`\n]*)`")

// payloads finds the events that the commands of the template send to the
// function: what follows --payload, where the function is named shortly before.
func payloads(text string) (events []string) {
	for rest := text; ; {
		before, after, ok := strings.Cut(rest, "--payload '")
		if !ok {
			return events
		}
		event, tail, _ := strings.Cut(after, "'")
		if strings.Contains(before[max(len(before)-200, 0):], "OperatorFunction") {
			events = append(events, event)
		}
		rest = tail
	}
}

var word = regexp.MustCompile(`"([^"]*)"|'([^']*)'|\S+`)

// words splits a command line as a shell does, as far as documents need it.
func words(line string) (words []string) {
	for _, m := range word.FindAllStringSubmatch(line, -1) {
		switch {
		case m[1] != "":
			words = append(words, m[1])
		case m[2] != "":
			words = append(words, m[2])
		default:
			words = append(words, m[0])
		}
	}
	return words
}

// Every command that a runbook, the README, the template or a message of the
// program names is one that exists, with these flags and values.
func TestCommandsThatDocumentsNameExist(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"../../README.md", "../../infra/runbooks/*.md", "../../template.yaml", "../../infra/*.yaml", "../../infra/*.sql",
		"../../internal/*/*.go", "../../internal/operator/*/*.go", "../../functions/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	commands, runbooks := 0, map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandsIn(string(text)) {
			commands++
			if strings.Contains(file, "runbooks") {
				runbooks[filepath.Base(file)] = true
			}
			checkLine(t, file, line)
		}
		for _, event := range payloads(string(text)) {
			commands++
			if _, err := operator.ParseRequest([]byte(event)); err != nil {
				t.Errorf("%s names %s: %v", file, event, err)
			}
		}
	}
	if all, _ := filepath.Glob("../../infra/runbooks/*.md"); len(runbooks) != len(all) {
		t.Errorf("of %d runbooks only %d end in a command: %v", len(all), len(runbooks), runbooks)
	}
	if commands < 15 {
		t.Errorf("only %d commands were found", commands)
	}
}

// commandsIn lists the command lines of a text, without the name of the program.
func commandsIn(text string) (lines []string) {
	for source := range strings.Lines(text) {
		if !strings.Contains(source, "operator ") { // most lines; a pattern is slow
			continue
		}
		for _, m := range commandLine.FindAllStringSubmatch(source, -1) {
			line, _, _ := strings.Cut(strings.TrimSpace(m[1]+m[2]), "  ") // what follows explains it
			if line = strings.TrimRight(line, ".,;:)\\ "); line != "" && !strings.HasPrefix(line, "-- ") {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// placeholder stands for an id in a document.
var placeholder = regexp.MustCompile(`^(ID|\$[A-Z_]+|<.*>|\[ID.*\])$`)

func checkLine(t *testing.T, file, line string) {
	t.Helper()
	args := words(line)
	for i, a := range args {
		if placeholder.MatchString(a) {
			args[i] = "00000000-0000-4000-8000-000000000001"
		}
	}
	switch args[0] {
	case "--help", "help", "completion":
		return
	}
	if _, err := parse(args); err != nil {
		t.Errorf("%s names `operator %s`: %v", file, line, err)
	}
}

// Each event for the console is one that the function takes.
func TestEventsOfTheOperatorAreTaken(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("../../infra/events/operator-*.json")
	if len(files) == 0 {
		t.Fatal("there are no events")
	}
	actions := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := operator.ParseRequest(text)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		actions[r.Action()] = true
		if !json.Valid(text) {
			t.Errorf("%s is no JSON", file)
		}
	}
	for _, a := range operator.Actions() {
		if !actions[a] {
			t.Errorf("no event shows %s", a)
		}
	}
}
