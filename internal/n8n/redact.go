package n8n

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"outbox-dispatcher/internal/outbox"
)

// An answer may repeat what it was sent: n8n puts the path of the webhook into its
// 404, a workflow or a proxy may return the whole request. So an answer is quoted
// only if it repeats nothing of the token, the URL (but for its host) and the
// payload; if it does, it is withheld as a whole. Neither side is quoted in part:
// to know where a secret ends, one has to know each form it may have come in.
//
// Compared are the answer and what it must not repeat, each as it is and with the
// escapes of URLs, JSON and HTML undone, up to maxRounds times, without regard to
// case and white space. event_id, event_type and occurred_at may be quoted: they
// are columns that every tool shows.
const (
	withheld         = "[answer withheld: it repeats data of the request]"
	withheldUnproved = "[answer withheld: the request is too large to compare it with]"

	// excerptRunes is how much of an answer people see in last_error.
	excerptRunes = 300
	// The excerpt is made of quotedBytes. More is compared, so that what begins in
	// the excerpt and goes on after it is recognised: a dozen characters of it are
	// enough, and escaped three times they take some hundred bytes.
	quotedBytes   = 1 << 10
	comparedBytes = 2 << 10
	// maxRequest bounds what an answer is compared with: BenchmarkExcerpt.
	maxRequest = 64 << 10
	maxRounds  = 8
)

// Shorter texts stand in ordinary words by chance. Of a longer one a part of so many
// bytes counts as well: any part of a secret, and the parts that a value is made of
// when it is cut from its beginning.
const (
	shortestSecret, secretPart = 3, 8
	shortestValue, valuePart   = 4, 12
)

// redactor decides whether an answer may be quoted.
type redactor struct {
	secrets []string // of the URL, in every form
}

// commonSegments of a webhook's path give nothing away.
var commonSegments = []string{"", "webhook", "webhook-test", "webhook-waiting", "rest", "api", "v1", "form", "mcp"}

func newRedactor(u *url.URL) *redactor {
	r := &redactor{}
	if u.User != nil {
		name := u.User.Username()
		password, _ := u.User.Password()
		r.add(name, password, base64.StdEncoding.EncodeToString([]byte(name+":"+password)))
	}
	path := slices.DeleteFunc(strings.Split(u.EscapedPath(), "/"), func(s string) bool { return slices.Contains(commonSegments, s) })
	r.add(path...)
	r.add(strings.Join(path, "/"))
	for _, pair := range strings.FieldsFunc(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		_, value, found := strings.Cut(pair, "=")
		if !found { // a key without a value is a value without a key
			value = pair
		}
		r.add(value)
	}
	return r
}

func (r *redactor) add(secrets ...string) {
	for _, s := range secrets {
		r.secrets = append(r.secrets, secretForms(s)...)
	}
}

// secretForms adds to the forms of a secret those that they take where UTF-8 is read
// as Latin-1, as Node reads headers.
func secretForms(s string) []string {
	all := forms(s)
	for _, form := range all {
		latin1 := make([]rune, len(form))
		for i := range len(form) {
			latin1[i] = rune(form[i])
		}
		all = append(all, squeeze(string(latin1)))
	}
	return all
}

// excerpt returns the start of an answer for people, or says why it is withheld.
func (r *redactor) excerpt(answer []byte, token string, request []byte) string {
	quoted := answer[:min(len(answer), quotedBytes)]
	whole := outbox.CleanTo(string(quoted), quotedBytes)
	short := outbox.CleanTo(whole, excerptRunes)
	if short != whole || len(quoted) < len(answer) {
		short += "…"
	}
	switch {
	case short == "":
		return ""
	case len(request) > maxRequest:
		return withheldUnproved
	case r.repeats(answer[:min(len(answer), comparedBytes)], token, request):
		return withheld
	}
	return short
}

// repeats reports whether an answer repeats a secret or a value of the request.
func (r *redactor) repeats(answer []byte, token string, request []byte) bool {
	texts := forms(string(answer))
	for _, secret := range append(secretForms(token), r.secrets...) {
		if holds(texts, secret, shortestSecret, secretPart, 1) {
			return true
		}
	}
	var payload struct {
		CorrelationID json.RawMessage `json:"correlation_id"`
		Aggregate     json.RawMessage `json:"aggregate"`
		Data          json.RawMessage `json:"data"`
	}
	if json.Unmarshal(request, &payload) != nil {
		return true // nothing is known of it
	}
	for _, member := range []json.RawMessage{payload.CorrelationID, payload.Aggregate, payload.Data} {
		if repeatsValue(texts, member) {
			return true
		}
	}
	return false
}

// repeatsValue reports whether the texts hold a string or number of a JSON document,
// or the whole of an object or array, however short its values are. Of the keys
// only those count that are not plain names, such as an email address.
func repeatsValue(texts []string, document json.RawMessage) bool {
	tokens := json.NewDecoder(bytes.NewReader(document))
	tokens.UseNumber()
	for {
		token, err := tokens.Token()
		if err != nil { // the end, since the document is valid
			break
		}
		var value string
		switch t := token.(type) {
		case string:
			after := bytes.TrimLeft(document[tokens.InputOffset():], " \t\r\n")
			if value = t; isName(t) && bytes.HasPrefix(after, []byte(":")) {
				continue
			}
		case json.Number:
			value = t.String()
		}
		for _, form := range forms(value) {
			if holds(texts, form, shortestValue, valuePart, valuePart) {
				return true
			}
		}
	}
	isComposite := len(document) > 0 && (document[0] == '{' || document[0] == '[')
	return isComposite && holds(texts, squeeze(string(document)), shortestValue, len(document), 1)
}

func isName(key string) bool {
	return key != "" && !unicode.IsDigit(rune(key[0])) &&
		strings.Trim(key, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") == ""
}

// holds reports whether a text holds an item. Of an item longer than part bytes it
// is enough that a text holds such a part of it, taken every step bytes.
func holds(texts []string, item string, shortest, part, step int) bool {
	for from := 0; len(item) >= shortest && (from == 0 || from+part <= len(item)); from += step {
		piece := item[from:min(from+part, len(item))]
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, piece) }) {
			return true
		}
	}
	return false
}

// forms returns a text as it is compared: as it is, and with its escapes undone once
// and again.
func forms(s string) []string {
	all := []string{squeeze(s)}
	for range maxRounds {
		plain := unescape(s)
		if plain == s {
			break
		}
		s = plain
		all = append(all, squeeze(s))
	}
	return all
}

// squeeze leaves out what differs between copies of one text: case, white space
// (a + in URLs), what cannot be seen, and the backslashes of escapes.
func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '+' || r == '\\' || unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// escapes matches an escape of URLs, HTML or JSON. A backslash before an escape of
// another kind is not one.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`%[0-9A-Fa-f]{2}|&#?[0-9A-Za-z]{1,12};|\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[0-9A-Fa-f]{4}|\\u[0-9A-Fa-f]{4}|\\[^%&]`)
})

// unescape undoes escapes once.
func unescape(s string) string {
	if !strings.ContainsAny(s, `&%\`) {
		return s
	}
	return escapes().ReplaceAllStringFunc(s, func(escape string) (plain string) {
		switch {
		case escape[0] == '&':
			return html.UnescapeString(escape)
		case escape[0] == '%':
			c, _ := hex.DecodeString(escape[1:])
			return string(c)
		case json.Unmarshal([]byte(`"`+escape+`"`), &plain) == nil:
			return plain
		}
		return escape[1:]
	})
}
