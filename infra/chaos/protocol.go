package main

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// postgresMessages cuts the frontend protocol of Postgres 3.0, without TLS.
type postgresMessages struct{}

func (postgresMessages) client(b []byte, first bool) (length int, text string) {
	head := 1 // the type of a message
	if first {
		head = 0 // the first one has none
	}
	if len(b) < head+4 {
		return 0, ""
	}
	length = head + int(binary.BigEndian.Uint32(b[head:]))
	if len(b) < length {
		return 0, ""
	}
	if !first && (b[0] == 'P' || b[0] == 'Q') { // Parse, Query: the statement is in it
		text = string(b[head+4 : length])
	}
	return length, text
}

// answered: the server is ready for the next query, which it says behind the
// commit.
func (postgresMessages) answered(b []byte) bool {
	for len(b) >= 5 {
		length := 1 + int(binary.BigEndian.Uint32(b[1:]))
		if len(b) < length {
			return false
		}
		if b[0] == 'Z' {
			return true
		}
		b = b[length:]
	}
	return false
}

// statement fits the statement whose first comment begins with these words.
func statement(words string) func(string) bool {
	return func(text string) bool { return strings.Contains(text, "-- "+words) }
}

// httpMessages takes each piece that arrives for a message: a request of ours is
// small and comes as one.
type httpMessages struct{}

func (httpMessages) client(b []byte, _ bool) (length int, text string) {
	line, _, _ := bytes.Cut(b, []byte("\r\n"))
	return len(b), string(line)
}

func (httpMessages) answered([]byte) bool { return true }

// post fits the start of a POST.
func post(text string) bool { return strings.HasPrefix(text, "POST ") }
