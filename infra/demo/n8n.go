package main

import (
	"cmp"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// n8n is where the events go.
type n8n struct {
	url     string
	token   string
	standIn *standIn // nil: an n8n that was given
}

func openN8N(s *screen, g given) (*n8n, error) {
	if g.webhookURL != "" {
		host := "it"
		if u, err := url.Parse(g.webhookURL); err == nil {
			host = u.Host
		}
		s.say("sending to " + host + ", by N8N_WEBHOOK_URL")
		return &n8n{url: g.webhookURL, token: g.token}, nil
	}
	token := cmp.Or(g.token, rand.Text())
	stand, err := startStandIn(token)
	if err != nil {
		return nil, err
	}
	s.say("a stand-in for n8n listens on " + stand.listener.Addr().String() + ", acknowledging what does not ask to be refused")
	return &n8n{url: "http://" + stand.listener.Addr().String() + webhookPath, token: token, standIn: stand}, nil
}

func (n *n8n) close() error {
	if n.standIn == nil {
		return nil
	}
	return n.standIn.server.Close()
}

const (
	webhookPath = "/webhook/outbox"
	// workTime is how long the stand-in takes for an event: a quick workflow.
	workTime = 20 * time.Millisecond
)

// standIn is a server on loopback that answers as n8n with our workflow does. An
// event tells in its data how it wants to be treated.
type standIn struct {
	server   *http.Server
	listener net.Listener
	token    string

	mu           sync.Mutex
	posts        map[string]int // by event id, whatever was answered
	acknowledged map[string]int
	executions   int
}

func startStandIn(token string) (*standIn, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the stand-in n8n: %w", err)
	}
	n := &standIn{listener: listener, token: token, posts: map[string]int{}, acknowledged: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+webhookPath, n.receive)
	n.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = n.server.Serve(listener) }() // it ends with the close of the server
	return n, nil
}

// envelope is what the dispatcher sends, as far as the stand-in looks.
type envelope struct {
	EventID       string          `json:"event_id"`
	EventType     string          `json:"event_type"`
	OccurredAt    string          `json:"occurred_at"`
	CorrelationID json.RawMessage `json:"correlation_id"`
	Aggregate     json.RawMessage `json:"aggregate"`
	Data          struct {
		Reply reply `json:"demo_reply"`
	} `json:"data"`
}

func (n *standIn) receive(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(outbox.TokenHeader)), []byte(n.token)) != 1 {
		http.Error(w, "Authorization data is wrong!", http.StatusForbidden)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20)) // n8n's own limit
	var e envelope
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	if err != nil || e.EventID == "" || e.EventType == "" || e.OccurredAt == "" || e.CorrelationID == nil || e.Aggregate == nil {
		http.Error(w, "not an envelope of the dispatcher", http.StatusBadRequest)
		return
	}
	time.Sleep(workTime)
	n.answer(w, r, e.EventID, n.wanted(e))
}

// wanted counts the POST and returns how it is answered.
func (n *standIn) wanted(e envelope) reply {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.posts[e.EventID]++
	if e.Data.Reply == busyOnce && n.posts[e.EventID] > 1 {
		return acknowledge
	}
	return e.Data.Reply
}

func (n *standIn) answer(w http.ResponseWriter, r *http.Request, id string, how reply) {
	switch how {
	case refuse:
		writeJSON(w, http.StatusOK, map[string]any{"ok": false, "event_id": id, "error": "unknown customer"})
	case webPage:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!DOCTYPE html><title>Sign in</title><h1>Please sign in</h1>")
	case crash:
		writeJSON(w, http.StatusInternalServerError, map[string]any{"message": "Error in workflow"})
	case busyOnce:
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"message": "n8n is starting up"})
	case silence:
		<-r.Context().Done() // until the other side gives up
	case otherID:
		writeJSON(w, http.StatusOK, acknowledgement("00000000-0000-4000-8000-000000000000", "1"))
	default:
		writeJSON(w, http.StatusOK, acknowledgement(id, n.execution(id)))
	}
}

// execution counts an acknowledgement and returns its execution id.
func (n *standIn) execution(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.acknowledged[id]++
	n.executions++
	return fmt.Sprint(1000 + n.executions)
}

// counts returns the POSTs, the events acknowledged, and how many of these more
// than once.
func (n *standIn) counts() (posts, acknowledged, doubles int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, times := range n.posts {
		posts += times
	}
	for _, times := range n.acknowledged {
		if times > 1 {
			doubles++
		}
	}
	return posts, len(n.acknowledged), doubles
}

func acknowledgement(id, execution string) map[string]any {
	return map[string]any{"ok": true, "event_id": id, "result": map[string]any{"execution_id": execution}}
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // who does not listen any more misses it
}
