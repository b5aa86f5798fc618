package n8n

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// characterForms are the forms in which a server can repeat a character.
var characterForms = []func(r rune) string{
	func(r rune) string { return string(r) },
	func(r rune) string { return url.QueryEscape(string(r)) },
	func(r rune) string {
		if escaped := url.PathEscape(string(r)); escaped[0] == '%' {
			return strings.ToLower(escaped)
		}
		return string(r)
	},
	func(r rune) string { return html.EscapeString(string(r)) },
	func(r rune) string { return fmt.Sprintf("&#%d;", r) },
	func(r rune) string {
		var b strings.Builder
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
		return b.String()
	},
	func(r rune) string {
		if r < 0x80 && !strings.ContainsRune("bfnrtuUx&%", r) {
			return `\` + string(r)
		}
		return string(r)
	},
}

// escape writes each character in the form that choice says. One that begins escapes
// is itself always escaped, as no program omits.
func escape(s string, choice []byte) string {
	var b strings.Builder
	for i, r := range []rune(s) {
		form := 0
		if len(choice) > 0 {
			form = int(choice[i%len(choice)]) % len(characterForms)
		}
		text := characterForms[form](r)
		if text == string(r) && strings.ContainsRune(`\%&`, r) {
			text = characterForms[5](r)
		}
		b.WriteString(text)
	}
	return b.String()
}

// layers are what a whole text may be escaped with once more.
var layers = []func(string) string{url.QueryEscape, html.EscapeString, func(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}}

// Whatever a secret is, and however its characters are escaped, once or twice, an
// answer that holds it is not quoted. Nor is one that holds it as it is, whatever
// stands around it.
func FuzzExcerpt(f *testing.F) {
	for _, secret := range []string{"s3cr3t", `a"b\c<d>&e'f/g h+i%j`, "clé-ü-😀", "%41%ab", "&amp;xyz", "aaa", `\u0041bcd`, "su9", "xy&z", "éÿÂ"} {
		f.Add(secret, []byte{0}, "", "")
		f.Add(secret, []byte{1, 2, 3, 4, 5, 6}, "before ", "after")
		f.Add(secret, []byte{3}, `\`, "amp;")
	}
	f.Fuzz(func(t *testing.T, secret string, choice []byte, before, after string) {
		if !utf8.ValidString(secret) || len(secret) > 200 || len(before)+len(after) > 1000 || len(choice) > 100 {
			t.Skip("not a secret")
		}
		for _, r := range secret {
			if unicode.IsControl(r) || r == '\ufffd' { // HTML has no number for these
				t.Skip("not a secret")
			}
		}
		if final := forms(secret); len(final[len(final)-1]) < shortestSecret {
			t.Skip("too little of it is left to be recognised")
		}
		r := newRedactor(&url.URL{})
		quote := func(answer string) string { return r.excerpt([]byte(answer), secret, []byte("{}")) }
		mixed := "~" + secret + "~"
		if len(forms(secret)) == 1 && !strings.Contains(secret, `\`) { // else programs escape it as a whole, or it reads as another
			mixed = "~" + escape(secret, choice) + "~"
		}
		answers := []string{before + secret + after, mixed}
		for _, layer := range layers {
			answers = append(answers, layer("~"+secret+"~"), layer(mixed))
		}
		for _, answer := range answers {
			if got := quote(answer); got != withheld {
				t.Errorf("%q in %q: %q", secret, answer, got)
			}
		}
	})
}

// A row of backslashes, or of ever the same escape, costs no more than another answer.
func TestExcerptEndsSoon(t *testing.T) {
	t.Parallel()
	r := newRedactor(&url.URL{})
	request := []byte(`{"data":"` + strings.Repeat("x", maxRequest-100) + `"}`)
	for _, unit := range []string{`\`, "%25", "&amp;", `\u005c`, "%", "x"} {
		began := time.Now()
		r.excerpt([]byte(strings.Repeat(unit, comparedBytes)), strings.Repeat(`\`, 60)+"x", request)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q: %v", unit, took)
		}
	}
}

func BenchmarkExcerpt(b *testing.B) {
	r := newRedactor(&url.URL{Path: "/webhook/4f9c-hook"})
	page := []byte(strings.Repeat("<p>502 Bad Gateway</p>", 400))
	for name, size := range map[string]int{"4KiB": 4 << 10, "64KiB": 64<<10 - 100} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			request := []byte(`{"data":[` + strings.Repeat(`{"name":"somebody","n":12345},`, size/30) + `0]}`)
			for b.Loop() {
				if r.excerpt(page, "token-token", request) == withheld {
					b.Fatal()
				}
			}
		})
	}
}
