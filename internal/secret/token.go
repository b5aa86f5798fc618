package secret

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/outbox"
)

// DefaultTokenKey is the member of a JSON secret that holds the webhook token.
const DefaultTokenKey = "token"

// Token reads the webhook token from a secret: the bare text, a JSON string, or a JSON
// object whose member Key is the token. White space at its end is trimmed.
type Token struct {
	Reader *Reader
	ID     string // name or ARN
	Key    string // empty: DefaultTokenKey
}

var (
	_ cycle.Tokens = Token{}
	_ cycle.Tokens = Static("")
)

// Token returns the token, at most MaxAge old. Returns a *SecretError if the secret
// cannot be read or holds no value for an HTTP header.
func (t Token) Token(ctx context.Context) (string, error) { return t.read(ctx, false) }

// Refresh reads the token again, for when n8n refuses the one we have.
func (t Token) Refresh(ctx context.Context) (string, error) { return t.read(ctx, true) }

func (t Token) read(ctx context.Context, fresh bool) (string, error) {
	text, err := t.Reader.value(ctx, t.ID, fresh)
	if err != nil {
		return "", err
	}
	token, problem := parseToken(text, cmp.Or(t.Key, DefaultTokenKey))
	if problem != "" {
		t.Reader.forget(t.ID)
		return "", wrong(t.ID, problem)
	}
	return token, nil
}

// parseToken finds the token in the text of a secret, or says what is wrong with it.
func parseToken(text, key string) (token, problem string) {
	where := ""
	switch doc := strings.TrimSpace(text); {
	case doc == "":
	case doc[0] == '{':
		members, ok := object(doc)
		if !ok {
			return "", "starts like a JSON object but is not one; correct it, or store the token as plain text"
		}
		value, ok := members[key]
		if !ok {
			return "", fmt.Sprintf("is a JSON object without the key %q; add it, or set N8N_TOKEN_SECRET_KEY to the right one", key)
		}
		if text, ok = str(value); !ok {
			return "", fmt.Sprintf("has no string under the key %q; store the token there as a JSON string", key)
		}
		where = fmt.Sprintf("has a token under the key %q that ", key)
	case doc[0] == '[' && json.Valid([]byte(doc)):
		return "", fmt.Sprintf("is a JSON array; store the token as plain text, or in a JSON object under the key %q", key)
	case doc[0] == '"':
		if s, ok := str([]byte(doc)); ok {
			text = s
		}
		if _, ok := object(text); ok {
			return "", "is a JSON object inside a JSON string; store the object itself, or the token as plain text"
		}
	}
	token, err := outbox.HeaderToken(text)
	if err != nil {
		return "", where + err.Error()
	}
	return token, ""
}

// object reads a JSON object with nothing after it. Keys are case-sensitive.
func object(text string) (members map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal([]byte(text), &members)
	return members, err == nil && members != nil
}

// str reads a JSON string.
func str(value json.RawMessage) (s string, ok bool) {
	var p *string
	if err := json.Unmarshal(value, &p); err != nil || p == nil {
		return "", false
	}
	return *p, true
}

// Static is the token itself, from N8N_WEBHOOK_TRIGGER_TOKEN, for runs outside AWS.
// Package config has checked it.
type Static string

// Token returns the token.
func (s Static) Token(context.Context) (string, error) { return string(s), nil }

// Refresh returns the same token: there is nowhere to read another one from.
func (s Static) Refresh(context.Context) (string, error) { return string(s), nil }

// String keeps the token out of logs.
func (s Static) String() string { return "[redacted]" }

// GoString keeps it out of %#v.
func (s Static) GoString() string { return s.String() }
