package outbox_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"outbox-dispatcher/internal/outbox"
)

// The statuses that are an event's own fault; every other one is the endpoint's.
// Written down apart from the table, so that no slip in it goes unnoticed.
func TestJudgeGivesEachStatusToWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	own := []int{400, 409, 413, 422, 423, 424, 500}
	vendors := []int{418, 419, 420, 430, 440, 444, 449, 450, 460, 461, 462, 463, 464, 494, 495, 496, 497, 498, 499}
	for status := 100; status <= 999; status++ {
		if status >= 200 && status <= 299 {
			continue
		}
		want := outbox.EndpointFault
		unknown4xx := status >= 400 && status <= 499 && http.StatusText(status) == "" && !slices.Contains(vendors, status)
		if slices.Contains(own, status) || unknown4xx {
			want = outbox.EventFault
		}
		v := outbox.Judge(ours, outbox.Answer{Host: "n8n.example", HTTPStatus: status, Body: []byte(good)})
		if v.Signal != want || v.Code != outbox.ConnectionError || v.RunID != "" || v.HTTPStatus != status || v.UnknownPage {
			t.Errorf("HTTP %d: %+v, want signal %d", status, v, want)
		}
	}
}

// Each row of the table is reached, gives a reason, and is what Judge uses; each
// status of the IANA registry and each of a vendor has a row of its own.
func TestStatuses(t *testing.T) {
	t.Parallel()
	row := func(status int) int {
		return slices.IndexFunc(outbox.Statuses, func(r outbox.StatusRow) bool { return r.First <= status && status <= r.Last })
	}
	for i, r := range outbox.Statuses {
		if r.Reason == "" || r.First > r.Last || r.Signal == outbox.Healthy {
			t.Errorf("%+v", r)
		}
		reached := false
		for status := r.First; status <= r.Last; status++ {
			if row(status) == i {
				reached = true
				if v := outbox.Judge(ours, outbox.Answer{HTTPStatus: status}); v.Signal != r.Signal {
					t.Errorf("HTTP %d: signal %d, the table says %d", status, v.Signal, r.Signal)
				}
			}
		}
		if !reached {
			t.Errorf("no status is judged by %+v", r)
		}
	}
	unregistered := []int{row(427), row(528)}
	for status := 100; status <= 999; status++ {
		i := row(status)
		if found := i >= 0; found == (status >= 200 && status <= 299) {
			t.Errorf("HTTP %d: a row %v", status, found)
		}
		if http.StatusText(status) != "" && slices.Contains(unregistered, i) {
			t.Errorf("HTTP %d %s counts as unregistered", status, http.StatusText(status))
		}
	}
}

// The document prints the table: with its row missing, the failure shows the row.
func TestTheDocumentPrintsTheTableOfStatuses(t *testing.T) {
	t.Parallel()
	const file = "../../infra/docs/http-statuses.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, r := range outbox.Statuses {
		status := fmt.Sprint(r.First)
		switch {
		case r.Last-r.First == 99:
			status = fmt.Sprintf("%dxx", r.First/100)
		case r.Last > r.First:
			status = fmt.Sprintf("%d-%d", r.First, r.Last)
		}
		whose := map[outbox.Signal]string{outbox.EndpointFault: "endpoint", outbox.EventFault: "event"}[r.Signal]
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", status, whose, r.Reason)
	}
	if !strings.Contains(string(text), "| --- | --- | --- |\n"+rows.String()) {
		t.Errorf("%s does not hold this table:\n%s", file, &rows)
	}
}
