package outbox

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// TokenHeader carries the webhook token.
const TokenHeader = "X-Fleet-Ops-Trigger-Token"

// HeaderToken returns the token without the white space at its end, which editors
// and shells leave there. A token that cannot be the value of a header is an error
// that says where its first wrong character is and never shows it. Beyond ASCII
// there is no agreed encoding for a header: n8n would compare other bytes and answer
// 403 for ever.
func HeaderToken(s string) (string, error) {
	token := strings.TrimRightFunc(s, unicode.IsSpace)
	switch {
	case token == "":
		return "", errors.New("is empty")
	case token[0] == ' ' || token[0] == '\t':
		return "", errors.New("starts with white space; store the token alone")
	}
	place := 0
	for _, c := range token {
		place++
		what := "not ASCII"
		switch {
		case c < ' ' && c != '\t' || c == 0x7f:
			what = "a control character"
		case c < 0x7f:
			continue
		}
		return "", fmt.Errorf("cannot be an HTTP header value: character %d is %s; store the token alone", place, what)
	}
	return token, nil
}
