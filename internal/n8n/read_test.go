package n8n_test

import (
	"bytes"
	"compress/flate"
	"testing"

	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/testkit/n8ntest"
)

// rawDeflate compresses without the two bytes that the standard requires in front,
// as some servers do.
func rawDeflate(b []byte) []byte {
	var z bytes.Buffer
	w, _ := flate.NewWriter(&z, flate.DefaultCompression)
	_, _ = w.Write(b)
	_ = w.Close()
	return z.Bytes()
}

func plain(b []byte) []byte { return b }

func TestPostDecompressesTheAnswer(t *testing.T) {
	t.Parallel()
	const success = outbox.Code("")
	twice := func(b []byte) []byte { return n8ntest.Gzip(n8ntest.Gzip(b)) }
	half := func(pack func([]byte) []byte) func([]byte) []byte {
		return func(b []byte) []byte { p := pack(b); return p[:len(p)/2] }
	}
	for name, c := range map[string]struct {
		encoding string
		pack     func([]byte) []byte
		code     outbox.Code
	}{
		"Gzip":                    {"gzip", n8ntest.Gzip, success},
		"GzipInCapitals":          {" GZip ", n8ntest.Gzip, success},
		"XGzip":                   {"x-gzip", n8ntest.Gzip, success},
		"Deflate":                 {"deflate", n8ntest.Deflate, success},
		"DeflateWithoutItsHeader": {"deflate", rawDeflate, success},
		"GzipTwice":               {"gzip, gzip", twice, success},
		"DeflateThenGzip":         {"deflate, gzip", func(b []byte) []byte { return n8ntest.Gzip(n8ntest.Deflate(b)) }, success},
		"GzipInTwoParts":          {"gzip", func(b []byte) []byte { return append(n8ntest.Gzip(b[:9]), n8ntest.Gzip(b[9:])...) }, success},
		"Identity":                {"identity", plain, success},
		"EmptyEncoding":           {"", plain, success},
		"UnknownIsIgnored":        {"nonsense", plain, success},
		"BrotliIsIgnored":         {"br", plain, success},
		"ZstdIsIgnored":           {"zstd", plain, success},
		"UnknownAndGzip":          {"nonsense, gzip", n8ntest.Gzip, success},
		// Of another form than the header says.
		"PlainLabelledGzip":        {"gzip", plain, success},
		"PlainLabelledXGzip":       {"x-gzip", plain, success},
		"PlainLabelledDeflate":     {"deflate", plain, success},
		"PlainLabelledTwice":       {"gzip, gzip", plain, success},
		"PlainLabelledGzipAndBR":   {"br, gzip", plain, success},
		"PlainWithBOM":             {"gzip", func(b []byte) []byte { return append([]byte("\ufeff\r\n "), b...) }, success},
		"GzipLabelledTwice":        {"gzip, gzip", n8ntest.Gzip, success},
		"GzipLabelledDeflate":      {"deflate", n8ntest.Gzip, success},
		"GzipLabelledBrotli":       {"br", n8ntest.Gzip, success},
		"GzipLabelledIdentity":     {"identity", n8ntest.Gzip, success},
		"DeflateLabelledGzip":      {"gzip", n8ntest.Deflate, success},
		"DeflateThenGzipReversed":  {"gzip, deflate", func(b []byte) []byte { return n8ntest.Gzip(n8ntest.Deflate(b)) }, success},
		"DeflateLabelledBrotli":    {"br", n8ntest.Deflate, outbox.MalformedResponse},
		"GzipFourTimes":            {"gzip, gzip, gzip, gzip", func(b []byte) []byte { return twice(twice(b)) }, outbox.MalformedResponse},
		"TextLabelledGzip":         {"gzip", func([]byte) []byte { return []byte("not gzip") }, outbox.ConnectionError},
		"TextLabelledDeflate":      {"deflate", func([]byte) []byte { return []byte("not deflate") }, outbox.ConnectionError},
		"PlainCutOff":              {"gzip", half(plain), outbox.ConnectionError},
		"GzipCutOff":               {"gzip", half(n8ntest.Gzip), outbox.ConnectionError},
		"DeflateCutOff":            {"deflate", half(n8ntest.Deflate), outbox.ConnectionError},
		"GzipOfNineBytes":          {"gzip", func(b []byte) []byte { return n8ntest.Gzip(b)[:9] }, outbox.ConnectionError},
		"DeflateOfOneByte":         {"deflate", func([]byte) []byte { return []byte{0x78} }, outbox.ConnectionError},
		"GzipWithWrongChecksum":    {"gzip", func(b []byte) []byte { p := n8ntest.Gzip(b); p[len(p)-5] ^= 1; return p }, outbox.ConnectionError},
		"DeflateWithWrongChecksum": {"deflate", func(b []byte) []byte { p := n8ntest.Deflate(b); p[len(p)-1] ^= 1; return p }, outbox.ConnectionError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := n8ntest.New(t)
			s.Script(id(1), n8ntest.Answer{Body: n8ntest.Ack, Pack: c.pack, Header: map[string]string{"Content-Encoding": c.encoding}})
			w := newWebhook(t, s.URL())
			a := w.Post(t.Context(), token, envelope(1))
			if v := outbox.Judge(id(1), a); v.Code != c.code {
				t.Errorf("judged %q, want %q: %s", v.Code, c.code, v.Text)
			}
			if c.code == outbox.ConnectionError {
				faulty(t, a, "the compressed answer is invalid")
			}
			acknowledged(t, w.Post(t.Context(), token, envelope(2)), 2)
		})
	}
}

// Where the connection broke, that is what the text says.
func TestPostTellsABrokenConnectionFromInvalidCompression(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	half := func(b []byte) []byte { return n8ntest.Gzip(b)[:20] }
	for n, c := range []struct {
		encoding string
		pack     func([]byte) []byte
	}{{"gzip", half}, {"gzip", n8ntest.Gzip}, {"deflate", n8ntest.Deflate}, {"identity", plain}} {
		s.Script(id(n), n8ntest.Answer{
			Raw:  "HTTP/1.1 200 OK\r\nContent-Encoding: " + c.encoding + "\r\nContent-Length: 5000\r\n\r\n",
			Body: n8ntest.Ack, Pack: c.pack,
		})
		faulty(t, w.Post(t.Context(), token, envelope(n)), "broke off: the connection was closed by the other end")
	}
}

// An error answer without a body, or with a wrongly labelled one, is its status.
func TestPostReadsAnErrorWhateverItsEncoding(t *testing.T) {
	t.Parallel()
	s := n8ntest.New(t)
	w := newWebhook(t, s.URL())
	for n, c := range []struct {
		answer  n8ntest.Answer
		excerpt string
	}{
		{n8ntest.Answer{Status: 500, Body: "oh no", Pack: n8ntest.Gzip, Header: map[string]string{"Content-Encoding": "gzip"}}, "oh no"},
		{n8ntest.Answer{Status: 500, Body: "oh no", Header: map[string]string{"Content-Encoding": "gzip"}}, "oh no"},
		{n8ntest.Answer{Status: 502, Header: map[string]string{"Content-Encoding": "gzip"}}, ""},
		{n8ntest.Answer{Status: 200, Header: map[string]string{"Content-Encoding": "gzip"}}, ""},
		{n8ntest.Answer{Status: 204, Header: map[string]string{"Content-Encoding": "deflate"}}, ""},
	} {
		s.Script(id(n), c.answer)
		if a := w.Post(t.Context(), token, envelope(n)); a.HTTPStatus != c.answer.Status || a.Fault != "" || a.Excerpt() != c.excerpt {
			t.Errorf("%d: %+v", n, a)
		}
	}
}
