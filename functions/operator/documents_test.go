package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// commandLine finds the commands that a text names: "go run ./functions/operator
// ..." where it stands, and `operator ...` in backquotes.
var commandLine = regexp.MustCompile("(?m)go run \\./functions/operator([^\n`#|]*)|`operator ([^`\n]*)`")

// payloads finds the events that commands send to the function: what follows
// --payload, where the function is named shortly before or an action is asked for.
func payloads(text string) (events []string) {
	for rest := text; ; {
		before, after, ok := strings.Cut(rest, "--payload '")
		if !ok {
			return events
		}
		event, tail, _ := strings.Cut(after, "'")
		if strings.Contains(before[max(len(before)-200, 0):], "OperatorFunction") || strings.Contains(event, `"action"`) {
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

// continued is the end of a line that goes on in the next one.
var continued = regexp.MustCompile(`\s*\\\n\s*`)

// commandsIn lists the command lines of a text, without the name of the program.
func commandsIn(text string) (lines []string) {
	text = continued.ReplaceAllString(text, " ")
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

func checkLine(t *testing.T, file, line string) {
	t.Helper()
	args := arguments(line)
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

// placeholder stands for a value in a document, and standIns for placeholders
// behind a flag. Everywhere else it is an id.
var (
	placeholder = regexp.MustCompile(`^(ID|\$\{?[A-Z_]+\}?|<.*>|\[ID.*\])$`)
	inBrackets  = regexp.MustCompile(`<[^<>]*>`)
	anyID       = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	standIns    = map[string]string{"--code": "connectionError", "--type": "order.placed", "--older-than-days": "30", "--aggregate": "id=7", "--reason": "why", "--role": "postgres"}
)

// arguments splits a command line of a document and puts values for its
// placeholders: an event that suits the action.
func arguments(line string) []string {
	args := words(inBrackets.ReplaceAllString(line, "<>"))
	for i, a := range args {
		value := subject(args[0])
		if i > 0 && standIns[args[i-1]] != "" {
			value = standIns[args[i-1]]
		}
		if placeholder.MatchString(a) {
			args[i] = value
		}
		args[i] = anyID.ReplaceAllString(args[i], value)
	}
	return args
}

// subject is an event of the busy table that an action can do something with.
func subject(action string) string {
	switch action {
	case "cancel":
		return eventID(1)
	case "reclaim":
		return eventID(8)
	}
	return eventID(4)
}

// busy is a table with events in every state, some for each action to change and
// some for it to leave alone, and an n8n to ask.
func busy(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	server := n8ntest.New(t)
	server.RequireToken("token")
	b.env["N8N_WEBHOOK_URL"], b.env["N8N_WEBHOOK_TRIGGER_TOKEN"] = server.URL(), "token"
	b.terminal, b.answer = true, "yes\n"
	b.put(1, "pending")
	b.put(2, "pending", "attempts", "2", "next_attempt_at", "now() + interval '1 min'", "last_error_code", "'connectionError'")
	b.put(3, "pending", "lost_leases", "2")
	b.put(4, "failed", "attempts", "100", "last_error_code", "'connectionError'", "last_error", "'HTTP 503'")
	b.put(5, "failed", "attempts", "100", "last_error_code", "'malformedPayload'")
	b.put(6, "delivering", "next_attempt_at", "now() + interval '1 min'")
	b.put(7, "delivering", "next_attempt_at", "now() - interval '1 min'")
	b.put(8, "delivering")
	b.put(9, "succeeded", "occurred_at", "now() - interval '40 days'")
	b.put(10, "succeeded")
	b.put(11, "failed", "attempts", "100", "last_error_code", "'connectionError'", "occurred_at", "now() - interval '40 days'")
	b.put(12, "paused")
	return b
}

// image is the whole database as far as an operator may change it.
func (b *bench) image() map[string]string {
	b.t.Helper()
	var rows map[string]string
	const sql = "select json_object_agg(event_id, t::text) from outbox_events t"
	if err := json.Unmarshal([]byte(b.value(sql)), &rows); err != nil {
		b.t.Fatal(err)
	}
	rows["control"] = b.value("select t::text from outbox_events_control t")
	return rows
}

// changes lists what of two images is not the same: numbers of events, and
// "control".
func changes(before, after map[string]string) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if before[name] != after[name] {
			names = append(names, strings.TrimLeft(name[strings.LastIndex(name, "-")+1:], "0"))
		}
	}
	return strings.Join(names, " ")
}

// allowed is what each action may change of the busy table, at most; what changes
// something must change something of it.
var allowed = map[string]string{
	"replay": "4 5 11", "cancel": "1 2 3", "reclaim": "6 7 8", "prune": "9", "pause": "control", "resume": "control",
}

// check compares an image of the table before a command with what is there now.
func (b *bench) check(before map[string]string, action string, dry bool) {
	b.t.Helper()
	changed := changes(before, b.image())
	may := allowed[action]
	if dry {
		may = ""
	}
	for _, name := range strings.Fields(changed) {
		if !slices.Contains(strings.Fields(may), name) {
			b.t.Errorf("it changed event %s, which is not %s's to change", name, action)
		}
	}
	if may != "" && changed == "" {
		b.t.Errorf("%s changed nothing", action)
	}
}

// documents that people follow.
var documents = []string{"../../README.md", "../../infra/runbooks/*.md", "../../infra/n8n/README.md"}

// inline finds an action with its arguments alone in backquotes, such as `show
// ID`; eventText an event for the function, wherever it stands.
var (
	inline    = regexp.MustCompile("`((?:" + strings.Join(operator.Actions(), "|") + ") [^`\n]+)`")
	eventText = regexp.MustCompile(`\{"action": ?"[a-z][^{}\n]*\}`)
)

// found returns each command line and each event that people are told to use, and
// the files that name it.
func found(t *testing.T) (lines, events map[string][]string) {
	t.Helper()
	lines, events = map[string][]string{}, map[string][]string{}
	note := func(to map[string][]string, file string, texts ...string) {
		for _, text := range texts {
			if text != "" && !slices.Contains(to[text], file) {
				to[text] = append(to[text], file)
			}
		}
	}
	for _, pattern := range append(documents, "../../template.yaml", "../../infra/*.yaml", "../../infra/events/operator-*.json") {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", pattern, err, len(files))
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, name := string(raw), strings.TrimPrefix(file, "../../")
			if strings.HasSuffix(file, ".json") {
				note(events, name, strings.TrimSpace(text))
				continue
			}
			note(lines, name, commandsIn(text)...)
			note(events, name, payloads(text)...)
			for _, m := range inline.FindAllStringSubmatch(text, -1) {
				note(lines, name, m[1])
			}
			note(events, name, eventText.FindAllString(text, -1)...)
		}
	}
	return lines, events
}

// Every command that the runbooks, the README and the stack's outputs name does
// what it is for, on a table with events in every state: it ends with status 0 and
// changes what it may change and nothing else.
func TestCommandsThatDocumentsNameRun(t *testing.T) {
	t.Parallel()
	lines, events := found(t)
	if len(lines) < 10 || len(events) < 10 {
		t.Errorf("only %d command lines and %d events were found", len(lines), len(events))
	}
	for line, files := range lines {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			args := arguments(line)
			b := busy(t)
			if args[0] == "resume" {
				b.run("pause")
			}
			before := b.image()
			if o := b.run(args...); o.code != exitOK {
				t.Errorf("%v: operator %q ends with status %d\n%s%s", files, args, o.code, o.out, o.err)
			}
			b.check(before, args[0], slices.Contains(args, "--dry-run"))
		})
	}
	for event, files := range events {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			r, err := operator.ParseRequest([]byte(event))
			if err != nil {
				t.Fatalf("%v: %v", files, err)
			}
			b := busy(t)
			if r.Action() == "resume" {
				b.run("pause")
			}
			before := b.image()
			answer, _, err := b.invoke(anyID.ReplaceAllString(event, subject(r.Action())))
			if err != nil || strings.Contains(answer, `"ok":false`) || strings.Contains(answer, `"skipped"`) {
				t.Errorf("%v: %s, %v", files, answer, err)
			}
			b.check(before, r.Action(), strings.Contains(fmt.Sprintf("%+v", r), "DryRun:true"))
		})
	}
}
