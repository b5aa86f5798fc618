package secret

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// Login is what a secret says of the database. A member that the secret lacks is
// its zero value, for the PG* variables to fill: a secret managed by RDS holds
// username and password alone.
type Login struct {
	Host     string
	Port     uint16
	Database string
	User     string
	Password string
}

// String shows the login without its password.
func (l Login) String() string {
	return fmt.Sprintf("{Host:%s Port:%d Database:%s User:%s Password:%s}", l.Host, l.Port, l.Database, l.User, hidden)
}

// GoString keeps the password out of %#v.
func (l Login) GoString() string { return "secret.Login" + l.String() }

// Database is the login of the database as a secret holds it: the JSON object
// that RDS writes, with username, password, host, port and dbname.
type Database struct {
	Reader *Reader
	ID     string // name or ARN
}

// Login returns the login, at most MaxAge old, or reads it again if fresh is set:
// for when the database refuses the password. Returns a *SecretError if it cannot be
// read or is of another shape.
func (d Database) Login(ctx context.Context, fresh bool) (Login, error) {
	text, err := d.Reader.value(ctx, d.ID, fresh)
	if err != nil {
		return Login{}, err
	}
	login, problem := parseLogin(text)
	if problem != "" {
		d.Reader.forget(d.ID)
		return Login{}, wrong(d.ID, problem)
	}
	return login, nil
}

// parseLogin reads the text of a secret, or says what is wrong.
func parseLogin(text string) (l Login, problem string) {
	members, ok := object(text)
	if !ok {
		return Login{}, `is no JSON object; store username and password, and if you like host, port and dbname, as RDS does`
	}
	for key, to := range map[string]*string{"host": &l.Host, "dbname": &l.Database, "username": &l.User, "password": &l.Password} {
		if *to, ok = optional(members[key]); !ok {
			return Login{}, fmt.Sprintf("holds no text under the key %q; store a JSON string there", key)
		}
	}
	if l.Port, ok = port(members["port"]); !ok {
		return Login{}, `holds no port under the key "port"; store a number from 1 to 65535 there`
	}
	return l, ""
}

// absent tells a member that is not there or is null.
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
