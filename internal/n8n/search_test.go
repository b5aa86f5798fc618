package n8n

import (
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// forms in which a server can repeat a character.
var forms = []func(r rune) string{
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
		if r < 0x80 && !strings.ContainsRune("bfnrtuUx", r) {
			return `\` + string(r)
		}
		return string(r)
	},
}

func encode(secret string, choice []byte) string {
	var b strings.Builder
	for i, r := range []rune(secret) {
		form := 0
		if len(choice) > 0 {
			form = int(choice[i%len(choice)]) % len(forms)
		}
		b.WriteString(forms[form](r))
	}
	return b.String()
}

// Whatever a secret is and however its characters are written, it is not seen.
func FuzzSearch(f *testing.F) {
	for _, secret := range []string{"s3cr3t", `a"b\c<d>&e'f/g h+i%j`, "clé-ü-😀", `\\\\\\`, "%41%", "&amp;x", "+ +", "aaa", "\\u0041"} {
		f.Add(secret, []byte{0}, "", "")
		f.Add(secret, []byte{1, 2, 3, 4, 5, 6}, "before ", "behind")
	}
	f.Fuzz(func(t *testing.T, secret string, choice []byte, before, behind string) {
		if !utf8.ValidString(secret) || len(secret) < shortestSecret || len(secret) > 200 || len(before)+len(behind) > 2000 || len(choice) > 100 {
			t.Skip("no secret")
		}
		for _, r := range secret {
			if r == 0 || r == '\r' || r >= 0x80 && r <= 0x9f { // HTML has no number for these
				t.Skip("no secret")
			}
			if strings.ContainsRune(hidden, r) {
				t.Skip("the mark itself would be found")
			}
		}
		search := newSearch([]string{secret})
		text := encode(secret, choice)
		if got := search.replace("~~~"+text, false); !strings.HasPrefix(got, "~~~"+hidden) && !strings.Contains(secret, "~") {
			t.Errorf("%q written %q: %q", secret, text, got)
		}
		out := search.replace(before+text+behind, false)
		if !strings.Contains(out, hidden) || strings.Contains(out, secret) {
			t.Errorf("%q written %q in %q: %q", secret, text, before+text+behind, out)
		}
		if cut := search.replace(before+text, true); strings.Contains(cut, secret) {
			t.Errorf("%q at the end: %q", secret, cut)
		}
	})
}

func TestSearchLeavesOtherTextAlone(t *testing.T) {
	t.Parallel()
	search := newSearch([]string{"s3cr3t", "ab", "", "webhook/x"})
	for _, text := range []string{"", "s3cr3", "s3cr3T", "S3CR3T", "ab", "s3cr 3t", "s3cr%203t", "webhook / x", "%", `\`, "&", `\u`, "%4", "&;", "\xff", "é", "s3cr3\xc3\xb4"} {
		if got := search.replace(text, false); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestSearchHidesTheLongestSecret(t *testing.T) {
	t.Parallel()
	search := newSearch([]string{"hook", "/webhook/hook", "token", "token-2"})
	if got := search.replace("at /webhook/hook with token-2, token and hook", false); got != "at [hidden] with [hidden], [hidden] and [hidden]" {
		t.Errorf("got %s", got)
	}
}

// A row of backslashes can be read in more ways than there is time.
func TestSearchEndsSoon(t *testing.T) {
	t.Parallel()
	search := newSearch([]string{strings.Repeat(`\`, 60) + "x"})
	began := time.Now()
	search.replace(strings.Repeat(`\`, 500)+"y", false)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}
