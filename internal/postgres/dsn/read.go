package dsn

import (
	"net/url"
	"strings"
	"unicode"
)

const (
	notPostgres = "is not a URL of Postgres, which starts with postgres:// or postgresql://"
	unreadable  = "cannot be read: neither a URL such as postgres://user@host:5432/database nor libpq's key=value form"
	unescaped   = "cannot be read: in a URL, write @ : / ? # % and spaces in a user name or password as %40 %3A %2F %3F %23 %25 %20"
)

// read splits a connection string into its parameters, as libpq does. It also takes what
// people add: white space and quotes around it, a scheme in capitals or with the driver
// of SQLAlchemy. A key that is unknown and might be a piece of a password is empty.
func read(text string) (params map[string]string, problem string) {
	text = trim(text)
	scheme, rest, isURL := strings.Cut(text, "://")
	key, _, _ := strings.Cut(scheme, "=")
	switch {
	case text == "":
		return nil, ""
	case isURL && isPostgres(scheme):
		return readURL(rest)
	case isURL && !isKnown(strings.TrimSpace(key)):
		return nil, notPostgres
	}
	return readWords(text)
}

func trim(text string) string {
	blank := func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' || r == '\u200b' }
	for {
		text = strings.TrimLeftFunc(text, blank)
		n := len(strings.TrimRightFunc(text, blank))
		if n < len(text) && strings.HasSuffix(text[:n], `\`) {
			n++ // an escaped space ends the last value
		}
		text = text[:n]
		if n < 2 || text[0] != text[n-1] || text[0] != '"' && text[0] != '\'' {
			return text
		}
		text = text[1 : n-1]
	}
}

func isPostgres(scheme string) bool {
	name, driver, _ := strings.Cut(strings.ToLower(scheme), "+")
	return (name == "postgres" || name == "postgresql") && (driver == "" || isWord(driver))
}

// isWord reports whether a text looks like the name of a parameter.
func isWord(s string) bool {
	return s != "" && len(s) <= 40 && (s[0] < '0' || s[0] > '9') && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// readURL reads what follows the scheme: [user[:password]@][host[:port],...][/database][?key=value&...]
func readURL(rest string) (params map[string]string, problem string) {
	params = map[string]string{}
	add := func(key, value string) {
		value, err := url.PathUnescape(strings.Trim(value, " "))
		if err != nil {
			problem = unescaped
		}
		params[key] = value
	}
	// The user part ends at an @ before any slash. Another one means that the password
	// holds some of them: a piece of it would be a host, and go to DNS.
	i := strings.IndexAny(rest, "@/")
	hasUser := i >= 0 && rest[i] == '@'
	if hasUser {
		user, password, _ := strings.Cut(rest[:i], ":")
		rest = rest[i+1:]
		add("user", user)
		add("password", password)
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(rest, "@") || hasUser && strings.Contains(query, "@") {
		return nil, unescaped
	}
	where, database, _ := strings.Cut(rest, "/")
	add("dbname", database)
	var hosts, ports []string
	for one := range strings.SplitSeq(where, ",") {
		host, port, _ := strings.Cut(one, ":")
		if six, found := strings.CutPrefix(one, "["); found {
			if host, port, found = strings.Cut(six, "]"); !found || port != "" && port[0] != ':' {
				return nil, unreadable
			}
			port = strings.TrimPrefix(port, ":")
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	if where != "" {
		add("host", strings.Join(hosts, ","))
		add("port", strings.Join(ports, ","))
	}
	// An @ in the query may end a password with a question mark in it, and what follows a
	// password may be the rest of one with an ampersand in it.
	showable := !strings.Contains(query, "@")
	for _, one := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' }) {
		key, value, found := strings.Cut(one, "=")
		key, err := url.PathUnescape(strings.Trim(key, " "))
		switch {
		case !found || err != nil:
			return nil, unreadable
		case key == "ssl" && value == "true": // of JDBC
			key, value = "sslmode", "require"
		case !isKnown(key) && !(showable && isWord(key)):
			key = ""
		}
		add(key, value)
		showable = showable && !strings.Contains(key, "password")
	}
	return params, problem
}

// readWords reads key=value pairs between white space; a value in single quotes holds
// white space, and a backslash takes what follows as it is.
func readWords(text string) (params map[string]string, problem string) {
	const space = " \t\n\r\v\f"
	params = map[string]string{}
	showable, known := true, false
	for text != "" {
		key, rest, found := strings.Cut(text, "=")
		key, rest = strings.TrimRight(key, space), strings.TrimLeft(rest, space)
		if !found || key == "" || strings.ContainsAny(key, space) {
			return nil, unreadable
		}
		rest, quoted := strings.CutPrefix(rest, "'")
		var value strings.Builder
		i := 0
		for ; i < len(rest); i++ {
			if quoted && rest[i] == '\'' || !quoted && strings.IndexByte(space, rest[i]) >= 0 {
				break
			}
			if rest[i] == '\\' {
				if i++; i == len(rest) {
					break
				}
			}
			value.WriteByte(rest[i])
		}
		if quoted && i >= len(rest) {
			return nil, unreadable
		}
		text = strings.TrimLeft(rest[min(i+1, len(rest)):], space)
		known = known || isKnown(key)
		// What follows a password without quotes may be the rest of it.
		showable = showable && (quoted || !strings.Contains(key, "password"))
		if !isKnown(key) && !(showable && isWord(key)) {
			key = ""
		}
		params[key] = value.String()
	}
	if !known {
		return nil, unreadable
	}
	return params, ""
}
