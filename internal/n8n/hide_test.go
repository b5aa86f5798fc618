package n8n_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// shown is all that people see of an answer.
func shown(a outbox.Answer) string {
	v := outbox.Judge(id(1), a)
	return strings.Join([]string{a.Host, a.Fault, a.Excerpt(), v.Text, v.RunID}, "\n")
}

// secretURL is a URL with a secret in each of its parts.
func secretURL(address, scheme string) string {
	return scheme + "://bot-user:hunter2%40pw@" + address + "/webhook/4f9c-hook/sub%2Fway?token=abc1-key&x=%C3%BCber+all&bare-key"
}

// None of these may be seen, in whatever form it comes back.
var secrets = []string{"bot-user", "hunter2@pw", "hunter2%40pw", "4f9c-hook", "sub/way", "sub%2Fway", "abc1-key", "über all", "bare-key"}

func noSecret(t *testing.T, a outbox.Answer) {
	t.Helper()
	text := shown(a)
	for _, secret := range append([]string{token}, secrets...) {
		if strings.Contains(text, secret) {
			t.Errorf("%q is seen in %q", secret, text)
		}
	}
}

// encodings are the forms in which servers repeat what they were sent.
var encodings = map[string]func(string) string{
	"Plain":       func(s string) string { return s },
	"JSON":        func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"JSONOfASCII": func(s string) string { return strconv.QuoteToASCII(s) },
	"JSONSlashes": func(s string) string { return strings.ReplaceAll(s, "/", `\/`) },
	"JSONAllEscaped": func(s string) string {
		var b strings.Builder
		for _, unit := range utf16.Encode([]rune(s)) {
			fmt.Fprintf(&b, `\u%04X`, unit)
		}
		return b.String()
	},
	"Query": url.QueryEscape,
	"Path":  url.PathEscape,
	"PercentAll": func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			fmt.Fprintf(&b, "%%%02x", c)
		}
		return b.String()
	},
	"HTML": html.EscapeString,
	"HTMLNumbers": func(s string) string {
		var b strings.Builder
		for _, r := range s {
			fmt.Fprintf(&b, "&#x%x;", r)
		}
		return b.String()
	},
	"Latin1AsUTF8": func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			b.WriteRune(rune(c))
		}
		return b.String()
	},
	"Folded": func(s string) string { return strings.ReplaceAll(s, " ", "\r\n\t") },
}

func TestPostShowsNoSecretOfAnEcho(t *testing.T) {
	t.Parallel()
	tokens := []string{token, `a"b\c<d>&e'f/g h+i%j`, "clé-ü-😀", "double  space", `C:\\share\n`}
	s := n8ntest.New(t)
	w := newWebhook(t, secretURL(s.Address(), "http"))
	n := 0
	for name, encode := range encodings {
		for i, secret := range slices.Concat(tokens, secrets) {
			n++
			tok := tokens[n%len(tokens)]
			if i < len(tokens) {
				tok = secret
			}
			text := encode(secret)
			s.Script(id(n), n8ntest.Answer{Status: []int{200, 403, 500}[n%3], Body: "You sent ~" + text + "~."})
			a := w.Post(t.Context(), tok, envelope(n))
			noSecret(t, a)
			if a.Excerpt() != "You sent ~[hidden]~." && a.Excerpt() != `You sent ~"[hidden]"~.` {
				t.Errorf("%s of %q, sent back as %q: %q", name, secret, text, a.Excerpt())
			}
		}
	}
}

// n8n repeats the path in its 404.
func TestPostHidesThePathThatN8nRepeats(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	s.ScriptAll(n8ntest.Answer{Status: 404, Body: `{"code":404,"message":"The requested webhook \"POST 4f9c-hook\" is not registered.","hint":"/webhook/4f9c-hook"}`})
	a := newWebhook(t, "http://"+s.Address()+"/webhook/4f9c-hook").Post(t.Context(), token, envelope(1))
	want := `{"code":404,"message":"The requested webhook \"POST [hidden]\" is not registered.","hint":"[hidden]"}`
	if a.Excerpt() != want {
		t.Errorf("got %s", a.Excerpt())
	}
	// A path that says nothing hides nothing.
	s.ScriptAll(n8ntest.Answer{Status: 404, Body: `Cannot POST / on rest api v1 of webhook`})
	if a := newWebhook(t, "http://"+s.Address()+"/").Post(t.Context(), token, envelope(1)); a.Excerpt() != `Cannot POST / on rest api v1 of webhook` {
		t.Errorf("got %s", a.Excerpt())
	}
}

// A secret that lies across the end of what is looked at, or of what is shown, is
// not seen by its beginning.
func TestPostShowsNoBeginningOfASecret(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, secretURL(s.Address(), "http"))
	piece := func(text string, secret string) string { // longest beginning of the secret that is seen at the end
		for n := len(secret); n >= 3; n-- {
			if strings.Contains(text, secret[:n]) {
				return secret[:n]
			}
		}
		return ""
	}
	for _, end := range []int{300, 4 << 10} {
		for _, filler := range []string{" ", "~", "😀"} {
			for _, encode := range []func(string) string{encodings["Plain"], encodings["PercentAll"], encodings["JSONAllEscaped"]} {
				for cut := range len(token) + 2 {
					units := end / len(filler)
					if end == 300 { // characters
						units = end
					}
					text := encode(token)
					body := strings.Repeat(filler, max(units-cut, 0)) + text + " and more"
					s.Script(id(1), n8ntest.Answer{Status: 200, Body: body})
					a := w.Post(t.Context(), token, envelope(1))
					if p := piece(shown(a), token); p != "" {
						t.Fatalf("%q is seen behind %d of %q, cut at %d: %q", p, end, filler, cut, a.Excerpt())
					}
					if p := piece(shown(a), text); p != "" && text != token {
						t.Fatalf("%q is seen behind %d of %q, cut at %d: %q", p, end, filler, cut, a.Excerpt())
					}
				}
			}
		}
	}
}

// What is hidden takes less room than the secret did, so that the end of what is
// looked at comes into view.
func TestPostShowsNoBeginningOfALongToken(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("s3cr3t-t0k3n", 80)
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n := range 100 {
		s.Script(id(1), n8ntest.Answer{Status: 500, Body: strings.Repeat("~", n) + strings.Repeat(long, 20)})
		if a := w.Post(t.Context(), long, envelope(1)); strings.Contains(a.Excerpt(), "s3c") {
			t.Fatalf("%d in front: %q", n, a.Excerpt())
		}
	}
}

// An excerpt is a short clean line that ends in … where there is more.
func TestPostShowsTheStartOfAnAnswer(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	x300 := strings.Repeat("é", 300)
	for _, c := range []struct{ name, body, want string }{
		{"Empty", "", ""},
		{"Short", "boom", "boom"},
		{"OneLine", "<html>\r\n\t<b>oh\x00no</b>\u2028</html>\n", "<html> <b>oh no</b> </html>"},
		{"ExactlyAsMuch", x300, x300},
		{"OneMore", x300 + "x", x300 + "…"},
		{"ALot", strings.Repeat("é", 1<<18), x300 + "…"},
		{"BrokenUTF8", "a\xffb", "a\ufffdb"},
		{"WhiteSpaceAlone", " \r\n ", ""},
		{"WhiteSpaceWithoutEnd", strings.Repeat(" ", 20_000), "…"},
	} {
		s.Script(id(1), n8ntest.Answer{Status: 500, Body: c.body})
		if a := w.Post(t.Context(), token, envelope(1)); a.Excerpt() != c.want || !utf8.ValidString(a.Excerpt()) {
			t.Errorf("%s: %q, want %q", c.name, a.Excerpt(), c.want)
		}
	}
}

// Whatever goes wrong, host and reason are told, and nothing else of the URL.
func TestPostShowsNoSecretOfAFault(t *testing.T) {
	t.Parallel()
	s, secureServer := n8ntest.New(t), n8ntest.NewTLS(t)
	never := n8ntest.Answer{Close: n8ntest.Never}
	for name, c := range map[string]struct {
		address, scheme string
		answer          n8ntest.Answer
	}{
		"Refused":      {"127.0.0.1:1", "http", never},
		"RefusedTLS":   {"127.0.0.1:1", "https", never},
		"UnknownHost":  {strings.Repeat("x", 64) + ".example", "https", never},
		"Untrusted":    {secureServer.Address(), "https", never},
		"PlainText":    {s.Address(), "https", never},
		"Timeout":      {s.Address(), "http", never},
		"Reset":        {s.Address(), "http", n8ntest.Answer{Close: n8ntest.Reset}},
		"Closed":       {s.Address(), "http", n8ntest.Answer{Close: n8ntest.FIN}},
		"NoHTTP":       {s.Address(), "http", n8ntest.Answer{Raw: "4f9c-hook " + token + "\r\n"}},
		"BadHeader":    {s.Address(), "http", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\n4f9c-hook " + token + "\r\n\r\n"}},
		"OddReason":    {s.Address(), "http", n8ntest.Answer{Raw: "HTTP/1.1 500 4f9c-hook " + token + "\r\nContent-Length: 0\r\n\r\n"}},
		"BrokenPacked": {s.Address(), "http", n8ntest.Answer{Body: token, Header: map[string]string{"Content-Encoding": "gzip"}}},
		"Redirected":   {s.Address(), "http", n8ntest.Answer{Status: 302, Header: map[string]string{"Location": "/webhook/4f9c-hook?" + token}}},
	} {
		t.Run(name, func(t *testing.T) {
			own := n8ntest.New(t)
			if c.address == s.Address() {
				c.address = own.Address()
			}
			own.ScriptAll(c.answer)
			a := newWebhook(t, secretURL(c.address, c.scheme), timeout(300*time.Millisecond)).Post(t.Context(), token, envelope(1))
			noSecret(t, a)
			if a.Host != c.address || !strings.Contains(shown(a), c.address) {
				t.Errorf("the host is not told: %+v", a)
			}
			if a.Fault == "" && a.HTTPStatus < 300 {
				t.Errorf("%+v", a)
			}
		})
	}
}
