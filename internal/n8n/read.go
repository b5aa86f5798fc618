package n8n

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// errCompressed: the answer came whole, and cannot be decompressed.
var errCompressed = errors.New("invalid compressed answer")

// maxEncodings bounds how often one answer is decompressed.
const maxEncodings = 3

// read reads at most limit bytes of an answer, before and after decompression. What
// broke off on the way is not returned: it may end within a secret, which then
// nothing recognises.
func read(res *http.Response, limit int64) ([]byte, error) {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return nil, nil // what follows is not a body, and has no end and no timeout
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return nil, err
	}
	if encodings := res.Header.Values("Content-Encoding"); len(body) > 0 && len(encodings) > 0 {
		return decompress(body, strings.Split(strings.ToLower(strings.Join(encodings, ",")), ","), limit)
	}
	return body, nil
}

// decompress undoes the encodings of a body, the one applied last first. It goes by
// what the body is before what the header says: a proxy that decompresses may leave
// the header in place, and nothing that is compressed is also JSON.
func decompress(body []byte, encodings []string, limit int64) ([]byte, error) {
	for _, encoding := range slices.Backward(encodings[max(0, len(encodings)-maxEncodings):]) {
		if json.Valid(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))) {
			break
		}
		r, err := decoder(body, strings.TrimSpace(encoding))
		if err == nil && r == nil {
			continue
		}
		if err == nil {
			body, err = io.ReadAll(io.LimitReader(r, limit))
		}
		if err != nil && !utf8.Valid(body) {
			body = nil // nothing that people could read
		}
		if err != nil {
			return body, errCompressed
		}
	}
	return body, nil
}

// decoder returns nil for a form that not every HTTP client knows: such an encoding
// is ignored.
func decoder(body []byte, encoding string) (io.Reader, error) {
	r := bytes.NewReader(body)
	gzipped := encoding == "gzip" || encoding == "x-gzip"
	switch {
	case bytes.HasPrefix(body, []byte{0x1f, 0x8b}):
		return gzip.NewReader(r)
	// The two bytes of zlib that the standard requires in front of deflate.
	case (gzipped || encoding == "deflate") && len(body) >= 2 && body[0]&0x0f == 8 && (uint(body[0])<<8|uint(body[1]))%31 == 0:
		return zlib.NewReader(r)
	case gzipped:
		return gzip.NewReader(r) // fails
	case encoding == "deflate":
		return flate.NewReader(r), nil // some servers omit them
	}
	return nil, nil
}
