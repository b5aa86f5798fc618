package n8n

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"

	"outbox-dispatcher/internal/outbox"
)

const (
	// excerptRunes is how much of an answer people see in last_error.
	excerptRunes = 300
	// looked at bytes of an answer for the excerpt: enough that white space and
	// what is hidden leave excerptRunes, and more than any secret is long.
	excerptBytes = 16 << 10
	// shortestSecret: a shorter text stands in ordinary words, and hides nothing.
	shortestSecret = 3
)

// hidden stands where a secret stood.
const hidden = "[hidden]"

// hider takes out of an answer what must not be shown: n8n repeats the path of
// the webhook in its 404, and a proxy may repeat anything.
type hider struct {
	secrets []string // of the URL, the longest first
}

// common parts of a webhook's path, which give nothing away.
var common = []string{"webhook", "webhook-test", "webhook-waiting", "rest", "api", "v1", "form", "mcp"}

func newHider(u *url.URL) *hider {
	var parts []string
	if u.User != nil {
		password, _ := u.User.Password()
		parts = append(parts, u.User.Username(), password, u.User.String(),
			base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	parts = append(parts, u.RawQuery)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	if u.Path != "/" {
		parts = append(parts, u.Path, u.EscapedPath(), strings.Trim(u.Path, "/"), strings.Trim(u.EscapedPath(), "/"))
	}
	for _, segment := range strings.Split(u.Path, "/") {
		if !slices.Contains(common, segment) {
			parts = append(parts, segment)
		}
	}
	return &hider{secrets: forms(parts)}
}

// forms returns each text in every form in which an answer may repeat it, the
// longest first, so that no part of a longer one stays.
func forms(parts []string) []string {
	var all []string
	for _, p := range parts {
		quoted, _ := json.Marshal(p) // a string always encodes
		inJSON := string(quoted[1 : len(quoted)-1])
		for _, form := range []string{p, inJSON, strings.ReplaceAll(inJSON, "/", `\/`), url.QueryEscape(p), url.PathEscape(p), html.EscapeString(p), outbox.Clean(p)} {
			if len(form) >= shortestSecret {
				all = append(all, form)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}

// excerpt returns the start of an answer for people. token is hidden as well.
func (h *hider) excerpt(body []byte, token string) string {
	if len(body) == 0 {
		return ""
	}
	cut := len(body) > excerptBytes
	s := string(body[:min(len(body), excerptBytes)])
	for _, secrets := range [][]string{forms([]string{token}), h.secrets} {
		for _, secret := range secrets {
			s = strings.ReplaceAll(s, secret, hidden)
		}
	}
	s = outbox.CleanTo(s, excerptRunes+1)
	// White space that was folded can have hidden a secret from the first look.
	for _, secret := range append(forms([]string{token}), h.secrets...) {
		s = strings.ReplaceAll(s, secret, hidden)
	}
	short := outbox.CleanTo(s, excerptRunes)
	if cut || short != s {
		short += "…"
	}
	return short
}
