package n8ntest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Ack is the body of an acknowledgement, for Answer.Body.
const Ack = `{"ok":true,"event_id":"{{id}}","result":{"execution_id":"run-{{id}}"}}`

// AckWith is the body of an acknowledgement with this JSON as execution_id.
func AckWith(executionID string) string {
	return `{"ok":true,"event_id":"{{id}}","result":{"execution_id":` + executionID + `}}`
}

// Answer is one scripted answer. The zero value is 200 with an empty body.
type Answer struct {
	Status int               // 0: 200
	Header map[string]string // on top of Content-Type: application/json; charset=utf-8
	Body   string            // {{id}} and {{ID}} become the event id, in lower and upper case
	Repeat int               // the body is written so many times; 0: once
	Pack   func([]byte) []byte
	// Raw is sent in place of the status line and the headers. The body follows
	// as it is, then the connection is closed: without "Connection: close" in Raw
	// the client's next POST may meet that. {{id}} is filled in as well.
	Raw string

	Delay time.Duration // before anything is sent
	Drip  time.Duration // between single bytes of Body, or of Raw if there is no body
	Close Close         // how the connection ends; zero: as HTTP says

	Times int // this answer is for so many POSTs of an event, then the next one; 0: for all
}

// Close is a way to end a connection in place of an answer (or behind Raw).
type Close int

const (
	Properly Close = iota
	FIN            // closed without an answer
	Reset          // reset without an answer
	Never          // left open until the client gives up
)

// Gzip packs a body, for Answer.Pack. The header is up to the script.
func Gzip(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(b) // a Buffer takes everything
	_ = w.Close()
	return z.Bytes()
}

// Deflate packs a body as Content-Encoding: deflate means it (zlib).
func Deflate(b []byte) []byte {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(b)
	_ = w.Close()
	return z.Bytes()
}

// script is a row of answers.
type script struct{ answers []Answer }

// at returns the answer to the n-th POST, counted from 1. nil: an acknowledgement.
func (s *script) at(n int) *Answer {
	for i := range s.answers {
		a := &s.answers[i]
		if a.Times == 0 || n <= a.Times {
			return a
		}
		n -= a.Times
	}
	return nil
}

// Script sets the answers to the POSTs of one event. Each is given Times times;
// behind the last one come acknowledgements. No answers: the script is dropped.
func (s *Server) Script(eventID string, answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.scripts, eventID)
	if len(answers) > 0 {
		s.scripts[eventID] = &script{answers}
	}
}

// ScriptAll sets the answers to the POSTs of every event without a script of its
// own. Times counts the POSTs of each event for itself.
func (s *Server) ScriptAll(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.everybody = nil
	if len(answers) > 0 {
		s.everybody = &script{answers}
	}
}

// ScriptFunc has f decide about every POST that no script answers. It is called
// while the POST is out; nil means an acknowledgement.
func (s *Server) ScriptFunc(f func(Post) *Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decide = f
}

var refusal = Answer{Status: http.StatusForbidden, Header: map[string]string{"Content-Type": ""}, Body: "Authorization data is wrong!"}

// choose returns the answer to a POST, as it is decided when it arrives; nil is
// an acknowledgement.
func (s *Server) choose(p *Post) *Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" && (len(p.Header.Values(tokenHeader)) != 1 || p.Token() != s.token) {
		s.refused++
		return &refusal
	}
	own := cmp.Or(s.scripts[p.EventID], s.everybody)
	if own != nil {
		return own.at(p.Number)
	}
	if decide := s.decide; decide != nil {
		s.mu.Unlock()
		defer s.mu.Lock()
		return decide(*p)
	}
	return nil
}

// acknowledge is the fast path. leave is called before the client can see the
// end of the answer, here and below.
func acknowledge(w http.ResponseWriter, id string, leave func()) {
	body := strings.ReplaceAll(Ack, "{{id}}", id)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	leave()
	_, _ = io.WriteString(w, body) // a client that is gone is no fault here
}

// give sends a scripted answer.
func (a *Answer) give(ctx context.Context, w http.ResponseWriter, id string, leave func()) {
	if !sleep(ctx, a.Delay) {
		return
	}
	fill := strings.NewReplacer("{{id}}", id, "{{ID}}", strings.ToUpper(id))
	body := []byte(fill.Replace(a.Body))
	if a.Pack != nil {
		body = a.Pack(body)
	}
	if a.Raw != "" || a.Close != Properly {
		a.raw(ctx, w, []byte(fill.Replace(a.Raw)), body, leave)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	for name, value := range a.Header {
		h.Set(name, value)
		if value == "" {
			h[http.CanonicalHeaderKey(name)] = nil // not sent at all
		}
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	write(ctx, w, body, a.Repeat, a.Drip, leave)
}

// raw takes the connection over.
func (a *Answer) raw(ctx context.Context, w http.ResponseWriter, head, body []byte, leave func()) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic("n8ntest: Raw and Close need HTTP/1.1: " + err.Error())
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // a client that reads nothing must not hold us
	headDrip, bodyDrip := time.Duration(0), a.Drip
	if len(body) == 0 {
		headDrip = a.Drip
	}
	if len(head) > 0 && !write(ctx, conn, head, 1, headDrip, nil) {
		return
	}
	if a.Close == Never {
		_, _ = io.Copy(io.Discard, conn) // ends when the client closes, or we do
		return
	}
	if !write(ctx, conn, body, a.Repeat, bodyDrip, leave) {
		return
	}
	tcp := conn
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok {
		tcp = over.NetConn()
	}
	if t, ok := tcp.(*net.TCPConn); ok && a.Close == Reset {
		_ = t.SetLinger(0)
	}
}

// write sends a body repeat times, byte for byte if it drips. False: the client
// is gone, or the server ends.
func write(ctx context.Context, w io.Writer, body []byte, repeat int, drip time.Duration, leave func()) bool {
	if leave == nil {
		leave = func() {}
	}
	repeat = max(repeat, 1)
	for i := range repeat {
		if drip > 0 {
			for j := range body {
				if i == repeat-1 && j == len(body)-1 {
					leave()
				}
				if _, err := w.Write(body[j : j+1]); err != nil {
					return false
				}
				if f, ok := w.(http.Flusher); ok {
					f.Flush()
				}
				if !sleep(ctx, drip) {
					return false
				}
			}
			continue
		}
		if i == repeat-1 {
			leave()
		}
		if _, err := w.Write(body); err != nil || ctx.Err() != nil {
			return false
		}
	}
	return true
}

// sleep waits, and tells whether it waited to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
