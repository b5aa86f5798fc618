package n8n

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
)

// read reads at most limit bytes of an answer, unpacked if it came packed in a
// form that every HTTP client knows. Any other Content-Encoding is ignored.
func read(res *http.Response, limit int64) ([]byte, error) {
	body := bufio.NewReader(res.Body)
	if _, err := body.Peek(1); errors.Is(err, io.EOF) {
		return nil, nil // nothing to unpack
	}
	var unpacked io.Reader = body
	var err error
	switch strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding"))) {
	case "gzip", "x-gzip":
		unpacked, err = gzip.NewReader(body)
	case "deflate":
		unpacked, err = zlib.NewReader(body)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(unpacked, limit))
}
