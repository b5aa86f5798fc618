package outbox_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"outbox-dispatcher/internal/outbox"
)

// plainly reads an acknowledgement with nothing but encoding/json, into maps.
func plainly(body []byte) (runID string, ok bool) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	var answer map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if !utf8.Valid(body) || !json.Valid(body) || decoder.Decode(&answer) != nil {
		return "", false
	}
	result, _ := answer["result"].(map[string]any)
	runID, _ = result["execution_id"].(string)
	return runID, answer["ok"] == true && answer["event_id"] == any(ours) && strings.ContainsFunc(runID, func(r rune) bool {
		return !unicode.IsSpace(r) && (r < 0x1c || r > 0x1f)
	})
}

// Whatever comes back, it is acknowledged exactly if it says so, and what is
// recorded then is what Postgres stores.
func FuzzAcknowledgement(f *testing.F) {
	for _, s := range []string{
		good, "\ufeff" + good, good + good, " " + good + "\n", ack(`"\ud83d\ude00"`), ack(`"\ud800"`), ack(`"\\ud800"`), ack(`"a\u0000"`), ack(`"\u3000"`),
		ack(`"7","execution_id":5`), with(`"ok":false`), with(`"n":1e400`), with(`"n":NaN`), `{"\u006fk":true,` + good[11:], "[" + good + "]", "null", "{", "", "<html>",
		`{"ok":true,"event_id":"` + ours + `","result":"{}"}`, utf16be(good),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		v := judge(string(body))
		run, acknowledged := plainly(body)
		if v.Code == "" {
			if !acknowledged || v.RunID != run || v.Text != "" {
				t.Fatalf("accepted with run %q; by encoding/json: %v, run %q", v.RunID, acknowledged, run)
			}
			if !utf8.ValidString(v.RunID) || strings.ContainsRune(v.RunID, 0) {
				t.Fatalf("Postgres cannot store %q", v.RunID)
			}
			return
		}
		checkClean(t, v.Text, outbox.MaxErrorRunes)
		// The decoder writes U+FFFD for half a surrogate pair.
		if acknowledged && len(body) <= outbox.MaxAnswerBytes && !strings.ContainsAny(run, "\x00\ufffd") {
			t.Fatalf("refused as %q: %s", v.Code, v.Text)
		}
	})
}
