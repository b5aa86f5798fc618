package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxAnswerBytes is how much of an answer is read, after decompression. An
// acknowledgement has some hundred bytes; one mebibyte leaves room for a workflow
// that returns its items with it.
const MaxAnswerBytes = 1 << 20

// acknowledgement judges the body of a 2xx answer. If it does not acknowledge the
// event, the verdict has a code and reason says why.
func acknowledgement(eventID string, body []byte) (v Verdict, reason string) {
	if runID, ok := plain(eventID, body); ok {
		return Verdict{RunID: runID, Signal: Healthy}, ""
	}
	page := Verdict{Code: MalformedResponse, Signal: EventFault, UnknownPage: true}
	if len(body) > MaxAnswerBytes {
		return page, fmt.Sprintf("the answer is too large: more than %d bytes", MaxAnswerBytes)
	}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")) // a byte order mark is allowed
	if len(bytes.Trim(body, " \t\r\n")) == 0 {            // what JSON calls white space
		return page, "the answer is empty: the workflow ended before Respond to Webhook"
	}
	// A map keeps keys case-sensitive, and the last of doubled keys.
	var answer map[string]json.RawMessage
	err := json.Unmarshal(body, &answer)
	if _, wrongType := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !wrongType || !utf8.Valid(body) {
		page.Signal = EndpointFault
		return page, "the answer is not JSON"
	}
	if answer == nil {
		return page, "the answer is not a JSON object"
	}
	refused := func(code Code, reason string) (Verdict, string) {
		return Verdict{Code: code, Signal: EventFault}, reason
	}
	switch string(answer["ok"]) {
	case "true":
	case "false":
		return refused(RemoteReportedFailure, "the workflow answered ok: false")
	default:
		return page, "the answer has no ok: true"
	}
	if id, ok := text(answer["event_id"]); !ok || id != eventID {
		return refused(MismatchedEventID, "the answer acknowledges another event_id, or none")
	}
	var result map[string]json.RawMessage
	if err := json.Unmarshal(answer["result"], &result); err != nil {
		return refused(MalformedResponse, "the answer has no result.execution_id")
	}
	runID, ok := text(result["execution_id"])
	if !ok || strings.TrimFunc(runID, isSpace) == "" {
		return refused(MalformedResponse, "result.execution_id of the answer is not a text, or is blank")
	}
	if strings.ContainsRune(runID, 0) || loneSurrogate(result["execution_id"]) {
		return refused(MalformedResponse, "result.execution_id holds a character that Postgres cannot store")
	}
	return Verdict{RunID: runID, Signal: Healthy}, ""
}

// plain reads the exact text that our workflow responds with, which is nearly every
// answer, without parsing it. Anything else is left to the parser.
func plain(eventID string, body []byte) (runID string, ok bool) {
	rest, begins := bytes.CutPrefix(body, []byte(`{"ok":true,"event_id":"`+eventID+`","result":{"execution_id":"`))
	run, ends := bytes.CutSuffix(rest, []byte(`"}}`))
	// These characters need no escape in JSON, so they stand for themselves.
	return string(run), begins && ends && len(run) > 0 &&
		len(bytes.Trim(run, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_")) == 0
}

// text decodes a JSON string; ok is false for any other value.
func text(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// isSpace reports Unicode white space, and the four separators that the Python
// thread trims as well.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f)
}

// loneSurrogate reports a \ud800-\udfff escape that is not half of a pair. The
// decoder silently replaces one, so this inspects the raw text.
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

// surrogate reads uXXXX at i, in valid JSON, and reports whether it is a surrogate.
func surrogate(raw []byte, i int) (unit uint64, ok bool) {
	if i+5 > len(raw) || raw[i] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 32)
	return unit, err == nil && unit >= 0xd800 && unit <= 0xdfff
}
