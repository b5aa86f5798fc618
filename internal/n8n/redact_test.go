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
	return strings.Join([]string{a.Host, a.Fault, a.RedirectTo, a.Excerpt(), v.Text, v.RunID}, "\n")
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
			t.Errorf("%q shows in %q", secret, text)
		}
	}
}

const withheld = "[answer withheld: it repeats data of the request]"

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

func TestPostQuotesNoEchoOfASecret(t *testing.T) {
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
			if a.Excerpt() != withheld {
				t.Errorf("%s of %q, sent back as %q: %q", name, secret, text, a.Excerpt())
			}
		}
	}
}

// n8n repeats the path in its 404. A path that says nothing withholds nothing.
func TestPostWithholdsThePathThatN8nRepeats(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	for _, c := range []struct{ path, body, want string }{
		{"/webhook/4f9c-hook", `{"code":404,"message":"The requested webhook \"POST 4f9c-hook\" is not registered.","hint":"/webhook/4f9c-hook"}`, withheld},
		{"/", `Cannot POST / on rest api v1 of webhook`, `Cannot POST / on rest api v1 of webhook`},
		{"/rest/a/b/c", `Cannot POST /rest/a/b/c`, withheld},
		{"/webhook/a?b=c", `Cannot POST /webhook/a`, `Cannot POST /webhook/a`}, // too short to be told from ordinary words
	} {
		s.ScriptAll(n8ntest.Answer{Status: 404, Body: c.body})
		if a := newWebhook(t, "http://"+s.Address()+c.path).Post(t.Context(), token, envelope(1)); a.Excerpt() != c.want {
			t.Errorf("%s: %s", c.path, a.Excerpt())
		}
	}
}

// A secret that lies across the end of what is compared, or of what is quoted, does
// not show by its beginning; nor does one that the answer itself cut off.
func TestPostQuotesNoBeginningOfASecret(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, secretURL(s.Address(), "http"))
	begins := func(text string, secret string) string { // longest beginning of the secret that shows
		for n := len(secret); n >= 3; n-- {
			if strings.Contains(text, secret[:n]) {
				return secret[:n]
			}
		}
		return ""
	}
	for _, end := range []int{300, 1 << 10, 2 << 10} {
		for _, filler := range []string{" ", "~", "😀"} {
			for _, encode := range []func(string) string{encodings["Plain"], encodings["PercentAll"], encodings["JSONAllEscaped"]} {
				for cut := range len(token) + 2 {
					units := end / len(filler)
					if end == 300 { // characters
						units = end
					}
					text := encode(token)
					s.Script(id(1), n8ntest.Answer{Body: strings.Repeat(filler, max(units-cut, 0)) + text + " and more"})
					a := w.Post(t.Context(), token, envelope(1))
					for _, secret := range []string{token, text} {
						if p := begins(shown(a), secret); p != "" {
							t.Fatalf("%q shows after %d of %q, cut at %d: %q", p, end, filler, cut, a.Excerpt())
						}
					}
				}
			}
		}
	}
	for name, answer := range map[string]n8ntest.Answer{
		"BrokenOff":        {Raw: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nYou sent " + token[:7]},
		"BrokenOffAnError": {Raw: "HTTP/1.1 500 Oh\r\nContent-Length: 500\r\n\r\nYou sent " + token[:7]},
		"CutByTheServer":   {Body: "You sent " + token[:9] + "..."},
		"CutInFront":       {Body: "You sent ..." + token[3:]},
	} {
		s.Script(id(1), answer)
		if p := begins(shown(w.Post(t.Context(), token, envelope(1))), token); p != "" {
			t.Errorf("%s: %q shows", name, p)
		}
	}
	long := strings.Repeat("s3cr3t-t0k3n", 80)
	for n := range 100 {
		s.Script(id(1), n8ntest.Answer{Status: 500, Body: strings.Repeat("~", n) + strings.Repeat(long, 20)})
		if a := w.Post(t.Context(), long, envelope(1)); a.Excerpt() != withheld {
			t.Fatalf("a long token after %d: %q", n, a.Excerpt())
		}
	}
}

// Values of the payload do not come back in a quotation, whole or in part, in
// whatever form; what every tool shows anyway, and the names of members, may.
func TestPostQuotesNoValueOfTheEvent(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	const payload = `"correlation_id":"c-4711","aggregate":{"type":"customer","id":"k-1"},"data":{"name":"Jörg O'Hara","born":19840229,"note":"lives at the end of the long road behind the mill","tags":["vip"],"by":{"jo@example.com":1,"u_17":2}}`
	request := func(payload string) []byte {
		return []byte(`{"event_id":"` + id(1) + `","event_type":"customer.moved","occurred_at":"2025-01-02T03:04:05+00:00",` + payload + `}`)
	}
	quoted, _ := json.Marshal(string(request(payload)))
	short := request(`"correlation_id":1,"aggregate":null,"data":{"n":42,"s":"ab"}`)
	for _, c := range []struct {
		name   string
		sent   []byte
		answer string
		shown  bool
	}{
		{"TheRequestItself", request(payload), string(request(payload)), false},
		{"TheRequestInAString", request(payload), `{"message":` + string(quoted) + `}`, false},
		{"TheRequestTwiceEncoded", request(payload), url.QueryEscape(url.QueryEscape(string(request(payload)))), false},
		{"TheRequestInHTML", request(payload), "<pre>" + html.EscapeString(string(request(payload))) + "</pre>", false},
		{"TheRequestOfShortValues", short, `{"error":` + strings.ReplaceAll(string(short), ",", ", ") + `}`, false},
		{"AText", request(payload), "no such customer: Jörg O'Hara", false},
		{"ATextInCapitals", request(payload), "NO SUCH PERSON: JÖRG  O'HARA", false},
		{"ATextEscaped", request(payload), `no such person: J\u00f6rg O\u0027Hara`, false},
		{"ATextEncoded", request(payload), "/search?q=J%C3%B6rg+O%27Hara", false},
		{"ANumber", request(payload), "born 19840229", false},
		{"TheCorrelation", request(payload), "see c-4711", false},
		{"TheBeginningOfAValue", request(payload), "note: lives at the end...", false},
		{"PartOfAValue", request(payload), "...the end of the long road behind...", false},
		{"AKeyThatIsAnAddress", request(payload), "jo@example.com", false},
		{"AValueAcrossTheEndOfTheExcerpt", request(payload), strings.Repeat("~", 295) + "Jörg O'Hara", false},
		{"OneOfTwoMembersOfAName", request(strings.Replace(payload, `"name"`, `"name":"Ringelnatz","name"`, 1)), "Ringelnatz", false},
		{"AKey", request(payload), "name and note of u_17 are too long", true},
		{"AShortValue", request(payload), "vip k-1", true},
		{"WhatEveryToolShows", request(payload), `{"ok":false,"event_id":"` + id(1) + `","error":"unknown type customer.moved of 2025-01-02"}`, false}, // for the "customer" in it
		{"AnIDThatIsShown", request(`"correlation_id":null,"aggregate":null,"data":{}`), `{"ok":false,"event_id":"` + id(1) + `","error":"unknown type customer.moved"}`, true},
		{"ATruth", request(`"correlation_id":null,"aggregate":null,"data":{"a":true,"b":null}`), "null is not true", true},
		{"NoJSON", []byte(`{"event_id":"` + id(1) + `"`), "boom", false},
	} {
		s.Script(id(1), n8ntest.Answer{Status: 500, Body: c.answer})
		want := withheld
		if c.shown {
			want = c.answer
		}
		if a := w.Post(t.Context(), token, c.sent); a.Excerpt() != want {
			t.Errorf("%s: %q", c.name, a.Excerpt())
		}
	}
	s.Script(id(1), n8ntest.Answer{Status: 500, Body: "boom"})
	if a := w.Post(t.Context(), token, large(1, 1<<20)); !strings.HasPrefix(a.Excerpt(), "[answer withheld: the request is too large") {
		t.Errorf("a large request: %q", a.Excerpt())
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

// Whatever goes wrong, the text names host and reason, and nothing else of the URL.
func TestPostShowsNoSecretOfAFault(t *testing.T) {
	t.Parallel()
	s, secureServer := n8ntest.New(t), n8ntest.NewTLS(t)
	never := n8ntest.Answer{Close: n8ntest.Never}
	for name, c := range map[string]struct {
		address, scheme string
		answer          n8ntest.Answer
	}{
		"Refused":       {"127.0.0.1:1", "http", never},
		"RefusedTLS":    {"127.0.0.1:1", "https", never},
		"UnknownHost":   {strings.Repeat("x", 64) + ".example", "https", never},
		"Untrusted":     {secureServer.Address(), "https", never},
		"PlainText":     {s.Address(), "https", never},
		"Timeout":       {s.Address(), "http", never},
		"Reset":         {s.Address(), "http", n8ntest.Answer{Close: n8ntest.Reset}},
		"Closed":        {s.Address(), "http", n8ntest.Answer{Close: n8ntest.FIN}},
		"NoHTTP":        {s.Address(), "http", n8ntest.Answer{Raw: "4f9c-hook " + token + "\r\n"}},
		"BadHeader":     {s.Address(), "http", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\n4f9c-hook " + token + "\r\n\r\n"}},
		"OddReason":     {s.Address(), "http", n8ntest.Answer{Raw: "HTTP/1.1 500 4f9c-hook " + token + "\r\nContent-Length: 0\r\n\r\n"}},
		"InvalidGzip":   {s.Address(), "http", n8ntest.Answer{Body: token, Header: map[string]string{"Content-Encoding": "gzip"}}},
		"Redirected":    {s.Address(), "http", n8ntest.Answer{Status: 302, Body: "4f9c-hook", Header: map[string]string{"Location": "/webhook/4f9c-hook?" + token}}},
		"ToASecretHost": {s.Address(), "http", n8ntest.Answer{Status: 302, Header: map[string]string{"Location": "https://" + token + ".example/"}}},
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
				t.Errorf("the host does not show: %+v", a)
			}
			if a.Fault == "" && a.HTTPStatus < 300 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// A redirect names the host that it points to, and nothing else of its Location.
func TestPostNamesTheHostOfARedirect(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for _, c := range []struct{ location, want string }{
		{"https://user:pw@login.example:8443/sso?next=%2Fwebhook&state=abc#x", "https://login.example:8443"},
		{"/login?next=x", "http://" + s.Address()},
		{"//login.example/", "http://login.example"},
		{"https://" + token + ".example/", withheld},
		{"", ""},
		{"https://[broken", ""},
	} {
		s.Script(id(1), n8ntest.Answer{Status: 302, Body: "Found: " + c.location, Header: map[string]string{"Location": c.location}})
		a := w.Post(t.Context(), token, envelope(1))
		text := outbox.Judge(id(1), a).Text
		if a.RedirectTo != c.want || strings.ContainsAny(text, "?@#") || c.want != "" && !strings.HasSuffix(text, ": redirects to "+c.want) {
			t.Errorf("%q: %q; %s", c.location, a.RedirectTo, text)
		}
	}
	if s.Connections() == 0 || s.Count() != 6 {
		t.Errorf("%d POSTs", s.Count())
	}
}
