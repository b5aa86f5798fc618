package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"outbox-dispatcher/internal/cycle"
)

func TestColoursAreForATerminalThatWantsThem(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	for _, c := range []struct {
		name     string
		w        *os.File
		variable string
		want     string
	}{
		{"Terminal", terminal, "", "\x1b[32mdone\x1b[0m"},
		{"TerminalAndNoColor", terminal, "NO_COLOR=1", "done"},
		{"DumbTerminal", terminal, "TERM=dumb", "done"},
		{"File", file, "", "done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			getenv := func(name string) string {
				value, _ := strings.CutPrefix(c.variable, name+"=")
				if value == c.variable {
					return ""
				}
				return value
			}
			if got := newScreen(c.w, getenv, func() {}).paint(green, "done"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestNobodyReadingEndsTheDemo(t *testing.T) {
	t.Parallel()
	told := false
	newScreen(broken{}, func(string) string { return "" }, func() { told = true }).say("anything")
	if !told {
		t.Error("a write that failed was passed over")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestPadMakesColumns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "    ", "ab": "ab  ", "Süd!": "Süd!", "abcde": "abc…"} {
		if got := pad(text, 4); got != want {
			t.Errorf("pad(%q) = %q, want %q", text, got, want)
		}
	}
}

// The corners of the picture stand one above the other, however long the counts
// are.
func TestPictureKeepsItsShape(t *testing.T) {
	t.Parallel()
	few := picture(cycle.Report{}, map[string]int64{})
	many := picture(
		cycle.Report{Claimed: 123456, Succeeded: 1234567, Reclaimed: 12345, Released: 123456, Retried: 1234567, Failed: 12345, LeaseLostFailed: 12},
		map[string]int64{"pending": 1234567, "delivering": 1234, "succeeded": 123456789, "failed": 12345, "paused": 3, "odd\nstatus": 1})
	corners := func(line string) (at []int) {
		for i, r := range []rune(line) {
			if strings.ContainsRune("▶▲│└┘┴", r) {
				at = append(at, i)
			}
		}
		return at
	}
	for i, line := range few {
		if !slices.Equal(corners(line), corners(many[i])) {
			t.Errorf("the shape changed:\n%s\n%s", line, many[i])
		}
		if utf8.RuneCountInString(many[i]) > screenWidth {
			t.Errorf("the line is too long: %s", many[i])
		}
	}
	if last := many[len(many)-1]; !strings.HasSuffix(last, "program's: 1 odd status, 3 paused") {
		t.Errorf("the statuses of others are not told: %s", last)
	}
}
