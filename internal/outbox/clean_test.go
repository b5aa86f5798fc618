package outbox_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"outbox-dispatcher/internal/outbox"
)

// checkClean checks what must hold for every text that people read.
func checkClean(t *testing.T, s string, limit int) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Errorf("not UTF-8: %q", s)
	}
	if n := utf8.RuneCountInString(s); n > limit {
		t.Errorf("%d characters, at most %d are allowed", n, limit)
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || (unicode.IsSpace(r) && r != ' ') {
			t.Errorf("holds %U: %q", r, s)
		}
	}
	if strings.TrimSpace(s) != s || strings.Contains(s, "  ") {
		t.Errorf("white space at an end or doubled: %q", s)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"Empty", "", ""},
		{"LeavesPlainText", "HTTP 500 from n8n: boom", "HTTP 500 from n8n: boom"},
		{"LeavesOtherScripts", "véhicule 車両 😀 مركبة", "véhicule 車両 😀 مركبة"},
		{"MakesOneLine", "a\r\nb\nc\u2028d\u2029e\u0085f\vg\fh", "a b c d e f g h"},
		{"RemovesNUL", "a\x00b", "a b"},
		{"RemovesControlCharacters", "a\x01\x02\x1b[31mred\x7f", "a [31mred"},
		{"RemovesC1", "a\u009bb", "a b"},
		{"FoldsWhiteSpace", "  a \t\u00a0\u3000 b  ", "a b"},
		{"WhiteSpaceAlone", " \n\t\u2003", ""},
		{"ReplacesInvalidUTF8", "a\xffb\xc3", "a\ufffdb\ufffd"},
		{"ReplacesSurrogates", "\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
		{"RemovesBidi", "a\u202eb\u2066c\u200fd\u061ce", "a b c d e"},
		{"RemovesInvisible", "a\u200bb\u00adc\ufeffd\U000e0041e", "a b c d e"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := outbox.Clean(c.in); got != c.want {
				t.Errorf("Clean(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestCleanCountsCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		want     int
	}{
		{"1999", strings.Repeat("x", 1999), 1999},
		{"2000", strings.Repeat("x", 2000), 2000},
		{"2001", strings.Repeat("x", 2001), 2000},
		{"2000Emoji", strings.Repeat("😀", 2000), 2000},
		{"2001Emoji", strings.Repeat("😀", 2001), 2000},
		{"2001BrokenBytes", strings.Repeat("\xff", 2001), 2000},
		{"NoSpaceAtTheEnd", strings.Repeat("x", 1999) + " y", 1999},
		{"WordThatStillFits", strings.Repeat("x", 1998) + " y", 2000},
		{"ControlCharactersCountOnce", strings.Repeat("x", 1998) + strings.Repeat("\x00", 100) + "y", 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := outbox.Clean(c.in)
			checkClean(t, got, outbox.MaxErrorRunes)
			if n := utf8.RuneCountInString(got); n != c.want {
				t.Errorf("%d characters, want %d", n, c.want)
			}
		})
	}
	if got := outbox.CleanTo("ab cd", 3); got != "ab" {
		t.Errorf("CleanTo 3 = %q", got)
	}
	if got := outbox.CleanTo("ab", 0); got != "" {
		t.Errorf("CleanTo 0 = %q", got)
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "a\x00b", "a\r\nb", "\xff\xfe", "a\u202eb", strings.Repeat("😀 ", 20), "\u2028", " x ", "\ufeff\ufeff"} {
		f.Add(s, outbox.MaxErrorRunes)
		f.Add(s, 11)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 0 || limit > 10_000 {
			t.Skip("not a length in use")
		}
		once := outbox.CleanTo(s, limit)
		checkClean(t, once, limit)
		if twice := outbox.CleanTo(once, limit); twice != once {
			t.Errorf("cleaning twice: %q, once: %q", twice, once)
		}
		if plain := outbox.Clean(s); utf8.RuneCountInString(plain) <= limit && limit <= outbox.MaxErrorRunes && once != plain {
			t.Errorf("a text that fits was changed: %q, want %q", once, plain)
		}
	})
}
