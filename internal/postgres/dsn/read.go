package dsn

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

const (
	notPostgres = "is not a URL of Postgres, which starts with postgres:// or postgresql://"
	unreadable  = "cannot be read: neither a URL such as postgres://user@host:5432/database nor libpq's key=value form"
	unescaped   = "cannot be read: in a URL, write @ : / ? # % and spaces in a user name or password as %40 %3A %2F %3F %23 %25 %20"
	unknown     = "is not a parameter of libpq; remove it"
	unknownOne  = "has a parameter that libpq does not know; remove it, and put quotes around a password in the key=value form"
)

// read splits a connection string into its parameters, as libpq does. It also takes
// what people add: white space and quotes around it, the scheme in capitals, the driver
// of SQLAlchemy. A problem holds no piece of the text but the name of a parameter, and
// that only where it cannot be a piece of a password.
func read(text string) (params map[string]string, problems []string) {
	text = trim(text)
	head, rest, isURL := strings.Cut(text, "://")
	key, _, _ := strings.Cut(head, "=")
	_, isWords := parameters[strings.TrimSpace(key)]
	var list []pair
	var problem string
	switch {
	case text == "":
		return nil, nil
	case isURL && isPostgres(head):
		list, problem = readURL(rest)
	case isURL && !isWords:
		problem = notPostgres
	default:
		list, problem = readWords(text)
	}
	if problem != "" {
		return nil, []string{source + " " + problem}
	}
	params = map[string]string{}
	for _, p := range list {
		switch _, known := parameters[p.key]; {
		case known:
			params[p.key] = p.value
		case p.showable && isWord(p.key):
			problems = append(problems, named(source, p.key)+" "+unknown)
		default:
			problems = append(problems, source+" "+unknownOne)
		}
	}
	return params, slices.Compact(problems)
}

// pair is a parameter as it is written. Its key is showable if it cannot be a piece of
// a password.
type pair struct {
	key, value string
	showable   bool
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

// isPostgres reports whether a scheme is that of Postgres, with or without a driver,
// such as postgresql+psycopg2.
func isPostgres(scheme string) bool {
	name, driver, _ := strings.Cut(strings.ToLower(scheme), "+")
	return (name == "postgres" || name == "postgresql") && (driver == "" || isWord(driver))
}

func isWord(s string) bool {
	letter := func(r rune) bool { return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	return s != "" && len(s) <= 40 && letter(rune(s[0])) && !strings.ContainsFunc(s, func(r rune) bool { return !letter(r) && (r < '0' || r > '9') })
}

// readURL reads what follows the scheme: [user[:password]@][host[:port],...][/database][?key=value&...]
func readURL(rest string) (list []pair, problem string) {
	add := func(key, value string, showable bool) {
		key, errKey := url.PathUnescape(strings.Trim(key, " "))
		value, errValue := url.PathUnescape(strings.Trim(value, " "))
		if errKey != nil || errValue != nil {
			problem = unescaped
		}
		list = append(list, pair{key, value, showable})
	}
	// The user part ends at an @ before any slash. Another one means that the password
	// holds some of them: a piece of it would be a host, and go to DNS.
	i := strings.IndexAny(rest, "@/")
	hasUser := i >= 0 && rest[i] == '@'
	if hasUser {
		user, password, _ := strings.Cut(rest[:i], ":")
		rest = rest[i+1:]
		add("user", user, true)
		add("password", password, true)
	}
	rest, query, _ := strings.Cut(rest, "?")
	where, database, _ := strings.Cut(rest, "/")
	if strings.Contains(rest, "@") || hasUser && strings.Contains(query, "@") {
		return nil, unescaped
	}
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
		add("host", strings.Join(hosts, ","), true)
		add("port", strings.Join(ports, ","), true)
	}
	add("dbname", database, true)
	// An @ here can end a password that holds a question mark, and a key after a password
	// can be the rest of one that holds an ampersand.
	showable := !strings.Contains(query, "@")
	for _, one := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' }) {
		key, value, found := strings.Cut(one, "=")
		if !found {
			return nil, unreadable
		}
		if key == "ssl" && value == "true" { // of JDBC
			key, value = "sslmode", "require"
		}
		add(key, value, showable)
		showable = showable && !strings.Contains(key, "password")
	}
	return list, problem
}

// readWords reads key=value pairs between white space; a value in single quotes holds
// white space, and a backslash takes what follows as it is.
func readWords(text string) (list []pair, problem string) {
	const space = " \t\n\r\v\f"
	bare, known := false, false // a password without quotes; a parameter of libpq
	for text != "" {
		key, rest, found := strings.Cut(text, "=")
		key, rest = strings.TrimRight(key, space), strings.TrimLeft(rest, space)
		if !found || key == "" || strings.ContainsAny(key, space) {
			return nil, unreadable
		}
		quoted := strings.HasPrefix(rest, "'")
		rest = strings.TrimPrefix(rest, "'")
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
		list = append(list, pair{key, value.String(), !bare})
		_, ours := parameters[key]
		known = known || ours
		bare = bare || !quoted && strings.Contains(key, "password")
	}
	if !known {
		return nil, unreadable
	}
	return slices.Clip(list), ""
}
