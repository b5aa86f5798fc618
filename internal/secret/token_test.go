package secret

import (
	"fmt"
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	// s3cr3t stands in every value that must not show up in an error.
	for name, c := range map[string]struct {
		text, key string
		want      string   // the token
		wantError []string // or words of the error
	}{
		"PlainText":                    {"s3cr3t", "", "s3cr3t", nil},
		"TrailingNewline":              {"s3cr3t\r\n\t \n", "", "s3cr3t", nil},
		"SpaceWithin":                  {"Bearer s3cr3t", "", "Bearer s3cr3t", nil},
		"JSONString":                   {`"s3cr3t"`, "", "s3cr3t", nil},
		"JSONStringWithNewline":        {`"s3cr3t\n"` + "\n", "", "s3cr3t", nil},
		"JSONObject":                   {`{"token":"s3cr3t"}`, "", "s3cr3t", nil},
		"JSONObjectOverLines":          {"\n{\n \"token\": \"s3cr3t \"\n}\n", "", "s3cr3t", nil},
		"JSONObjectWithAnotherKey":     {`{"token":"no","n8n":"s3cr3t"}`, "n8n", "s3cr3t", nil},
		"ByteOrderMark":                {"\ufeffs3cr3t\n", "", "s3cr3t", nil},
		"ByteOrderMarkBeforeAnObject":  {"\ufeff{\"token\":\"s3cr3t\"}", "", "s3cr3t", nil},
		"EscapedCharacters":            {`{"token":"s3cr3t\u0021"}`, "", "s3cr3t!", nil},
		"LooksLikeANumber":             {"12345678", "", "12345678", nil},
		"QuoteThatOpensNoJSON":         {`"s3cr3t`, "", `"s3cr3t`, nil},
		"BracketThatOpensNoJSON":       {`[s3cr3t`, "", `[s3cr3t`, nil},
		"Empty":                        {"", "", "", []string{"is empty"}},
		"WhiteSpaceAlone":              {" \n", "", "", []string{"is empty"}},
		"EmptyJSONString":              {`""`, "", "", []string{"is empty"}},
		"EmptyUnderTheKey":             {`{"token":""}`, "", "", []string{`"token"`, "is empty"}},
		"WithoutTheKey":                {`{"other":"s3cr3t"}`, "", "", []string{`"token"`, "N8N_TOKEN_SECRET_KEY"}},
		"KeyInAnotherCase":             {`{"Token":"s3cr3t"}`, "", "", []string{`"token"`}},
		"NumberUnderTheKey":            {`{"token":12345678}`, "", "", []string{`"token"`, "no text"}},
		"NullUnderTheKey":              {`{"token":null}`, "", "", []string{`"token"`, "no text"}},
		"ObjectUnderTheKey":            {`{"token":{"a":"s3cr3t"}}`, "", "", []string{`"token"`, "no text"}},
		"BrokenObject":                 {`{"token":"s3cr3t"`, "", "", []string{"JSON object"}},
		"SomethingBehindTheObject":     {`{"token":"s3cr3t"} x`, "", "", []string{"JSON object"}},
		"Array":                        {`["s3cr3t"]`, "", "", []string{"JSON array", `"token"`}},
		"ObjectInsideOfAString":        {`"{\"token\":\"s3cr3t\"}"`, "", "", []string{"inside of a JSON string"}},
		"TwoLines":                     {"s3cr3t\ns3cr3t", "", "", []string{"HTTP header"}},
		"ControlCharacter":             {"s3cr3t\x00", "", "", []string{"HTTP header"}},
		"ControlCharacterUnderTheKey":  {`{"token":"s3cr3t\u0007"}`, "", "", []string{`"token"`, "HTTP header"}},
		"SpaceInFront":                 {" s3cr3t", "", "", []string{"HTTP header"}},
		"NewlineInFrontIsNoHeaderEven": {"\ns3cr3t", "", "", []string{"HTTP header"}},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, c.text)
			got, err := Token{Reader: &Reader{}, ID: "prod/n8n", Key: c.key}.Token(t.Context())
			if c.wantError == nil {
				if got != c.want || err != nil {
					t.Errorf("got %q, %v; want %q", got, err, c.want)
				}
				return
			}
			wantSentence(t, err, append(c.wantError, "prod/n8n")...)
			if got != "" || strings.Contains(err.Error(), "12345678") {
				t.Errorf("got %q with error %v", got, err)
			}
		})
	}
}

func TestStatic(t *testing.T) {
	for _, c := range []struct {
		value, want string
	}{
		{"s3cr3t", "s3cr3t"},
		{"s3cr3t\n", "s3cr3t"},
		{`{"token":"s3cr3t"}`, `{"token":"s3cr3t"}`}, // a variable holds the token and no JSON
		{"", ""},
		{"s3c\nr3t", ""},
	} {
		got, err := Static(c.value).Token(t.Context())
		again, errAgain := Static(c.value).Refresh(t.Context())
		if got != c.want || (err == nil) != (c.want != "") || again != got || (errAgain == nil) != (err == nil) {
			t.Errorf("%q: got %q, %v and %q, %v; want %q", c.value, got, err, again, errAgain, c.want)
		}
		if err != nil && (!strings.Contains(err.Error(), "N8N_WEBHOOK_TRIGGER_TOKEN") || strings.Contains(err.Error(), "r3t")) {
			t.Errorf("%q: error %v", c.value, err)
		}
	}
	if got := fmt.Sprintf("%v %+v %#v %s", Static("s3cr3t"), Static("s3cr3t"), Static("s3cr3t"), Static("s3cr3t")); strings.Contains(got, "s3cr3t") {
		t.Errorf("printed %s", got)
	}
}
