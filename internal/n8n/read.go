package n8n

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
)

// errPacked: the answer came whole, and what is in it cannot be unpacked.
var errPacked = errors.New("cannot be unpacked")

// drainBytes behind a packed answer are read, so that its connection can be used
// again: the end of a chunked body, and a line end or two. A plain answer has
// been read to its end.
const drainBytes = 4 << 10

// read reads at most limit bytes of an answer, unpacked if it came packed in a
// form that every HTTP client knows. Any other Content-Encoding is ignored.
func read(res *http.Response, limit int64) ([]byte, error) {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return nil, nil // what follows is no body, and has no end and no timeout
	}
	if len(res.Header["Content-Encoding"]) == 0 {
		return io.ReadAll(io.LimitReader(res.Body, limit))
	}
	wire := &source{reader: res.Body}
	content := bufio.NewReader(wire)
	if _, err := content.Peek(1); errors.Is(err, io.EOF) {
		return nil, nil // nothing to unpack
	}
	unpacked, err := unpack(content, res.Header.Values("Content-Encoding"))
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(unpacked, limit))
	}
	if err == nil && int64(len(body)) < limit {
		_, _ = io.CopyN(io.Discard, content, drainBytes) // what is wrong is in wire
	}
	switch {
	case wire.err != nil:
		return body, wire.err
	case err != nil:
		return body, errPacked
	}
	return body, nil
}

// unpack undoes the encodings of a body, the one that was put on last first.
func unpack(body *bufio.Reader, encodings []string) (io.Reader, error) {
	list := strings.Split(strings.ToLower(strings.Join(encodings, ",")), ",")
	var unpacked io.Reader = body
	for _, encoding := range slices.Backward(list) {
		var err error
		switch strings.TrimSpace(encoding) {
		case "gzip", "x-gzip":
			unpacked, err = gzip.NewReader(unpacked)
		case "deflate":
			unpacked, err = inflate(bufio.NewReader(unpacked))
		}
		if err != nil {
			return nil, err
		}
	}
	return unpacked, nil
}

// inflate reads deflate with the two bytes of zlib in front, as the standard has
// it, and without, as some servers send it.
func inflate(packed *bufio.Reader) (io.Reader, error) {
	head, _ := packed.Peek(2) // a shorter body fails below
	if len(head) == 2 && head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
		return zlib.NewReader(packed)
	}
	return flate.NewReader(packed), nil
}

// source keeps the fault of the connection, if there is one: it tells an answer
// that broke off from one that is packed wrongly.
type source struct {
	reader io.Reader
	err    error // never io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
