package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"outbox-dispatcher/internal/operator"
)

// progressLine tells of long work on stderr: one line that is written over on a
// terminal, a line now and then elsewhere. Short work says nothing.
type progressLine struct {
	w     io.Writer
	moves bool

	began, last time.Time
	drawn       int // characters on the line
}

const (
	// quiet is how long work may take before it says something.
	quiet = time.Second
	// redraw and repeat are between two lines on a terminal and elsewhere.
	redraw = 200 * time.Millisecond
	repeat = 10 * time.Second
)

func (l *progressLine) show(p operator.Progress) {
	now := time.Now()
	if l.began.IsZero() {
		l.began = now
	}
	pause := repeat
	if l.moves {
		pause = redraw
	}
	if now.Sub(l.began) < quiet || now.Sub(l.last) < pause {
		return
	}
	l.last = now
	text := fmt.Sprintf("%s: %s", p.Action, thousands(p.Done))
	if p.Of > 0 {
		text += " of " + thousands(p.Of)
	}
	text += fmt.Sprintf(" events, %.0f %%", p.Part*100)
	if p.Part > 0.01 && p.Part < 1 {
		left := time.Duration(float64(now.Sub(l.began)) * (1 - p.Part) / p.Part)
		text += ", " + operator.Span(left) + " left"
	}
	if !l.moves {
		fmt.Fprintln(l.w, text)
		return
	}
	fmt.Fprint(l.w, "\r"+text+strings.Repeat(" ", max(l.drawn-len(text), 0)))
	l.drawn = len(text)
}

// end leaves the line.
func (l *progressLine) end() {
	if l.drawn > 0 {
		fmt.Fprintln(l.w)
		l.drawn = 0
	}
}
