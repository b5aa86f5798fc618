package outbox

import (
	"strings"
	"unicode"
)

// TokenHeader carries the webhook token.
const TokenHeader = "X-Fleet-Ops-Trigger-Token"

// HeaderToken trims the white space behind a token, which editors and shells
// leave there, and reports whether what remains can be the value of a header:
// not empty, no space in front, and no control characters.
func HeaderToken(s string) (token string, ok bool) {
	token = strings.TrimRightFunc(s, unicode.IsSpace)
	for i := 0; i < len(token); i++ {
		if c := token[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", false
		}
	}
	if token == "" || token[0] == ' ' || token[0] == '\t' {
		return "", false
	}
	return token, true
}
