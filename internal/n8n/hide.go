package n8n

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"outbox-dispatcher/internal/outbox"
)

const (
	// excerptRunes is how much of an answer people see in last_error.
	excerptRunes = 300
	// excerptBytes of an answer are looked at for that: enough that white space
	// and what is hidden leave excerptRunes of an ordinary page.
	excerptBytes = 4 << 10
	// shortestSecret: a shorter text stands in ordinary words, and hides nothing.
	shortestSecret = 3
)

// hidden stands where a secret stood.
const hidden = "[hidden]"

// hider takes out of an answer what must not be shown: n8n repeats the path of
// the webhook in its 404, and a proxy may repeat anything.
type hider struct {
	secrets []string // of the URL
	last    atomic.Pointer[tokenSearch]
}

// tokenSearch is the search for the secrets of the URL and one token. The token
// seldom changes.
type tokenSearch struct {
	token string
	*search
}

// common parts of a webhook's path, which give nothing away.
var common = []string{"webhook", "webhook-test", "webhook-waiting", "rest", "api", "v1", "form", "mcp"}

func newHider(u *url.URL) *hider {
	var secrets []string
	if u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, u.User.Username(), password, u.User.String(),
			base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		secrets = append(secrets, strings.Split(u.User.String(), ":")...)
	}
	secrets = append(secrets, u.RawQuery)
	for _, pair := range strings.FieldsFunc(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		secret := pair // a key without a value is a value without a key
		if _, value, ok := strings.Cut(pair, "="); ok {
			secret = value
		}
		secrets = append(secrets, secret)
		if plain, err := url.QueryUnescape(secret); err == nil {
			secrets = append(secrets, plain)
		}
	}
	for _, path := range []string{u.Path, u.EscapedPath()} {
		secrets = append(secrets, path, strings.Trim(path, "/"))
		secrets = append(secrets, strings.Split(path, "/")...)
	}
	for _, segment := range strings.Split(u.EscapedPath(), "/") {
		if plain, err := url.PathUnescape(segment); err == nil {
			secrets = append(secrets, plain)
		}
	}
	return &hider{secrets: slices.DeleteFunc(secrets, func(s string) bool { return slices.Contains(common, s) })}
}

// excerpt returns the start of an answer for people. token is hidden as well.
func (h *hider) excerpt(body []byte, token string) string {
	if len(body) == 0 {
		return ""
	}
	cut := len(body) > excerptBytes
	secrets := h.search(token)
	hiding := secrets.replace(string(body[:min(len(body), excerptBytes)]), cut)
	s := outbox.CleanTo(hiding, excerptBytes)
	if s != hiding { // white space and control characters can have broken a secret up
		s = secrets.replace(s, cut)
	}
	short := outbox.CleanTo(s, excerptRunes)
	if cut || short != s {
		short += "…"
	}
	return short
}

func (h *hider) search(token string) *search {
	if last := h.last.Load(); last != nil && last.token == token {
		return last.search
	}
	secrets := append([]string{token}, h.secrets...)
	for _, secret := range secrets { // as they are after cleaning
		secrets = append(secrets, outbox.Clean(secret))
	}
	s := newSearch(secrets)
	h.last.Store(&tokenSearch{token, s})
	return s
}
