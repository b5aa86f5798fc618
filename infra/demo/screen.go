package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// screenWidth is the longest line, in characters: what a terminal beside an
// editor shows.
const screenWidth = 120

// screen is where a person watches. It may be used by several goroutines.
type screen struct {
	colours bool
	started time.Time

	mu     sync.Mutex
	w      io.Writer
	closed context.CancelFunc // called when nobody reads any more
}

// newScreen writes to w, with colours if that is a terminal that wants them (see
// no-color.org).
func newScreen(w io.Writer, getenv func(string) string, closed context.CancelFunc) *screen {
	return &screen{
		colours: isTerminal(w) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb",
		started: time.Now(), w: w, closed: closed,
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// colour is the code of a terminal for one.
type colour string

const (
	plain  colour = ""
	bold   colour = "1"
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// paint colours a text.
func (s *screen) paint(c colour, text string) string {
	if !s.colours || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// line prints a line that fits.
func (s *screen) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := io.WriteString(s.w, text+"\n"); err != nil {
		s.closed()
	}
}

// head prints the title of a part.
func (s *screen) head(text string) { s.line(s.paint(bold, text)) }

// say prints what is done at the moment, and when.
func (s *screen) say(text string) {
	when := fmt.Sprintf("%6.1f s  ", time.Since(s.started).Seconds())
	s.line(s.paint(dim, when) + cut(text, screenWidth-len(when)))
}

// cut shortens a text to a number of characters.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// pad brings a text to exactly a number of characters.
func pad(text string, width int) string {
	text = cut(text, width)
	return text + strings.Repeat(" ", width-utf8.RuneCountInString(text))
}
