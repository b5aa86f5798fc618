package outbox_test

import (
	"strings"
	"testing"

	"outbox-dispatcher/internal/outbox"
)

func TestHeaderToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in, want string // want empty: no header value
	}{
		{"Plain", "secret-token", "secret-token"},
		{"NewlineBehind", "tok\n", "tok"},
		{"WindowsNewlineBehind", "tok\r\n", "tok"},
		{"AllKindsOfWhiteSpaceBehind", "tok \t\v\f\r\n\u00a0\u0085\u2028\u3000", "tok"},
		{"SpaceInside", "a b", "a b"},
		{"TabInside", "a\tb", "a\tb"},
		{"AnyPunctuation", `~!@#$%^&*()_+{}|:"<>?-=[]\;',./`, `~!@#$%^&*()_+{}|:"<>?-=[]\;',./`},
		{"BeyondASCII", "clé-é", "clé-é"},
		{"BytesThatAreNoUTF8", "a\xff\xa0", "a\xff\xa0"},
		{"Long", strings.Repeat("x", 8000), strings.Repeat("x", 8000)},
		{"Empty", "", ""},
		{"WhiteSpaceAlone", " \t\r\n\u00a0", ""},
		{"NewlineInside", "a\nb", ""},
		{"ReturnInside", "a\rb", ""},
		{"HeaderInjection", "tok\r\nX-Evil: 1", ""},
		{"NULInside", "a\x00b", ""},
		{"NULBehind", "a\x00", ""},
		{"EscapeInside", "a\x1bb", ""},
		{"DeleteInside", "a\x7fb", ""},
		{"SpaceInFront", " tok", ""},
		{"TabInFront", "\ttok", ""},
		{"NewlineInFront", "\ntok", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			token, ok := outbox.HeaderToken(c.in)
			if token != c.want || ok != (c.want != "") {
				t.Errorf("got %q %v, want %q", token, ok, c.want)
			}
		})
	}
}
