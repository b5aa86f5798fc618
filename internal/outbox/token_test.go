package outbox_test

import (
	"strings"
	"testing"

	"outbox-dispatcher/internal/outbox"
)

func TestHeaderToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in, want string // want empty: an error
		problem        string // that says this
	}{
		{"Plain", "secret-token", "secret-token", ""},
		{"TrimsWhiteSpaceAtTheEnd", "tok \t\v\f\r\n\u00a0\u0085\u2028\u3000", "tok", ""},
		{"KeepsSpacesInside", "a b\tc", "a b\tc", ""},
		{"AnyPunctuation", `~!@#$%^&*()_+{}|:"<>?-=[]\;',./`, `~!@#$%^&*()_+{}|:"<>?-=[]\;',./`, ""},
		{"Long", strings.Repeat("x", 8000), strings.Repeat("x", 8000), ""},
		{"Empty", "", "", "is empty"},
		{"WhiteSpaceAlone", " \t\r\n\u00a0", "", "is empty"},
		{"SpaceInFront", " tok", "", "starts with white space"},
		{"TabInFront", "\ttok", "", "starts with white space"},
		{"NewlineInFront", "\ntok", "", "character 1 is a control character"},
		{"NewlineInside", "a\nb", "", "character 2 is a control character"},
		{"HeaderInjection", "tok\r\nX-Evil: 1", "", "character 4 is a control character"},
		{"NULAtTheEnd", "a\x00", "", "character 2 is a control character"},
		{"Delete", "a\x7fb", "", "character 2 is a control character"},
		{"Accent", "tokén", "", "character 4 is not ASCII"},
		{"CountsCharactersNotBytes", "abc\u2192é", "", "character 4 is not ASCII"},
		{"ByteOrderMark", "\ufefftok", "", "character 1 is not ASCII"},
		{"ZeroWidthSpace", "tok\u200ben", "", "character 4 is not ASCII"},
		{"ZeroWidthSpaceAtTheEnd", "tok\u200b", "", "character 4 is not ASCII"},
		{"NoBreakSpaceInside", "to\u00a0ken", "", "character 3 is not ASCII"},
		{"C1Control", "tok\u0080", "", "character 4 is not ASCII"},
		{"NotUTF8", "a\xff\xa0b", "", "character 2 is not ASCII"},
	} {
		t.Run(c.name, func(t *testing.T) {
			token, err := outbox.HeaderToken(c.in)
			if token != c.want || (err == nil) != (c.want != "") {
				t.Fatalf("got %q, %v; want %q", token, err, c.want)
			}
			if err != nil && (!strings.Contains(err.Error(), c.problem)) {
				t.Errorf("%q, want that it %s", err, c.problem)
			}
		})
	}
}
