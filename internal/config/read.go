package config

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"outbox-dispatcher/internal/outbox"
)

// reader reads variables and gathers what is wrong with them. After a problem
// the value returned is of no use.
type reader struct {
	lookup   Lookup
	problems []string
}

func (r *reader) problem(name, what string) {
	r.problems = append(r.problems, name+" "+what)
}

func (r *reader) failed(name string) bool {
	for _, p := range r.problems {
		if strings.HasPrefix(p, name+" ") {
			return true
		}
	}
	return false
}

func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return &SettingsError{Problems: r.problems}
}

func (r *reader) text(name, byDefault string) string {
	if v, _ := r.lookup(name); strings.TrimSpace(v) != "" {
		return v
	}
	return byDefault
}

// word is text without the white space around it, which editors and shells leave
// there.
func (r *reader) word(name, byDefault string) string {
	return strings.TrimSpace(r.text(name, byDefault))
}

func (r *reader) boolean(name string, byDefault bool) bool {
	switch strings.ToLower(r.word(name, "")) {
	case "":
		return byDefault
	case "true", "1", "yes", "on":
		return true
	case "false", "0", "no", "off":
		return false
	}
	r.problem(name, "must be true or false")
	return byDefault
}

func (r *reader) integer(name string, byDefault, lowest, highest int64) int64 {
	v := r.word(name, "")
	if v == "" {
		return byDefault
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < lowest || n > highest {
		r.problem(name, fmt.Sprintf("must be a whole number from %d to %d", lowest, highest))
	}
	return n
}

func (r *reader) seconds(name string, byDefault, lowest, highest float64) time.Duration {
	n := byDefault
	if v := r.word(name, ""); v != "" {
		var err error
		n, err = strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(n) || n < lowest || n > highest {
			r.problem(name, fmt.Sprintf("must be seconds from %v to %v", lowest, highest))
			return 0
		}
	}
	return time.Duration(math.Round(n * float64(time.Second)))
}

func (r *reader) token(name string) string {
	v := r.text(name, "")
	if v == "" {
		return ""
	}
	token, ok := outbox.HeaderToken(v)
	if !ok {
		r.problem(name, "cannot be the value of an HTTP header: it has a control character, or starts with a space")
	}
	return token
}

func (r *reader) webhookURL(name string, allowHTTP bool) *url.URL {
	v := r.word(name, "")
	if v == "" {
		r.problem(name, "is not set")
		return nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") || !validPort(u) {
		r.problem(name, "is not a URL such as https://n8n.example/webhook/path")
		return nil
	}
	if u.Scheme == "http" && !allowHTTP && !IsLoopback(u.Hostname()) {
		r.problem(name, "must start with https:// (http:// only to loopback, or with N8N_ALLOW_HTTP=true)")
	}
	u.Fragment, u.RawFragment = "", ""
	return u
}

func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

// IsLoopback reports whether a host name or address is this machine.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (r *reader) table(name, byDefault string) Table {
	t, err := ParseTable(r.text(name, byDefault))
	if err != nil {
		r.problem(name, err.Error())
	}
	return t
}
