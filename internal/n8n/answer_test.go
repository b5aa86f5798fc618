package n8n_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

func TestPostReadsTheStatus(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n, c := range []struct {
		answer n8ntest.Answer
		status int
		text   string
	}{
		{n8ntest.Answer{Status: 500, Body: `{"message":"Error in workflow"}`}, 500, `HTTP 500 Internal Server Error from ` + s.Address() + `: answered with an error: {"message":"Error in workflow"}`},
		{n8ntest.Answer{Status: 404}, 404, `HTTP 404 Not Found from ` + s.Address() + `: answered with an error`},
		{n8ntest.Answer{Status: 599, Body: n8ntest.Ack}, 599, `HTTP 599 from`},
		{n8ntest.Answer{Status: 999, Body: n8ntest.Ack}, 999, `HTTP 999 from`},
		{n8ntest.Answer{Raw: "HTTP/1.1 404\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 404, `HTTP 404 Not Found`},
		{n8ntest.Answer{Raw: "HTTP/1.1 404 pas trouv\xc3\xa9\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 404, `HTTP 404 Not Found`},
		{n8ntest.Answer{Raw: "HTTP/1.1 404 \x00\x1b[31m\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 404, `HTTP 404 Not Found`},
		{n8ntest.Answer{Raw: "HTTP/1.1 99 Low\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 099 Low\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 000 None\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 +20 Plus\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 2000 Long\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 abc\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "220 mail.example ESMTP\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"}, 0, `the answer is not proper HTTP`},
		{n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"}, 0, `the answer is not proper HTTP`},
	} {
		s.Script(id(n), c.answer)
		a := w.Post(t.Context(), token, envelope(n))
		if v := outbox.Judge(id(n), a); a.HTTPStatus != c.status || !strings.Contains(v.Text, c.text) || v.Code != outbox.ConnectionError {
			t.Errorf("%q %d: HTTP %d, %q %q; want %d, %q", c.answer.Raw, c.answer.Status, a.HTTPStatus, v.Code, v.Text, c.status, c.text)
		}
		if s.PostsOf(id(n)) != 1 {
			t.Errorf("%q: %d posts", c.answer.Raw, s.PostsOf(id(n)))
		}
	}
}

func TestPostAcceptsEveryFormOfAnAnswer(t *testing.T) {
	t.Parallel()
	chunk := func(n int, extension, trailer string) string {
		ack := strings.ReplaceAll(n8ntest.Ack, "{{id}}", id(n))
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n%x%s\r\n%s\r\n0\r\n%s\r\n", len(ack), extension, ack, trailer)
	}
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n, c := range []struct {
		name   string
		answer n8ntest.Answer
	}{
		{"201", n8ntest.Answer{Status: 201, Body: n8ntest.Ack}},
		{"202", n8ntest.Answer{Status: 202, Body: n8ntest.Ack}},
		{"203", n8ntest.Answer{Status: 203, Body: n8ntest.Ack}},
		{"206", n8ntest.Answer{Status: 206, Body: n8ntest.Ack}},
		{"299", n8ntest.Answer{Status: 299, Body: n8ntest.Ack}},
		{"AnotherContentType", n8ntest.Answer{Body: n8ntest.Ack, Header: map[string]string{"Content-Type": "application/octet-stream"}}},
		{"UnknownCharset", n8ntest.Answer{Body: n8ntest.Ack, Header: map[string]string{"Content-Type": "application/json; charset=nonsense"}}},
		{"NoContentType", n8ntest.Answer{Body: n8ntest.Ack, Header: map[string]string{"Content-Type": ""}}},
		{"HTTP10UntilClose", n8ntest.Answer{Raw: "HTTP/1.0 200 OK\r\n\r\n" + n8ntest.Ack}},
		{"HTTP11UntilClose", n8ntest.Answer{Raw: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + n8ntest.Ack}},
		{"Chunked", n8ntest.Answer{Raw: chunk(10, "", "")}},
		{"ChunkedWithExtension", n8ntest.Answer{Raw: chunk(11, ";ext=1", "")}},
		{"ChunkedWithTrailer", n8ntest.Answer{Raw: chunk(12, "", "X-Checksum: 1\r\nContent-Length: 7\r\n")}},
		{"LengthGivenTwice", n8ntest.Answer{Raw: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %[1]d\r\nContent-Length: %[1]d\r\nConnection: close\r\n\r\n", len(n8ntest.Ack)+2*(len(id(0))-len("{{id}}"))) + n8ntest.Ack}},
		{"ResetContent", n8ntest.Answer{Raw: "HTTP/1.1 205 Reset Content\r\nConnection: close\r\n\r\n" + n8ntest.Ack}},
		{"UTF16ByItsCharsetAlone", n8ntest.Answer{Body: n8ntest.Ack, Header: map[string]string{"Content-Type": "application/json; charset=utf-16"}}},
		{"Dripping", n8ntest.Answer{Body: n8ntest.Ack, Drip: time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Script(id(n), c.answer)
			acknowledged(t, w.Post(t.Context(), token, envelope(n)), n)
		})
	}
}

func TestPostKeepsRetryAfterOf429And503(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n, c := range []struct {
		status int
		header string
		want   time.Duration
	}{
		{429, "120", 2 * time.Minute}, {503, "120", 2 * time.Minute}, {503, "abc", 0}, {503, "-1", 0}, {429, "99999999999999999999", time.Hour},
		{500, "120", 0}, {502, "120", 0}, {200, "120", 0}, {301, "120", 0},
	} {
		s.Script(id(n), n8ntest.Answer{Status: c.status, Header: map[string]string{"Retry-After": c.header}})
		if a := w.Post(t.Context(), token, envelope(n)); a.RetryAfter != c.want || a.HTTPStatus != c.status {
			t.Errorf("HTTP %d with %s: %v, want %v", c.status, c.header, a.RetryAfter, c.want)
		}
	}
}
