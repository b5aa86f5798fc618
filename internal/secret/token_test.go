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
		"PlainText":                   {"s3cr3t", "", "s3cr3t", nil},
		"TrailingNewline":             {"s3cr3t\r\n\t \n", "", "s3cr3t", nil},
		"SpaceWithin":                 {"Bearer s3cr3t", "", "Bearer s3cr3t", nil},
		"JSONString":                  {`"s3cr3t"`, "", "s3cr3t", nil},
		"JSONStringWithNewline":       {`"s3cr3t\n"` + "\n", "", "s3cr3t", nil},
		"JSONObject":                  {`{"token":"s3cr3t"}`, "", "s3cr3t", nil},
		"JSONObjectOverLines":         {"\n{\n \"token\": \"s3cr3t \"\n}\n", "", "s3cr3t", nil},
		"JSONObjectWithAnotherKey":    {`{"token":"no","n8n":"s3cr3t"}`, "n8n", "s3cr3t", nil},
		"ByteOrderMark":               {"\ufeffs3cr3t\n", "", "s3cr3t", nil},
		"ByteOrderMarkBeforeAnObject": {"\ufeff{\"token\":\"s3cr3t\"}", "", "s3cr3t", nil},
		"EscapedCharacters":           {`{"token":"s3cr3t\u0021"}`, "", "s3cr3t!", nil},
		"LooksLikeANumber":            {"12345678", "", "12345678", nil},
		"QuoteThatOpensNoJSON":        {`"s3cr3t`, "", `"s3cr3t`, nil},
		"BracketThatOpensNoJSON":      {`[s3cr3t`, "", `[s3cr3t`, nil},
		"Empty":                       {"", "", "", []string{"is empty"}},
		"WhiteSpaceAlone":             {" \n", "", "", []string{"is empty"}},
		"EmptyJSONString":             {`""`, "", "", []string{"is empty"}},
		"EmptyUnderTheKey":            {`{"token":""}`, "", "", []string{`"token"`, "is empty"}},
		"WithoutTheKey":               {`{"other":"s3cr3t"}`, "", "", []string{`"token"`, "N8N_TOKEN_SECRET_KEY"}},
		"KeyInAnotherCase":            {`{"Token":"s3cr3t"}`, "", "", []string{`"token"`}},
		"NumberUnderTheKey":           {`{"token":12345678}`, "", "", []string{`"token"`, "no string"}},
		"NullUnderTheKey":             {`{"token":null}`, "", "", []string{`"token"`, "no string"}},
		"ObjectUnderTheKey":           {`{"token":{"a":"s3cr3t"}}`, "", "", []string{`"token"`, "no string"}},
		"BrokenObject":                {`{"token":"s3cr3t"`, "", "", []string{"JSON object"}},
		"SomethingAfterTheObject":     {`{"token":"s3cr3t"} x`, "", "", []string{"JSON object"}},
		"Array":                       {`["s3cr3t"]`, "", "", []string{"JSON array", `"token"`}},
		"ObjectInsideOfAString":       {`"{\"token\":\"s3cr3t\"}"`, "", "", []string{"inside a JSON string"}},
		"NotASCII":                    {"tok\u00e9n", "", "", []string{"cannot be an HTTP header value: character 4 is not ASCII"}},
		"NotASCIIUnderTheKey":         {`{"token":"tok\u200bs3cr3t"}`, "", "", []string{`"token"`, "character 4 is not ASCII"}},
		"ControlCharacter":            {"s3cr3t\ns3cr3t", "", "", []string{"character 7 is a control character"}},
		"SpaceInFront":                {" s3cr3t", "", "", []string{"starts with white space"}},
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

// A variable holds the token itself and no JSON, and does not print it.
func TestStatic(t *testing.T) {
	const json = `{"token":"s3cr3t"}`
	got, err := Static(json).Token(t.Context())
	again, errAgain := Static(json).Refresh(t.Context())
	if got != json || again != json || err != nil || errAgain != nil {
		t.Errorf("got %q, %v and %q, %v", got, err, again, errAgain)
	}
	if got := fmt.Sprintf("%v %+v %#v %s", Static(json), Static(json), Static(json), Static(json)); strings.Contains(got, "s3cr3t") {
		t.Errorf("printed %s", got)
	}
}
