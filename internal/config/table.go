package config

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Table is the name of the outbox table, as Postgres has it: no quotes, letters
// already folded.
type Table struct {
	Schema string // empty: found by the search path
	Name   string
}

// maxIdentifier is how many bytes of a name Postgres keeps (NAMEDATALEN - 1).
const maxIdentifier = 63

// ParseTable reads a table name by the rules of SQL: table or schema.table,
// letters folded to lower case unless the part stands in double quotes.
func ParseTable(s string) (Table, error) {
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return Table{}, errText
	}
	var parts []string
	rest := strings.TrimSpace(s)
	for {
		part, tail, err := identifier(rest)
		if err != nil {
			return Table{}, err
		}
		parts = append(parts, part)
		if tail == "" {
			break
		}
		if tail[0] != '.' {
			return Table{}, errTable
		}
		rest = tail[1:]
	}
	switch len(parts) {
	case 1:
		return Table{Name: parts[0]}, nil
	case 2:
		return Table{Schema: parts[0], Name: parts[1]}, nil
	}
	return Table{}, errTable
}

var (
	errTable  = errors.New(`must be a table or schema.table, with double quotes where SQL needs them`)
	errText   = errors.New("must be text in UTF-8")
	errLength = errors.New("has a part that is empty or longer than the 63 bytes that Postgres keeps")
)

// identifier reads one part of a name and returns what follows it.
func identifier(s string) (part, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		var b strings.Builder
		for i := 1; i < len(s); i++ {
			if s[i] != '"' {
				b.WriteByte(s[i])
				continue
			}
			if i+1 < len(s) && s[i+1] == '"' {
				b.WriteByte('"')
				i++
				continue
			}
			part, rest = b.String(), s[i+1:]
			if part == "" || len(part) > maxIdentifier {
				return "", "", errLength
			}
			return part, rest, nil
		}
		return "", "", errTable
	}
	i := strings.IndexByte(s, '.')
	if i < 0 {
		i = len(s)
	}
	part, rest = s[:i], s[i:]
	if part == "" || len(part) > maxIdentifier {
		return "", "", errLength
	}
	for j, c := range part {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c > 0x7f
		if !letter && (j == 0 || !(c >= '0' && c <= '9' || c == '$')) {
			return "", "", errTable
		}
	}
	// Postgres folds ASCII letters alone in a UTF-8 database.
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, part), rest, nil
}

// String gives the name as SQL text, quoted where it has to be.
func (t Table) String() string {
	if t.Schema == "" {
		return Quote(t.Name)
	}
	return Quote(t.Schema) + "." + Quote(t.Name)
}

// Quote writes a name as an SQL identifier in double quotes.
func Quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
