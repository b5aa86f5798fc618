package outbox

import "strings"

// TokenHeader carries the webhook token.
const TokenHeader = "X-Fleet-Ops-Trigger-Token"

// HeaderToken trims the white space behind a token, which editors and shells
// leave there, and reports whether what remains can be the value of a header:
// not empty, and no control characters.
func HeaderToken(s string) (token string, ok bool) {
	token = strings.TrimRight(s, " \t\r\n\v\f\u00a0")
	for i := 0; i < len(token); i++ {
		if c := token[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", false
		}
	}
	return token, token != "" && token[0] != ' ' && token[0] != '\t'
}
