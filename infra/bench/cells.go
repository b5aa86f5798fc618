package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// cell is one line of the table.
type cell struct {
	ms       int // n8n takes
	inFlight int
}

func (c cell) String() string { return fmt.Sprintf("%d ms, %d in flight", c.ms, c.inFlight) }

const (
	// box ends a run that is not through by then.
	box = 8 * time.Second
	// At 0 ms this many events take our program two to four seconds on two cores.
	eventsAtZero = 12_000
	// rounds of the window that a cell lasts, at 200 ms five seconds. Our first
	// POST goes alone, so that many fewer would measure the start.
	rounds = 25
)

// events is how many a cell has: enough for a few seconds.
func (c cell) events(quick bool) int {
	n := eventsAtZero
	if c.ms > 0 {
		n = min(eventsAtZero, c.inFlight*max(rounds, 3000/c.ms))
	}
	if quick {
		n /= 2
	}
	return n
}

// target is the ratio to the bare client that is to be reached.
func (c cell) target() float64 {
	if c.ms == 0 {
		return 0.60
	}
	return 0.90
}

// riverTarget is the ratio to River that is to be reached: twice at 0 ms, ahead
// everywhere.
func (c cell) riverTarget() float64 {
	if c.ms == 0 {
		return 2
	}
	return 1
}

func chosenCells(o options) (cells []cell, err error) {
	switch {
	case o.cells != "":
		for text := range strings.SplitSeq(o.cells, ",") {
			var c cell
			if _, err := fmt.Sscanf(text, "%dx%d", &c.ms, &c.inFlight); err != nil {
				return nil, fmt.Errorf("-cells %q: want ms x in flight, such as 20x100", text)
			}
			cells = append(cells, c)
		}
	case o.quick:
		cells = []cell{{0, 100}, {20, 50}, {200, 100}}
	default:
		for _, ms := range []int{0, 20, 200} {
			for _, inFlight := range []int{10, 50, 100} {
				cells = append(cells, cell{ms, inFlight})
			}
		}
	}
	return cells, nil
}

// median of some figures; NaN of none.
func median(of []float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	s := sorted(of)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
