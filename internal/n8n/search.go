package n8n

import (
	"cmp"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// search finds secrets in a text, in every form in which an answer may repeat
// them: as they are, escaped for JSON, for a URL or for HTML, each character in
// a form of its own, and UTF-8 that was read as Latin-1, as Node reads headers.
type search struct {
	// starts has the secrets of which a form can begin with a byte, the longest
	// first, so that no part of a longer one stays.
	starts [256][]string
}

func newSearch(secrets []string) *search {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < shortestSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	secrets = slices.Compact(secrets)
	f := &search{}
	for _, secret := range secrets {
		f.starts[secret[0]] = append(f.starts[secret[0]], secret)
	}
	for _, c := range []byte{'\\', '%', '&', '+', 0xc2, 0xc3} { // escapes, and Latin-1
		f.starts[c] = secrets
	}
	return f
}

// replace hides every secret. cut tells that the text goes on where it ends: a
// secret that begins there is hidden by its beginning.
func (f *search) replace(s string, cut bool) string {
	var b strings.Builder
	m := match{cut: cut}
	from := 0
	for i := 0; i < len(s); {
		n := f.at(&m, s[i:])
		if n == 0 {
			i++
			continue
		}
		b.WriteString(s[from:i])
		b.WriteString(hidden)
		i += n
		from = i
	}
	if from == 0 {
		return s
	}
	b.WriteString(s[from:])
	return b.String()
}

// at returns the length of the form of a secret with which s begins.
func (f *search) at(m *match, s string) int {
	for _, secret := range f.starts[s[0]] {
		if n, ok := m.prefix(s, secret); ok {
			return n
		}
	}
	return 0
}

// match compares secrets with one text.
type match struct {
	cut bool
	// failed has where no reading went on: a row of backslashes can be read in
	// very many ways.
	failed map[place]bool
}

// place is how much is left of the text, and what is left of a secret.
type place struct {
	left   int
	secret string
}

// prefix returns how much of s is a form of the secret, the longest reading of
// each character first.
func (m *match) prefix(s, secret string) (n int, ok bool) {
	switch {
	case secret == "":
		return 0, true
	case s == "":
		return 0, m.cut
	case m.cut && len(s) < longestEscape && strings.IndexByte(`\%&`, s[0]) >= 0:
		return len(s), true // the end of an escape was cut off
	}
	here := place{len(s), secret}
	size, readings := unescape(s)
	if len(readings) > 0 && m.failed[here] {
		return 0, false
	}
	for _, reading := range readings {
		if rest, found := strings.CutPrefix(secret, reading); found && reading != "" {
			if n, ok := m.prefix(s[size:], rest); ok {
				return n + size, true
			}
		}
	}
	if s[0] == secret[0] {
		if n, ok := m.prefix(s[1:], secret[1:]); ok {
			return n + 1, true
		}
	}
	if len(readings) > 0 {
		if m.failed == nil {
			m.failed = map[place]bool{}
		}
		m.failed[here] = true
	}
	return 0, false
}

// longestEscape is how long one escaped character can be: \ud83d\ude00.
const longestEscape = 12

// unescape reads the escape with which s begins: its length, and what it can
// stand for. No readings: s begins with none.
func unescape(s string) (size int, readings []string) {
	switch s[0] {
	case '+':
		return 1, []string{" "}
	case '%':
		if c, ok := hex(s, 1, 2); ok {
			return 3, []string{string([]byte{byte(c)})}
		}
	case '&':
		if end := strings.IndexByte(s[:min(len(s), longestEscape)], ';'); end > 0 {
			plain := html.UnescapeString(s[:end+1])
			if r, size := utf8.DecodeRuneInString(plain); size == len(plain) {
				return end + 1, character(r)
			}
		}
	case '\\':
		return escaped(s)
	default:
		if r, size := utf8.DecodeRuneInString(s); size == 2 && r <= 0xff {
			return size, character(r)[1:]
		}
	}
	return 0, nil
}

// escaped reads an escape of JSON, or of a program that prints like one.
func escaped(s string) (size int, readings []string) {
	if len(s) < 2 {
		return 0, nil
	}
	if i := strings.IndexByte(`bfnrt`, s[1]); i >= 0 {
		return 2, []string{"\b\f\n\r\t"[i : i+1]}
	}
	if c, ok := hex(s, 2, 2); ok && s[1] == 'x' {
		return 4, []string{string([]byte{byte(c)})}
	}
	if r, ok := hex(s, 2, 8); ok && s[1] == 'U' {
		return 10, character(r)
	}
	if s[1] != 'u' {
		return 2, []string{s[1:2]}
	}
	r, ok := hex(s, 2, 4)
	if !ok {
		return 0, nil
	}
	if low, ok := hex(s, 8, 4); ok && s[6:8] == `\u` && utf16.IsSurrogate(r) {
		return 12, []string{string(utf16.DecodeRune(r, low))}
	}
	return 6, character(r)
}

// character gives a character as UTF-8, and as the byte that it is in Latin-1.
func character(r rune) []string {
	if r >= 0x80 && r <= 0xff {
		return []string{string(r), string([]byte{byte(r)})}
	}
	return []string{string(r)}
}

// hex reads so many hexadecimal digits.
func hex(s string, from, digits int) (rune, bool) {
	if len(s) < from+digits {
		return 0, false
	}
	n, err := strconv.ParseUint(s[from:from+digits], 16, 32)
	return rune(n), err == nil
}
