package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"outbox-dispatcher/internal/operator"
)

// confirm asks the person at the terminal. Anything but yes is a no.
func (t *terminal) confirm(ctx context.Context, q operator.Question) error {
	p := &page{w: t.err, colour: t.colour, width: t.width}
	if len(q.Sample) > 0 {
		p.refs(q.Sample)
	}
	fmt.Fprintf(t.err, "\nAbout to %s.\nGo on? [y/N] ", q.Text)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(t.in).ReadString('\n') // the end of the input is a no
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
	case <-ctx.Done():
		fmt.Fprintln(t.err)
	}
	return &operator.RefusedError{Text: "not confirmed: nothing was done"}
}
