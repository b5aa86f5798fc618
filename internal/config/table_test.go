package config_test

import (
	"strings"
	"testing"

	"outbox-dispatcher/internal/config"
)

func TestParseTable(t *testing.T) {
	t.Parallel()
	x63 := strings.Repeat("x", 63)
	for _, c := range []struct {
		name, in string
		want     config.Table
		sql      string
	}{
		{"Plain", "outbox_events", config.Table{Name: "outbox_events"}, `"outbox_events"`},
		{"Schema", "app.outbox", config.Table{Schema: "app", Name: "outbox"}, `"app"."outbox"`},
		{"WhiteSpaceAround", " app.outbox\n", config.Table{Schema: "app", Name: "outbox"}, `"app"."outbox"`},
		{"FoldsToLowerCase", "App.OutBox", config.Table{Schema: "app", Name: "outbox"}, `"app"."outbox"`},
		{"QuotedKeepsItsCase", `"OutBox"`, config.Table{Name: "OutBox"}, `"OutBox"`},
		{"QuotedDot", `"app.outbox"`, config.Table{Name: "app.outbox"}, `"app.outbox"`},
		{"QuotedQuotes", `"a""b"`, config.Table{Name: `a"b`}, `"a""b"`},
		{"QuotesAlone", `""""`, config.Table{Name: `"`}, `""""`},
		{"BothQuoted", `"My App"."My Table"`, config.Table{Schema: "My App", Name: "My Table"}, `"My App"."My Table"`},
		{"SchemaQuoted", `"App".outbox`, config.Table{Schema: "App", Name: "outbox"}, `"App"."outbox"`},
		{"TableQuoted", `app."Outbox"`, config.Table{Schema: "app", Name: "Outbox"}, `"app"."Outbox"`},
		{"Digits", "outbox_2026", config.Table{Name: "outbox_2026"}, `"outbox_2026"`},
		{"Dollar", "outbox$1", config.Table{Name: "outbox$1"}, `"outbox$1"`},
		{"Underscore", "_outbox", config.Table{Name: "_outbox"}, `"_outbox"`},
		{"ReservedWord", "select", config.Table{Name: "select"}, `"select"`},
		{"ReservedWords", "user.ORDER", config.Table{Schema: "user", Name: "order"}, `"user"."order"`},
		{"Unicode", "événements", config.Table{Name: "événements"}, `"événements"`},
		{"UnicodeKeepsItsCase", "ÉVÉNEMENTS", config.Table{Name: "ÉvÉnements"}, `"ÉvÉnements"`}, // as Postgres folds in UTF-8: ASCII alone
		{"Emoji", `"📮"`, config.Table{Name: "📮"}, `"📮"`},
		{"63Bytes", x63, config.Table{Name: x63}, `"` + x63 + `"`},
		{"63BytesQuoted", `"` + x63 + `"."` + x63 + `"`, config.Table{Schema: x63, Name: x63}, `"` + x63 + `"."` + x63 + `"`},
		{"63BytesOfUnicode", `"` + strings.Repeat("é", 31) + `x"`, config.Table{Name: strings.Repeat("é", 31) + "x"}, ""},
		{"62BytesAndAQuote", `"` + x63[1:] + `"""`, config.Table{Name: x63[1:] + `"`}, ""},
		{"InjectionInQuotesIsAName", `"x; drop table y; --"`, config.Table{Name: "x; drop table y; --"}, `"x; drop table y; --"`},
		{"SpacesInQuotes", `" "`, config.Table{Name: " "}, `" "`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := config.ParseTable(c.in)
			if err != nil || got != c.want {
				t.Fatalf("got %+v, %v; want %+v", got, err, c.want)
			}
			if sql := got.String(); c.sql != "" && sql != c.sql {
				t.Errorf("as SQL %s, want %s", sql, c.sql)
			}
		})
	}
}

func TestParseTableRefuses(t *testing.T) {
	t.Parallel()
	x64 := strings.Repeat("x", 64)
	for name, in := range map[string]string{
		"Empty": "", "WhiteSpace": " \t", "Dot": ".", "NoTable": "app.", "NoSchema": ".outbox", "TwoDots": "app..outbox",
		"ThreeParts": "db.app.outbox", "FourParts": `a."b".c.d`, "EmptyQuotes": `""`, "EmptySchema": `"".x`, "EmptyTable": `x.""`,
		"OpenQuote": `"outbox`, "OpenQuoteAfterSchema": `app."outbox`, "QuoteInside": `out"box`, "AfterTheQuote": `"out"box`, "TwoQuoted": `"a" "b"`,
		"SpaceInside": "out box", "SpaceAfterTheDot": "app. outbox", "SpaceBeforeTheDot": `"app" .outbox`, "DigitInFront": "1outbox", "DollarInFront": "$outbox",
		"Dash": "outbox-events", "Semicolon": "x; drop table y", "Comment": "x--", "BlockComment": "x/**/", "Parenthesis": "x(1)", "SingleQuote": "x'y",
		"Backslash": `x\y`, "Star": "*", "Comma": "a,b", "At": "a@b", "Newline": "a\nb", "NUL": "a\x00b", "QuotedNUL": "\"a\x00b\"",
		"64Bytes": x64, "64BytesQuoted": `"` + x64 + `"`, "64BytesOfSchema": x64 + ".t", "64BytesOfUnicode": `"` + strings.Repeat("é", 32) + `"`,
		"NotUTF8": "caf\xe9", "NotUTF8Quoted": "\"caf\xe9\"", "InjectionAfterAQuote": `"x"; drop table y`, "InjectionByClosingQuote": `x" where true --`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.ParseTable(in)
			if err == nil {
				t.Fatalf("%q was taken as %+v", in, got)
			}
			if got != (config.Table{}) {
				t.Errorf("an error, and %+v", got)
			}
			if in != "" && len(in) > 3 && strings.Contains(err.Error(), in) {
				t.Errorf("the error repeats the value: %v", err)
			}
		})
	}
}

// Whatever is taken as a name is one name in SQL, and reads as itself again.
func FuzzParseTable(f *testing.F) {
	for _, s := range []string{"outbox_events", "App.Outbox", `"a""b".c`, `"a.b"."c d"`, "é.ü", "", ".", `"`, "a.b.c", "x; drop table y", strings.Repeat("x", 64), "a\xffb", "$1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		table, err := config.ParseTable(s)
		if err != nil {
			if table != (config.Table{}) {
				t.Fatalf("an error, and %+v", table)
			}
			return
		}
		for _, part := range []string{table.Schema, table.Name} {
			if len(part) > 63 || strings.ContainsRune(part, 0) || !strings.HasPrefix(config.Quote(part), `"`) {
				t.Errorf("part %q", part)
			}
		}
		if table.Name == "" {
			t.Error("no name")
		}
		sql := table.String()
		again, err := config.ParseTable(sql)
		if err != nil || again != table {
			t.Errorf("%q became %s, which reads as %+v, %v", s, sql, again, err)
		}
		if rest := strings.ReplaceAll(strings.Trim(sql, `"`), `""`, ""); strings.Count(rest, `"`) != 0 && table.Schema == "" {
			t.Errorf("%s is not one name", sql)
		}
	})
}
