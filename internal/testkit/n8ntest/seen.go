package n8ntest

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// tokenHeader is spelled here once more, so that a change of it in the product
// shows in tests.
const tokenHeader = "X-Fleet-Ops-Trigger-Token"

// Post is one POST that arrived whole.
type Post struct {
	EventID string      // empty if the body had none
	Number  int         // 1 for the first POST of this event
	Header  http.Header // with Host
	Target  string      // path and query as they were sent
	Proto   string      // HTTP/1.1
	Length  int64       // Content-Length; -1: none was sent
	Body    []byte      // nil after ForgetBodies
	At      time.Time   // when it had arrived whole
}

// Token is the webhook token that the POST carried.
func (p Post) Token() string { return p.Header.Get(tokenHeader) }

// seen is what a server saw. Server.mu guards it.
type seen struct {
	posts       []Post
	counts      map[string]int
	inFlight    map[string]int
	total, most int
	overlaps    int
	refused     int
	connections int
	odd         []string // method and target of what was no POST
}

func (s *seen) reset() {
	*s = seen{counts: map[string]int{}, inFlight: map[string]int{}}
}

func (s *Server) accepted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections++
}

// serve takes one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.handlers.RLock()
	defer s.handlers.RUnlock()
	if r.Method != http.MethodPost {
		s.mu.Lock()
		s.odd = append(s.odd, r.Method+" "+r.RequestURI)
		s.mu.Unlock()
		http.Error(w, "Did you mean to make a POST request?", http.StatusNotFound)
		return
	}
	body, err := read(r)
	if err != nil {
		return // broke off: n8n sees no event either
	}
	p := Post{
		EventID: eventID(body), Header: r.Header.Clone(), Target: r.RequestURI,
		Proto: r.Proto, Length: r.ContentLength, Body: body, At: time.Now(),
	}
	p.Header.Set("Host", r.Host)
	latency, hook := s.arrived(&p)
	leave := sync.OnceFunc(func() { s.left(p.EventID) })
	defer leave()
	answer := s.choose(&p)
	if hook != nil {
		hook(p)
	}
	if !sleep(r.Context(), latency) {
		return
	}
	if answer == nil {
		acknowledge(w, p.EventID, leave)
		return
	}
	answer.give(r.Context(), w, p.EventID, leave)
}

func read(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 {
		return io.ReadAll(r.Body)
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

// eventID finds the id: first where our envelope has it, so that a large body is
// not parsed.
func eventID(body []byte) string {
	const start, length = `{"event_id":"`, 36
	if rest, ok := bytes.CutPrefix(body, []byte(start)); ok && len(rest) > length && rest[length] == '"' {
		return string(rest[:length])
	}
	var event struct {
		EventID string `json:"event_id"`
	}
	_ = json.Unmarshal(body, &event) // no id then
	return event.EventID
}

// arrived counts a POST.
func (s *Server) arrived(p *Post) (time.Duration, func(Post)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[p.EventID]++
	p.Number = s.counts[p.EventID]
	if s.inFlight[p.EventID]++; s.inFlight[p.EventID] > 1 {
		s.overlaps++
	}
	s.total++
	s.most = max(s.most, s.total)
	kept := *p
	if s.forget {
		kept.Body = nil
	}
	s.posts = append(s.posts, kept)
	return s.latency, s.hook
}

func (s *Server) left(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.inFlight[id]--; s.inFlight[id] == 0 {
		delete(s.inFlight, id)
	}
}

// Reset forgets what was seen. Scripts, token and latency stay. Not while POSTs
// are out.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reset()
}

// Posts returns every POST, in the order of arrival.
func (s *Server) Posts() []Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.posts)
}

// Order returns the event ids in the order of arrival, each as often as it came.
func (s *Server) Order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, len(s.posts))
	for i, p := range s.posts {
		ids[i] = p.EventID
	}
	return ids
}

// Count is the number of POSTs, refused ones included.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.posts)
}

// Counts is the number of POSTs of each event that came.
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// PostsOf is the number of POSTs of one event.
func (s *Server) PostsOf(eventID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[eventID]
}

// Refused is the number of POSTs that were answered 403 for their token.
func (s *Server) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// MaxInFlight is the largest number of POSTs that were out at the same time.
func (s *Server) MaxInFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// InFlight is the number of POSTs that are out now.
func (s *Server) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Overlaps is the number of POSTs that came while another POST of the same event
// was out.
func (s *Server) Overlaps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overlaps
}

// Connections is the number of TCP connections that were accepted.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

// Odd lists what came and was no POST, as "GET /path".
func (s *Server) Odd() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.odd)
}
