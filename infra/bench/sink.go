package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// token is what the sink asks for.
const token = "a-known-token"

// sink stands for n8n: it answers a POST after so many milliseconds with an
// acknowledgement, and keeps who came when.
type sink struct {
	mu      sync.Mutex
	latency time.Duration
	posts   int
	when    map[string]time.Time // event_id -> first POST of it, answered
}

// sinkRole serves until the parent closes its input.
func sinkRole() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &sink{when: map[string]time.Time{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhook/outbox", s.post)
	mux.HandleFunc("POST /reset", s.reset)
	mux.HandleFunc("GET /seen", s.seen)
	fmt.Println("http://" + l.Addr().String())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(l, mux)
}

// idAt is where the event_id stands in a body, which begins {"event_id":"
const idAt = len(`{"event_id":"`)

func (s *sink) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) < idAt+36 {
		http.Error(w, "no event", http.StatusBadRequest)
		return
	}
	if r.Header.Get("X-Fleet-Ops-Trigger-Token") != token {
		http.Error(w, "Authorization data is wrong!", http.StatusForbidden)
		return
	}
	id := string(body[idAt : idAt+36])
	s.mu.Lock()
	latency := s.latency
	s.mu.Unlock()
	if latency > 0 {
		time.Sleep(latency)
	}
	s.mu.Lock()
	s.posts++
	run := s.posts
	if _, twice := s.when[id]; !twice {
		s.when[id] = time.Now()
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	fmt.Fprintf(w, `{"ok":true,"event_id":"%s","result":{"execution_id":"%d"}}`, id, run)
}

// reset forgets everything and takes a new latency.
func (s *sink) reset(_ http.ResponseWriter, r *http.Request) {
	ms, _ := strconv.Atoi(r.FormValue("ms"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency, s.posts, s.when = time.Duration(ms)*time.Millisecond, 0, map[string]time.Time{}
}

// seen is what the sink saw since its reset.
type seen struct {
	Posts int
	When  map[string]time.Time
}

func (s *sink) seen(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(seen{s.posts, s.when}) // the parent would notice
}

// duplicates is how many POSTs were not the first of their event.
func (s seen) duplicates() int { return s.Posts - len(s.When) }

// sinkProcess is the sink as the parent sees it.
type sinkProcess struct {
	child *child
	url   string
}

func startSink() (*sinkProcess, error) {
	c, err := startChild("sink")
	if err != nil {
		return nil, err
	}
	url, err := c.line()
	return &sinkProcess{c, url}, err
}

func (s *sinkProcess) webhook() string { return s.url + "/webhook/outbox" }

func (s *sinkProcess) reset(ms int) error {
	res, err := http.Post(s.url+"/reset?ms="+strconv.Itoa(ms), "", nil)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func (s *sinkProcess) seen() (v seen, err error) {
	res, err := http.Get(s.url + "/seen")
	if err != nil {
		return v, err
	}
	defer res.Body.Close()
	return v, json.NewDecoder(res.Body).Decode(&v)
}

func (s *sinkProcess) close() {
	_ = s.child.in.Close()
	_ = s.child.cmd.Wait()
}
