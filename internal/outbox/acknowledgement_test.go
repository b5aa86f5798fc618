package outbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"outbox-dispatcher/internal/outbox"
)

const (
	ours   = "11111111-2222-4333-8444-abcdefabcdef"
	theirs = "00000000-0000-0000-0000-000000000000"
)

// good is an acknowledgement of ours; ack is one with this JSON as execution_id.
const good = `{"ok":true,"event_id":"` + ours + `","result":{"execution_id":"run-1"}}`

func ack(executionID string) string {
	return `{"ok":true,"event_id":"` + ours + `","result":{"execution_id":` + executionID + `}}`
}

// with is an acknowledgement of ours with more members in front of its brace.
func with(members string) string { return strings.TrimSuffix(good, "}") + "," + members + "}" }

func judge(body string) outbox.Verdict {
	return outbox.Judge(ours, outbox.Answer{Host: "n8n.example", HTTPStatus: 200, Body: []byte(body)})
}

// An answer counts as acknowledged, or has the code that says what is wrong.
func TestJudgeReadsTheAcknowledgement(t *testing.T) {
	t.Parallel()
	deep := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	const (
		success    = outbox.Code("")
		refusal    = outbox.RemoteReportedFailure
		malformed  = outbox.MalformedResponse
		mismatched = outbox.MismatchedEventID
	)
	for _, c := range []struct {
		name, body string
		code       outbox.Code
		run        string
	}{
		{"Plain", good, success, "run-1"},
		{"WithWhiteSpaceAround", " \r\n\t" + good + "\r\n\t ", success, "run-1"},
		{"WithWhiteSpaceInside", `{ "ok" : true , "event_id" : "` + ours + `" , "result" : { "execution_id" : "7" } }`, success, "7"},
		{"WithMoreMembers", with(`"items":[1,2],"data":{"ok":false}`), success, "run-1"},
		{"MembersInAnotherOrder", `{"result":{"x":1,"execution_id":"7"},"event_id":"` + ours + `","ok":true}`, success, "7"},

		// ok
		{"OKFalse", `{"ok":false,"event_id":"` + ours + `","error":"boom"}`, refusal, ""},
		{"OKFalseAlone", `{"ok":false}`, refusal, ""},
		{"OKFalseWithAnotherID", `{"ok":false,"event_id":"` + theirs + `"}`, refusal, ""},
		{"OKAbsent", `{"event_id":"` + ours + `","result":{"execution_id":"r"}}`, malformed, ""},
		{"OKOne", `{"ok":1,"event_id":"` + ours + `","result":{"execution_id":"r"}}`, malformed, ""},
		{"OKZero", `{"ok":0}`, malformed, ""},
		{"OKNull", `{"ok":null,"event_id":"` + ours + `","result":{"execution_id":"r"}}`, malformed, ""},
		{"OKText", `{"ok":"true","event_id":"` + ours + `","result":{"execution_id":"r"}}`, malformed, ""},
		{"OKTextFalse", `{"ok":"false"}`, malformed, ""},
		{"OKList", `{"ok":[true]}`, malformed, ""},
		{"OKObject", `{"ok":{}}`, malformed, ""},
		{"EmptyObject", `{}`, malformed, ""},
		{"WorkflowWasStarted", `{"message":"Workflow was started"}`, malformed, ""},
		{"OKUpperCase", `{"OK":true,"event_id":"` + ours + `","result":{"execution_id":"r"}}`, malformed, ""},
		{"OKCapital", `{"Ok":true,"event_id":"` + ours + `","result":{"execution_id":"r"}}`, malformed, ""},
		{"OKWithSpaceInKey", `{"ok ":true,"event_id":"` + ours + `","result":{"execution_id":"r"}}`, malformed, ""},
		{"OKKeyEscaped", `{"\u006fk":true,"event_id":"` + ours + `","result":{"execution_id":"r"}}`, success, "r"},
		{"OKFalseKeyEscaped", `{"o\u006B":false}`, refusal, ""},
		{"OKDoubledLastTrue", `{"ok":false,` + good[1:], success, "run-1"},
		{"OKDoubledLastFalse", with(`"ok":false`), refusal, ""},
		{"OKDoubledLastEscaped", with(`"\u006f\u006b":false`), refusal, ""},

		// event_id
		{"AnotherID", `{"ok":true,"event_id":"` + theirs + `","result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDAbsent", `{"ok":true,"result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDAbsentAndNoResult", `{"ok":true}`, mismatched, ""},
		{"IDNull", `{"ok":true,"event_id":null,"result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDObject", `{"ok":true,"event_id":{"a":[true,null,"it's"]}}`, mismatched, ""},
		{"IDList", `{"ok":true,"event_id":["` + ours + `"]}`, mismatched, ""},
		{"IDNumber", `{"ok":true,"event_id":11111111}`, mismatched, ""},
		{"IDUpperCase", `{"ok":true,"event_id":"` + strings.ToUpper(ours) + `","result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDInSpaces", `{"ok":true,"event_id":" ` + ours + ` ","result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDWithNewline", `{"ok":true,"event_id":"` + ours + `\n","result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDInBraces", `{"ok":true,"event_id":"{` + ours + `}","result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDWithoutDashes", `{"ok":true,"event_id":"` + strings.ReplaceAll(ours, "-", "") + `"}`, mismatched, ""},
		{"IDOfQuotes", `{"ok":true,"event_id":"it's \"x\""}`, mismatched, ""},
		{"IDWithNUL", `{"ok":true,"event_id":"a\u0000b"}`, mismatched, ""},
		{"IDThenNUL", `{"ok":true,"event_id":"` + ours + `\u0000","result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDLoneSurrogate", `{"ok":true,"event_id":"\ud800"}`, mismatched, ""},
		{"IDOf3000Characters", `{"ok":true,"event_id":"` + strings.Repeat("z", 3000) + `"}`, mismatched, ""},
		{"IDEmpty", `{"ok":true,"event_id":"","result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDEscaped", `{"ok":true,"event_id":"\u0031` + ours[1:] + `","result":{"execution_id":"r"}}`, success, "r"},
		{"IDKeyInCamelCase", `{"ok":true,"eventId":"` + ours + `","result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDKeyUpperCase", `{"ok":true,"EVENT_ID":"` + ours + `","result":{"execution_id":"r"}}`, mismatched, ""},
		{"IDDoubledLastOurs", `{"event_id":"` + theirs + `",` + good[1:], success, "run-1"},
		{"IDDoubledLastTheirs", with(`"event_id":"` + theirs + `"`), mismatched, ""},
		{"IDDoubledLastNull", with(`"event_id":null`), mismatched, ""},
		{"IDBeforeExecutionID", `{"ok":true,"event_id":"` + theirs + `","result":{}}`, mismatched, ""},

		// result.execution_id
		{"ExecutionAbsent", `{"ok":true,"event_id":"` + ours + `","result":{}}`, malformed, ""},
		{"ExecutionNull", ack(`null`), malformed, ""},
		{"ExecutionNumber", ack(`42`), malformed, ""},
		{"ExecutionTrue", ack(`true`), malformed, ""},
		{"ExecutionList", ack(`["r"]`), malformed, ""},
		{"ExecutionObject", ack(`{"id":"r"}`), malformed, ""},
		{"ExecutionEmpty", ack(`""`), malformed, ""},
		{"ExecutionOneCharacter", ack(`"7"`), success, "7"},
		{"ExecutionKeepsItsSpaces", ack(`" 7 "`), success, " 7 "},
		{"ExecutionKeepsItsLines", ack(`"7\n8"`), success, "7\n8"},
		{"ExecutionControlCharacter", ack(`"7\u0001"`), success, "7\u0001"},
		{"ExecutionOf100000Characters", ack(`"` + strings.Repeat("r", 100_000) + `"`), success, strings.Repeat("r", 100_000)},
		{"ResultAbsent", `{"ok":true,"event_id":"` + ours + `"}`, malformed, ""},
		{"ResultNull", `{"ok":true,"event_id":"` + ours + `","result":null}`, malformed, ""},
		{"ResultList", `{"ok":true,"event_id":"` + ours + `","result":[{"execution_id":"r"}]}`, malformed, ""},
		{"ResultNumber", `{"ok":true,"event_id":"` + ours + `","result":7}`, malformed, ""},
		{"ResultText", `{"ok":true,"event_id":"` + ours + `","result":"7"}`, malformed, ""},
		{"ResultTextOfJSON", `{"ok":true,"event_id":"` + ours + `","result":"{\"execution_id\":\"7\"}"}`, malformed, ""},
		{"ResultTrue", `{"ok":true,"event_id":"` + ours + `","result":true}`, malformed, ""},
		{"ExecutionAtTheTopOnly", `{"ok":true,"event_id":"` + ours + `","execution_id":"7"}`, malformed, ""},
		{"ExecutionKeyInCamelCase", `{"ok":true,"event_id":"` + ours + `","result":{"executionId":"7"}}`, malformed, ""},
		{"ExecutionKeyUpperCase", `{"ok":true,"event_id":"` + ours + `","result":{"EXECUTION_ID":"7"}}`, malformed, ""},
		{"ResultKeyUpperCase", `{"ok":true,"event_id":"` + ours + `","Result":{"execution_id":"7"}}`, malformed, ""},
		{"ExecutionKeyEscaped", `{"ok":true,"event_id":"` + ours + `","r\u0065sult":{"execution\u005fid":"7"}}`, success, "7"},
		{"ExecutionDoubledLastText", ack(`5,"execution_id":"7"`), success, "7"},
		{"ExecutionDoubledLastNumber", ack(`"7","execution_id":5`), malformed, ""},
		{"ResultDoubledLastGood", `{"result":7,` + good[1:], success, "run-1"},
		{"ResultDoubledLastEmpty", with(`"result":{}`), malformed, ""},
		{"ResultDoubledLastNull", with(`"result":null`), malformed, ""},

		// the document
		{"Empty", "", malformed, ""},
		{"WhiteSpaceOnly", " \r\n\t", malformed, ""},
		{"HTML", "<html>oops</html>", malformed, ""},
		{"StartingUp", "n8n is starting up. Please wait", malformed, ""},
		{"List", "[" + good + "]", malformed, ""},
		{"EmptyList", "[]", malformed, ""},
		{"Text", `"ok"`, malformed, ""},
		{"Number", "1", malformed, ""},
		{"Null", "null", malformed, ""},
		{"True", "true", malformed, ""},
		{"CutOff", `{"ok":true,`, malformed, ""},
		{"LastBraceMissing", strings.TrimSuffix(good, "}"), malformed, ""},
		{"OneBraceTooMany", good + "}", malformed, ""},
		{"SingleQuotes", `{'ok':true}`, malformed, ""},
		{"KeysWithoutQuotes", `{ok:true}`, malformed, ""},
		{"TrailingComma", strings.TrimSuffix(good, "}") + ",}", malformed, ""},
		{"Comment", good + " // x", malformed, ""},
		{"CommentInFront", "/* x */" + good, malformed, ""},
		{"TwoDocuments", good + good, malformed, ""},
		{"TwoDocumentsOnTwoLines", good + "\n" + good, malformed, ""},
		{"DocumentThenNull", good + " null", malformed, ""},
		{"NULAtTheEnd", good + "\x00", malformed, ""},
		{"NULInFront", "\x00" + good, malformed, ""},
		{"NULInside", strings.Replace(good, ",", ",\x00", 1), malformed, ""},
		{"NULInText", ack("\"7\x00\""), malformed, ""},
		{"LineBreakInText", ack("\"7\n\""), malformed, ""},
		{"VerticalTabAtTheEnd", good + "\v", malformed, ""},
		{"NoBreakSpaceAtTheEnd", good + "\u00a0", malformed, ""},
		{"IdeographicSpaceInFront", "\u3000" + good, malformed, ""},
		{"LineSeparatorAtTheEnd", good + "\u2028", malformed, ""},
		{"JSONP", "callback(" + good + ")", malformed, ""},
		{"XSSIPrefix", ")]}',\n" + good, malformed, ""},
		{"NaN", with(`"n":NaN`), malformed, ""},
		{"Infinity", with(`"n":Infinity`), malformed, ""},
		{"MinusInfinity", with(`"n":-Infinity`), malformed, ""},
		{"HexNumber", with(`"n":0x10`), malformed, ""},
		{"NumberWithLeadingZero", with(`"n":01`), malformed, ""},
		{"NumberOf4300Digits", with(`"n":` + strings.Repeat("9", 4300)), success, "run-1"},
		{"NumberOf100000Digits", with(`"n":` + strings.Repeat("9", 100_000)), success, "run-1"},
		{"NumberBeyondFloat", with(`"n":[1e400,-1e999999999,1e-400]`), success, "run-1"},
		{"990Levels", with(`"n":` + deep(990)), success, "run-1"},
		{"9000Levels", with(`"n":` + deep(9000)), success, "run-1"},
		{"20000Levels", with(`"n":` + deep(20_000)), malformed, ""},
		{"HalfAMillionOpenBrackets", strings.Repeat("[", 500_000), malformed, ""},
		{"BOM", "\ufeff" + good, success, "run-1"},
		{"BOMAndWhiteSpace", "\ufeff \n" + good, success, "run-1"},
		{"BOMTwice", "\ufeff\ufeff" + good, malformed, ""},
		{"BOMAtTheEnd", good + "\ufeff", malformed, ""},
		{"BOMAfterWhiteSpace", " \ufeff" + good, malformed, ""},
		{"BOMAlone", "\ufeff", malformed, ""},
		{"HalfABOM", "\xef\xbb" + good, malformed, ""},
		{"UTF16BigEndian", utf16be(good), malformed, ""},
		{"UTF16WithBOM", "\xfe\xff" + utf16be(good), malformed, ""},
		{"UTF16LittleEndianWithBOM", "\xff\xfe" + utf16be(good)[1:] + "\x00", malformed, ""},
		{"InvalidUTF8InText", with("\"n\":\"\xff\""), malformed, ""},
		{"InvalidUTF8InKey", with("\"n\xc3\":1"), malformed, ""},
		{"InvalidUTF8InExecution", ack("\"run-\xe9\""), malformed, ""},
		{"SurrogateInUTF8", with("\"n\":\"\xed\xa0\x80\""), malformed, ""},
		{"OverlongSlash", with("\"n\":\"\xc0\xaf\""), malformed, ""},
		{"LoneSurrogateElsewhere", with(`"n":"\ud800"`), success, "run-1"},
		{"NULEscapedElsewhere", with(`"n":"\u0000"`), success, "run-1"},
		{"KeyLoneSurrogate", with(`"\udc00":1`), success, "run-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := judge(c.body)
			if v.Code != c.code || v.RunID != c.run {
				t.Errorf("code %q, run %.40q; want %q, %.40q (%s)", v.Code, v.RunID, c.code, c.run, v.Text)
			}
			if (v.Text == "") != (c.code == success) {
				t.Errorf("text %q with code %q", v.Text, v.Code)
			}
		})
	}
}

// utf16be writes ASCII as big-endian UTF-16.
func utf16be(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteByte(0)
		b.WriteByte(c)
	}
	return b.String()
}

func TestJudgeRefusesAnExecutionIDOfWhiteSpace(t *testing.T) {
	t.Parallel()
	blank := []rune{'\t', '\n', '\v', '\f', '\r', 0x1c, 0x1d, 0x1e, 0x1f, ' ', 0x85, 0xa0, 0x1680,
		0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000}
	for _, r := range blank {
		for _, id := range []string{fmt.Sprintf(`"\u%04x"`, r), fmt.Sprintf(`" \u%04x\t"`, r)} {
			if v := judge(ack(id)); v.Code != outbox.MalformedResponse {
				t.Errorf("execution_id %s (%U): %q", id, r, v.Code)
			}
		}
		if v := judge(ack(fmt.Sprintf(`"\u%04xx"`, r))); v.Code != "" || v.RunID != string(r)+"x" {
			t.Errorf("a character after %U: %q %q", r, v.Code, v.RunID)
		}
	}
	// Invisible, and not white space.
	for _, r := range []rune{0x180e, 0x200b, 0x200c, 0x200d, 0x2060, 0xfeff, 0x00ad, 0x2800, 0x3164} {
		if v := judge(ack(fmt.Sprintf(`"\u%04x"`, r))); v.Code != "" {
			t.Errorf("%U is not white space: %q", r, v.Code)
		}
	}
}

// Postgres stores neither NUL nor half a surrogate pair, and the JSON decoder silently
// replaces the latter.
func TestJudgeRefusesAnExecutionIDThatPostgresCannotStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id   string // as it stands between the quotes
		want string // empty: refused
	}{
		{`\u0000`, ""}, {`run\u0000x`, ""}, {`\\u0000`, `\u0000`}, {`\\\u0000`, ""},
		{`run-\ud83d\ude00`, "run-😀"}, {`\uD83D\uDE00`, "😀"}, {`\ud83d\ude00\ud83d\ude00`, "😀😀"}, {"😀", "😀"},
		{`\ud800`, ""}, {`\udfff`, ""}, {`x\ud800`, ""}, {`\ud800x`, ""}, {`x\udc00y`, ""},
		{`\ud800\ud800`, ""}, {`\udc00\udc00`, ""}, {`\udc00\ud800`, ""}, {`\ud83d\ude00\ud83d`, ""}, {`\ud83d\ude00\ude00`, ""},
		{`\ud83d\u0041`, ""}, {`\ud83d\n`, ""}, {`\ud83dx\ude00`, ""}, {`\ud83d\\ude00`, ""}, {`\ud83d\\\ude00`, ""},
		{`\ud83d\ud83d\ude00`, ""}, {`\ud83dude00`, ""},
		{`\\ud800`, `\ud800`}, {`\\\ud800`, ""}, {`\\\\ud800`, `\\ud800`}, {`\\\ud83d\ude00`, `\😀`}, {`\"\ud800`, ""}, {`\/\ud800`, ""},
		{`\ud7ff\ue000`, "\ud7ff\ue000"}, {`\ufffd`, "\ufffd"}, {`\uffff`, "\uffff"}, {"\U0010ffff", "\U0010ffff"},
	} {
		v := judge(ack(`"` + c.id + `"`))
		if c.want == "" && v.Code != outbox.MalformedResponse || c.want != "" && (v.Code != "" || v.RunID != c.want) {
			t.Errorf("execution_id %s: code %q, run %q; want %q", c.id, v.Code, v.RunID, c.want)
		}
	}
}

// One mebibyte is read, and no more. What follows can change the meaning.
func TestJudgeBoundsTheSizeOfAnAnswer(t *testing.T) {
	t.Parallel()
	pad := func(size int) string { return good + strings.Repeat(" ", size-len(good)) }
	for _, c := range []struct {
		size int
		code outbox.Code
	}{
		{outbox.MaxAnswerBytes - 1, ""},
		{outbox.MaxAnswerBytes, ""},
		{outbox.MaxAnswerBytes + 1, outbox.MalformedResponse},
	} {
		v := judge(pad(c.size))
		if v.Code != c.code {
			t.Errorf("%d bytes: %q, want %q", c.size, v.Code, c.code)
		}
		if c.code != "" && !strings.Contains(v.Text, "too large") {
			t.Errorf("%d bytes: %q does not say that it is too large", c.size, v.Text)
		}
	}
}

// Our own envelope, echoed back, acknowledges nothing, whatever the payload holds.
func TestJudgeRefusesAnEchoOfTheEnvelope(t *testing.T) {
	t.Parallel()
	value := []byte(good)
	body, unusable := outbox.Envelope(ours, "t", 0, outbox.Payload{Object: true, Correlation: value, Aggregate: value, Data: value}, 1<<20)
	if unusable != "" {
		t.Fatal(unusable)
	}
	if v := judge(string(body)); v.Code != outbox.MalformedResponse {
		t.Errorf("echo: %q", v.Code)
	}
}

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

// plain is what our workflow responds with.
func plain(run string) string {
	return `{"ok":true,"event_id":"` + ours + `","result":{"execution_id":"` + run + `"}}`
}

// Whatever comes back, it acknowledges the event exactly if it says so, and the
// execution id is one that Postgres can store.
func FuzzAcknowledgement(f *testing.F) {
	for _, s := range []string{
		good, "\ufeff" + good, good + good, " " + good + "\n", ack(`"\ud83d\ude00"`), ack(`"\ud800"`), ack(`"\\ud800"`), ack(`"a\u0000"`), ack(`"\u3000"`),
		ack(`"7","execution_id":5`), with(`"ok":false`), with(`"n":1e400`), with(`"n":NaN`), `{"\u006fk":true,` + good[11:], "[" + good + "]", "null", "{", "", "<html>",
		`{"ok":true,"event_id":"` + ours + `","result":"{}"}`, utf16be(good),
		// What our workflow responds with, and what resembles it.
		plain("7"), plain(""), plain(" "), plain(`a\u0000`), plain(`\`), plain(`","execution_id":"8`), plain(`é`), plain("7")[:80], plain("7") + "}",
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
