package outbox

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxAnswerBytes is how much of an answer is read, unpacked if it came
// compressed. An acknowledgement has some hundred bytes; one mebibyte leaves
// room for a workflow that returns its items with it.
const MaxAnswerBytes = 1 << 20

// acknowledgement reads the body of a 2xx answer. It returns the execution id,
// or the code and the reason why this is no acknowledgement of the event.
// jsonFault tells that the body was no JSON at all.
func acknowledgement(eventID string, body []byte) (runID string, code Code, reason string, jsonFault bool) {
	if runID, ok := plain(eventID, body); ok {
		return runID, "", "", false
	}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")) // a byte order mark is allowed
	trimmed := bytes.Trim(body, " \t\r\n")                // what JSON calls white space, and no more
	if len(trimmed) == 0 {
		return "", MalformedResponse, "the answer is empty: the workflow ended before Respond to Webhook", false
	}
	if !utf8.Valid(trimmed) || !json.Valid(trimmed) {
		return "", MalformedResponse, "the answer is not JSON", true
	}
	if trimmed[0] != '{' {
		return "", MalformedResponse, "the answer is not a JSON object", false
	}
	// A map keeps keys case-sensitive and the last of doubled keys.
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(trimmed, &answer); err != nil {
		return "", MalformedResponse, "the answer is not readable JSON", false
	}
	switch string(answer["ok"]) {
	case "true":
	case "false":
		return "", RemoteReportedFailure, "the workflow answered ok: false", false
	default:
		return "", MalformedResponse, "the answer has no ok: true", false
	}
	if id, ok := text(answer["event_id"]); !ok || id != eventID {
		return "", MismatchedEventID, "the answer acknowledges another event_id, or none", false
	}
	var result map[string]json.RawMessage
	if err := json.Unmarshal(answer["result"], &result); err != nil {
		return "", MalformedResponse, "the answer has no result.execution_id", false
	}
	runID, ok := text(result["execution_id"])
	if !ok || strings.TrimFunc(runID, isSpace) == "" {
		return "", MalformedResponse, "the answer has no result.execution_id that is a text", false
	}
	if strings.ContainsRune(runID, 0) || loneSurrogate(result["execution_id"]) {
		return "", MalformedResponse, "result.execution_id holds a character that Postgres cannot store", false
	}
	return runID, "", "", false
}

// plain reads the very text that our workflow answers with, which is nearly every
// answer: the parser would take a hundred times as long. What differs in anything
// is left to it.
func plain(eventID string, body []byte) (runID string, ok bool) {
	rest, begins := bytes.CutPrefix(body, []byte(`{"ok":true,"event_id":"`+eventID+`","result":{"execution_id":"`))
	run, ends := bytes.CutSuffix(rest, []byte(`"}}`))
	runID = string(run)
	return runID, begins && ends && word(eventID) && word(runID)
}

// word reports whether a text is the same in JSON and means itself.
func word(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == ""
}

// text decodes a JSON string; ok is false for any other value.
func text(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// isSpace is Unicode white space, with the four separators that the original
// trimmed too.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f)
}

// loneSurrogate reports a \ud800-\udfff escape that is not half of a pair. The
// decoder replaces such a one without a word, so the raw text is looked at.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++ // the escaped character, so that \\ud800 is not mistaken for an escape
		unit, ok := surrogate(raw, i)
		if !ok {
			continue
		}
		low, paired := surrogate(raw, i+6)
		if unit >= 0xdc00 || !paired || raw[i+5] != '\\' || low < 0xdc00 {
			return true
		}
		i += 10
	}
	return false
}

// surrogate reads uXXXX at i and reports whether it is a surrogate.
func surrogate(raw []byte, i int) (unit uint32, ok bool) {
	if i+5 > len(raw) || raw[i] != 'u' {
		return 0, false
	}
	for _, c := range raw[i+1 : i+5] {
		switch {
		case c >= '0' && c <= '9':
			unit = unit<<4 | uint32(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			unit = unit<<4 | uint32(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return unit, unit >= 0xd800 && unit <= 0xdfff
}
