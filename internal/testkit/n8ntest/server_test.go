package n8ntest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"outbox-dispatcher/internal/testkit/n8ntest"
)

func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func envelope(n int) string { return fmt.Sprintf(`{"event_id":"%s","data":{}}`, id(n)) }

// post sends one event and returns status and body; status 0 is a fault.
func post(t *testing.T, client *http.Client, s *n8ntest.Server, token string, n int) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL(), strings.NewReader(envelope(n)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Fleet-Ops-Trigger-Token", token)
	res, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, string(body)
}

func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestServer(t *testing.T) {
	t.Parallel()
	t.Run("AcknowledgesWithTheIDOfTheEvent", func(t *testing.T) {
		s := n8ntest.New(t)
		status, body := post(t, newClient(t), s, "", 1)
		want := `{"ok":true,"event_id":"` + id(1) + `","result":{"execution_id":"run-` + id(1) + `"}}`
		if status != 200 || body != want {
			t.Fatalf("answer %d %s, want 200 %s", status, body, want)
		}
	})
	t.Run("GivesEachAnswerSoManyTimesThenAcknowledges", func(t *testing.T) {
		s, client := n8ntest.New(t), newClient(t)
		s.Script(id(1), n8ntest.Answer{Status: 500, Times: 2}, n8ntest.Answer{Status: 503, Times: 1})
		var got []int
		for range 4 {
			status, _ := post(t, client, s, "", 1)
			got = append(got, status)
		}
		if !slices.Equal(got, []int{500, 500, 503, 200}) {
			t.Errorf("statuses %v", got)
		}
		if status, _ := post(t, client, s, "", 2); status != 200 {
			t.Errorf("another event got %d, and has no script", status)
		}
	})
	t.Run("RefusesAnotherTokenFromTheMomentItIsTold", func(t *testing.T) {
		s, client := n8ntest.New(t), newClient(t)
		s.RequireToken("old")
		if status, _ := post(t, client, s, "old", 1); status != 200 {
			t.Errorf("right token: %d", status)
		}
		s.RequireToken("new")
		if status, body := post(t, client, s, "old", 1); status != 403 || body != "Authorization data is wrong!" {
			t.Errorf("old token: %d %q", status, body)
		}
		if s.Refused() != 1 || s.PostsOf(id(1)) != 2 {
			t.Errorf("refused %d of %d, want 1 of 2", s.Refused(), s.PostsOf(id(1)))
		}
	})
	t.Run("CountsWhatIsOutAtTheSameTime", func(t *testing.T) {
		s, client := n8ntest.New(t), newClient(t)
		together := make(chan struct{})
		open := sync.OnceFunc(func() { close(together) })
		s.OnPost(func(n8ntest.Post) { // nobody is answered before all are there
			if s.InFlight() == 7 {
				open()
			}
			<-together
		})
		var all sync.WaitGroup
		for i := range 7 {
			all.Go(func() { post(t, client, s, "", i/2) })
		}
		all.Wait()
		if s.MaxInFlight() != 7 || s.InFlight() != 0 || s.Overlaps() != 3 || s.Count() != 7 {
			t.Errorf("most %d, now %d, overlaps %d, posts %d; want 7, 0, 3, 7", s.MaxInFlight(), s.InFlight(), s.Overlaps(), s.Count())
		}
	})
	t.Run("CallsTheHookWhileThePOSTIsOut", func(t *testing.T) {
		s := n8ntest.New(t)
		s.OnPost(func(p n8ntest.Post) {
			if s.InFlight() != 1 || p.EventID != id(4) || string(p.Body) != envelope(4) {
				t.Errorf("in flight %d, post %+v", s.InFlight(), p)
			}
		})
		post(t, newClient(t), s, "", 4)
		if got := s.Order(); !slices.Equal(got, []string{id(4)}) {
			t.Errorf("order %v", got)
		}
	})
	t.Run("ComesUpAgainOnTheSamePort", func(t *testing.T) {
		s, client := n8ntest.New(t), newClient(t)
		s.OnPost(func(p n8ntest.Post) {
			if p.Number == 1 {
				s.Down()
			}
		})
		if status, _ := post(t, client, s, "", 1); status != 0 {
			t.Errorf("a server that went down in the middle answered %d", status)
		}
		if err := s.Up(); err != nil {
			t.Fatal(err)
		}
		if status, _ := post(t, client, s, "", 1); status != 200 || s.PostsOf(id(1)) != 2 {
			t.Errorf("after coming up: %d, %d posts", status, s.PostsOf(id(1)))
		}
	})
	t.Run("SpeaksHTTP2OverTLS", func(t *testing.T) {
		s := n8ntest.NewTLS(t)
		transport := &http.Transport{TLSClientConfig: s.TLS(), ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		if status, _ := post(t, &http.Client{Transport: transport}, s, "", 1); status != 200 || s.Posts()[0].Proto != "HTTP/2.0" {
			t.Errorf("status %d, posts %+v", status, s.Posts())
		}
		over := s.TLS()
		over.NextProtos = []string{"h2"}
		conn, err := tls.Dial("tcp", s.Address(), over)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	})
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer n8ntest.Answer
		status int
		body   string
	}{
		"FillsInTheID":              {n8ntest.Answer{Status: 201, Body: "{{id}} {{ID}}"}, 201, id(10) + " " + id(10)},
		"RepeatsTheBody":            {n8ntest.Answer{Body: "ab", Repeat: 3}, 200, "ababab"},
		"DripsByteByByte":           {n8ntest.Answer{Body: "abc", Drip: time.Millisecond}, 200, "abc"},
		"Packs":                     {n8ntest.Answer{Body: "abc", Pack: n8ntest.Gzip, Header: map[string]string{"Content-Encoding": "gzip"}}, 200, "abc"},
		"SendsRawBytes":             {n8ntest.Answer{Raw: "HTTP/1.1 299 Odd\r\nContent-Length: 4\r\n\r\n", Body: "ab", Repeat: 2}, 299, "abab"},
		"ResetsWithoutAnAnswer":     {n8ntest.Answer{Close: n8ntest.Reset}, 0, ""},
		"ClosesWithoutAnAnswer":     {n8ntest.Answer{Close: n8ntest.FIN}, 0, ""},
		"BreaksOffBehindTheHeaders": {n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na", Close: n8ntest.Reset}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := n8ntest.New(t)
			s.ScriptAll(c.answer)
			status, body := post(t, newClient(t), s, "", 10)
			if status != c.status || body != c.body {
				t.Errorf("got %d %q, want %d %q", status, body, c.status, c.body)
			}
			if s.Count() != 1 {
				t.Errorf("%d posts", s.Count())
			}
		})
	}
	t.Run("NeverHoldsUntilTheServerEnds", func(t *testing.T) {
		s := n8ntest.New(t)
		s.ScriptAll(n8ntest.Answer{Close: n8ntest.Never})
		s.OnPost(func(n8ntest.Post) { time.AfterFunc(10*time.Millisecond, s.Down) })
		if status, _ := post(t, newClient(t), s, "", 1); status != 0 {
			t.Errorf("status %d", status)
		}
	})
}

func BenchmarkServer(b *testing.B) {
	s := n8ntest.New(b)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	defer transport.CloseIdleConnections()
	b.SetParallelism(5)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, _ := http.NewRequest(http.MethodPost, s.URL(), strings.NewReader(envelope(1)))
			res, err := transport.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "posts/s")
}
