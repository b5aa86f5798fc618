package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

// page writes results for people. What came from rows is cleaned first: a
// terminal obeys control characters.
type page struct {
	w      io.Writer
	colour bool
	width  int   // 0: any
	err    error // the first fault of writing
}

func (p *page) line(format string, args ...any) {
	if _, err := fmt.Fprintf(p.w, format+"\n", args...); err != nil && p.err == nil {
		p.err = err
	}
}

// json writes a result for programs.
func (p *page) json(result any) {
	enc := json.NewEncoder(p.w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(result); err != nil && p.err == nil {
		p.err = err
	}
}

// style of a cell: an SGR code, or nothing.
type style string

const (
	plain  style = ""
	bold   style = "1"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	dim    style = "2"
)

func (p *page) paint(s style, text string) string {
	if !p.colour || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// cell of a table.
type cell struct {
	text  string
	style style
}

// clean makes a cell of a text from a row.
func clean(text string) cell { return cell{text: outbox.Clean(text)} }

// table writes rows in columns, the first as headings. The last column is cut to
// the width of the terminal.
func (p *page) table(headings []string, rows [][]cell) {
	head := make([]cell, len(headings))
	for i, h := range headings {
		head[i] = cell{h, dim}
	}
	rows = append([][]cell{head}, rows...)
	widths := make([]int, len(headings))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		used := 0
		for i, c := range row {
			if i == len(row)-1 {
				b.WriteString(p.paint(c.style, cut(c.text, p.width, used)))
				break
			}
			b.WriteString(p.paint(c.style, c.text))
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
			used += widths[i] + 2
		}
		p.line("%s", strings.TrimRight(b.String(), " "))
	}
}

// least of a column that is cut.
const least = 20

// cut shortens a text to what the line has left.
func cut(text string, width, used int) string {
	left := max(width-used, least)
	if width == 0 || utf8.RuneCountInString(text) <= left {
		return text
	}
	return outbox.CleanTo(text, left-1) + "…"
}

// refs writes events that are to be changed.
func (p *page) refs(refs []operator.Ref) {
	var rows [][]cell
	for _, r := range refs {
		rows = append(rows, []cell{{text: r.ID}, clean(r.Type), {text: strconv.Itoa(r.Attempts)}, {text: r.OccurredAt.String()}, clean(r.Code)})
	}
	p.table([]string{"EVENT", "TYPE", "ATTEMPTS", "OCCURRED", "CODE"}, rows)
}

// thousands writes a number with commas.
func thousands[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// seconds writes a number of seconds as a time span.
func seconds(s float64) string { return operator.Span(time.Duration(s * float64(time.Second))) }
