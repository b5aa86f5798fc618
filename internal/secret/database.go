package secret

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"outbox-dispatcher/internal/config"
)

// Database reads the login of the database from a secret: the JSON object that RDS
// writes, with username, password, host, port and dbname.
type Database struct {
	Reader *Reader
	ID     string // name or ARN
}

// Login returns the login, at most MaxAge old, or reads the secret again if fresh is
// set: for when the database refuses the password. Returns a *SecretError if the secret
// cannot be read or has another shape.
func (d Database) Login(ctx context.Context, fresh bool) (config.Login, error) {
	text, err := d.Reader.value(ctx, d.ID, fresh)
	if err != nil {
		return config.Login{}, err
	}
	login, problem := parseLogin(text)
	if problem != "" {
		d.Reader.forget(d.ID)
		return config.Login{}, wrong(d.ID, problem)
	}
	return login, nil
}

// parseLogin reads the text of a secret, or says what is wrong with it.
func parseLogin(text string) (l config.Login, problem string) {
	members, ok := object(text)
	if !ok {
		return config.Login{}, `is not a JSON object; store username and password in one, and optionally host, port and dbname, as RDS does`
	}
	for key, to := range map[string]*string{"host": &l.Host, "dbname": &l.Database, "username": &l.User, "password": &l.Password} {
		if *to, ok = optional(members[key]); !ok {
			return config.Login{}, fmt.Sprintf("has no string under the key %q; store a JSON string there", key)
		}
	}
	if l.Port, ok = port(members["port"]); !ok {
		return config.Login{}, `has no port under the key "port"; store a number from 1 to 65535 there`
	}
	return l, ""
}

// absent reports whether a member is missing or null.
func absent(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// optional reads a member that is a string or absent.
func optional(value json.RawMessage) (string, bool) {
	if absent(value) {
		return "", true
	}
	return str(value)
}

// port reads a port: RDS writes a number, people write a string. 0 if absent.
func port(value json.RawMessage) (uint16, bool) {
	if absent(value) {
		return 0, true
	}
	digits := string(value)
	if s, ok := str(value); ok {
		digits = s
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return uint16(n), err == nil && n > 0
}
