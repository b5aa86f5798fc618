package outbox_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"outbox-dispatcher/internal/outbox"
)

// declared reads the codes from the source, so that none is left out.
func declared(t *testing.T) (codes []outbox.Code) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			v := spec.(*ast.ValueSpec)
			if name, ok := v.Type.(*ast.Ident); !ok || name.Name != "Code" {
				continue
			}
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, outbox.Code(text))
		}
	}
	return codes
}

func TestCodesExplainsEveryCodeOnce(t *testing.T) {
	t.Parallel()
	var listed []outbox.Code
	for _, info := range outbox.Codes {
		listed = append(listed, info.Code)
		if info.Meaning == "" || info.Fix == "" {
			t.Errorf("%s: no meaning or no fix", info.Code)
		}
		if final := info.Code == outbox.LeaseLostRepeatedly; info.Retried == final {
			t.Errorf("%s: retried %v", info.Code, info.Retried)
		}
	}
	want := declared(t)
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("the table has %v, the source %v", listed, want)
	}
}

// Other programs read these words in the table.
func TestCodesKeepTheirNames(t *testing.T) {
	t.Parallel()
	got := declared(t)
	slices.Sort(got)
	want := []outbox.Code{
		"connectionError", "leaseLostRepeatedly", "malformedPayload", "malformedResponse",
		"mismatchedEventId", "remoteReportedFailure", "staleLeaseRecovered", "unknownError",
	}
	if !slices.Equal(got, want) {
		t.Errorf("codes %v, want %v", got, want)
	}
}
