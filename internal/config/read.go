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

// reader reads variables and gathers what is wrong with them. After a problem the
// value is of no use.
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

// word is the value of a variable without the white space around it, which editors
// and shells leave there.
func (r *reader) word(name string) string {
	v, _ := r.lookup(name)
	return strings.TrimSpace(v)
}

func (r *reader) settings(list []Setting) (s Settings) {
	for _, d := range list {
		if d.field == nil {
			continue
		}
		if what := r.read(d, d.field(&s)); what != "" {
			r.problem(d.Name, what)
		}
	}
	return s
}

// read reads one setting into the field that to points at, or says what is wrong.
func (r *reader) read(d Setting, to any) (problem string) {
	text := r.word(d.Name)
	if text == "" {
		text = d.Default
	}
	switch to := to.(type) {
	case *string:
		*to = text
	case *token:
		if text == "" {
			return ""
		}
		v, _ := r.lookup(d.Name) // a token that begins with white space is an error
		value, err := outbox.HeaderToken(v)
		if err != nil {
			return err.Error()
		}
		*to = token(value)
	case *bool:
		switch strings.ToLower(text) {
		case "true", "1", "yes", "on":
			*to = true
		case "false", "0", "no", "off":
		default:
			return "must be true or false"
		}
	case *int:
		n, err := strconv.ParseInt(text, 10, 64)
		*to = int(n)
		return d.outside(float64(n), err, "a whole number")
	case *int64:
		n, err := strconv.ParseInt(text, 10, 64)
		*to = n
		return d.outside(float64(n), err, "a whole number")
	case *time.Duration:
		n, err := strconv.ParseFloat(text, 64)
		if problem = d.outside(n, err, "seconds"); problem == "" {
			*to = time.Duration(math.Round(n * float64(time.Second)))
		}
		return problem
	case *Table:
		t, err := ParseTable(text)
		if err != nil {
			return err.Error()
		}
		*to = t
	case **url.URL:
		*to, problem = webhookURL(text)
		return problem
	}
	return ""
}

func (d Setting) outside(n float64, err error, what string) string {
	if err == nil && n >= d.Min && n <= d.Max { // never true for NaN
		return ""
	}
	return fmt.Sprintf("must be %s from %s to %s", what, number(d.Min), number(d.Max))
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// Range is the bounds as people read them; empty where there are none.
func (d Setting) Range() string {
	if d.Min == 0 && d.Max == 0 {
		return ""
	}
	return number(d.Min) + " to " + number(d.Max)
}

func webhookURL(text string) (u *url.URL, problem string) {
	if text == "" {
		return nil, "is not set"
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") || !validPort(u) {
		return nil, "is not a URL such as https://n8n.example/webhook/path"
	}
	// A password with an @ and a slash: a piece of it would be the host, and go to DNS.
	if strings.Contains(u.EscapedPath(), "@") || u.User != nil && strings.Contains(u.RawQuery, "@") {
		return nil, "has an @ after the host; write @ : / ? # of a user name or password as %40 %3A %2F %3F %23, and any other @ as %40"
	}
	u.Fragment, u.RawFragment = "", ""
	return u, ""
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
