package main

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"outbox-dispatcher/internal/outbox"
)

// actAsDemo lets the test binary be the demo in place of running tests.
const actAsDemo = "DEMO_TEST_ACT"

func TestMain(m *testing.M) {
	if os.Getenv(actAsDemo) != "" {
		main()
	}
	os.Exit(m.Run())
}

// ends is how each kind of sample ends, and after how many attempts at least and
// at most: a retry may find its place in one invocation or in the next.
var ends = map[string]struct {
	status      outbox.Status
	least, most string
	code        outbox.Code
}{
	"a good one":                  {outbox.Succeeded, "1", "1", ""},
	"busy at first, then taken":   {outbox.Succeeded, "2", "2", ""},
	"refused by the workflow":     {outbox.Pending, "2", "4", outbox.RemoteReportedFailure},
	"the workflow crashes":        {outbox.Pending, "2", "4", outbox.ConnectionError},
	"answered with a web page":    {outbox.Pending, "2", "4", outbox.MalformedResponse},
	"answered with another id":    {outbox.Pending, "2", "4", outbox.MismatchedEventID},
	"never answered":              {outbox.Pending, "2", "4", outbox.ConnectionError},
	"payload is an array":         {outbox.Pending, "2", "4", outbox.MalformedPayload},
	"payload has no aggregate":    {outbox.Pending, "2", "4", outbox.MalformedPayload},
	"refused at its last attempt": {outbox.Failed, "5", "5", outbox.RemoteReportedFailure},
	"its worker died":             {outbox.Succeeded, "1", "1", ""},
	"its worker died twice":       {outbox.Succeeded, "1", "1", ""},
	"its worker died five times":  {outbox.Failed, "0", "0", outbox.LeaseLostRepeatedly},
	"another worker is at it":     {outbox.Delivering, "0", "0", ""},
	"parked by a person":          {outbox.Delivering, "0", "0", ""},
	"due in 5 s":                  {outbox.Succeeded, "1", "1", ""},
	"due in an hour":              {outbox.Pending, "0", "0", ""},
	"delivered before":            {outbox.Succeeded, "1", "1", ""},
	"another program's status":    {"paused", "0", "0", ""},
}

// event is a line of the table on the screen.
var event = regexp.MustCompile(`(?m)^([0-9a-f]{8})  (\S+) +(.+?)  +(\w+) +(\d+)  (\w+) +(\d+)(?:  (\w+)?.*)?$`)

// checkEvents compares the table on the screen with what each sample is for.
func checkEvents(t *testing.T, screen string) {
	t.Helper()
	lines := event.FindAllStringSubmatch(screen, -1)
	if len(lines) != len(samples()) {
		t.Errorf("%d events are shown, of %d", len(lines), len(samples()))
	}
	for _, l := range lines {
		shows, status, attempts, code := l[3], l[6], l[7], l[8]
		want, known := ends[shows]
		if !known || status != string(want.status) || attempts < want.least || attempts > want.most || code != string(want.code) {
			t.Errorf("%q ended as %s after %s attempts with the code %q, want %+v", shows, status, attempts, code, want)
		}
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	// Two whole demos run while others are interrupted: they mostly wait.
	whole := startDemo(t, "PGHOST=database.invalid", "PGSERVICE=unknown") // meant for another server
	const token = "the-token-of-the-test"
	yours, err := startStandIn(token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = yours.server.Close() })
	url := startPostgres(t)
	elsewhere := startDemo(t, "DATABASE_URL="+url, "OUTBOX_TABLE=billing_events", "N8N_WEBHOOK_TRIGGER_TOKEN="+token,
		"N8N_WEBHOOK_URL=http://"+yours.listener.Addr().String()+webhookPath)

	for _, c := range []struct {
		name   string
		signal syscall.Signal
		when   string // it has printed this
	}{
		{"InterruptedWhileItBuilds", syscall.SIGINT, "using Postgres"},
		{"KilledWhileItBuilds", syscall.SIGKILL, "using Postgres"},
		{"InterruptedBetweenInvocations", syscall.SIGINT, "infra/events/schedule.json"},
		{"KilledBetweenInvocations", syscall.SIGKILL, "infra/events/schedule.json"},
	} {
		t.Run(c.name+"LeavesNothing", func(t *testing.T) {
			p := startDemo(t)
			p.await(t, c.when)
			if err := p.cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			status := p.end(t, 20*time.Second)
			if c.signal == syscall.SIGKILL { // others clean up in its place
				for deadline := time.Now().Add(20 * time.Second); len(p.left(t)) > 0 && time.Now().Before(deadline); {
					time.Sleep(20 * time.Millisecond)
				}
			} else if status != 130 {
				t.Errorf("exit status %d, want 130:\n%s", status, p.output.String())
			}
			p.leavesNothing(t)
		})
	}

	t.Run("ShowsEveryKindOfEventAndLeavesNothing", func(t *testing.T) {
		screen := whole.succeeds(t)
		checkEvents(t, screen)
		for _, want := range []string{"acknowledged 16", "1 for the last time", "16 events were acknowledged, 0 of them more than once", "1 paused"} {
			if !strings.Contains(screen, want) {
				t.Errorf("it does not say %q", want)
			}
		}
		for line := range strings.Lines(screen) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > screenWidth {
				t.Errorf("the line is too long: %s", line)
			}
		}
		if strings.Contains(screen, "\x1b") {
			t.Error("there are colours, and no terminal")
		}
		if t.Failed() {
			t.Log(screen)
		}
	})

	t.Run("UsesTheDatabaseAndTheN8NOfTheEnvironment", func(t *testing.T) {
		screen := elsewhere.succeeds(t)
		checkEvents(t, screen)
		if strings.Contains(screen, token) || strings.Contains(screen, webhookPath) {
			t.Errorf("it shows the token or the path of the webhook:\n%s", screen)
		}
		if _, acknowledged, doubles := yours.counts(); acknowledged != 16 || doubles != 0 {
			t.Errorf("n8n acknowledged %d events, %d of them twice, want 16 and 0", acknowledged, doubles)
		}
		// The samples stay, to be looked at.
		table := openTable(t, given{databaseURL: url, table: "billing_events"})
		if n := number(t, table, "select count(*) from billing_events where delivery_status = 'succeeded'"); n != 17 {
			t.Errorf("%d rows succeeded in the table, want 17", n)
		}
	})
}
