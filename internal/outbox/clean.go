package outbox

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxErrorRunes is the length of last_error at most, in characters.
const MaxErrorRunes = 2000

// Clean returns text as one line that Postgres can store and a terminal can show:
// valid UTF-8, no control or format characters, each run of white space as one
// space, at most MaxErrorRunes characters.
func Clean(s string) string { return CleanTo(s, MaxErrorRunes) }

// CleanTo is Clean with another limit, in characters.
func CleanTo(s string, limit int) string {
	var b strings.Builder
	b.Grow(min(len(s), limit*utf8.UTFMax))
	runes, gap := 0, false
	for _, r := range s { // an invalid byte comes as U+FFFD
		if plain := r > ' ' && r < 0x7f; !plain && (unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
			gap = runes > 0
			continue
		}
		need := 1
		if gap {
			need = 2
		}
		if runes+need > limit {
			break
		}
		if gap {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		runes += need
		gap = false
	}
	return b.String()
}
