package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"outbox-dispatcher/internal/operator"
)

// dialTimeout bounds one connection: what takes longer is a packet that
// somebody drops.
const dialTimeout = 5 * time.Second

// expiresSoon is when a certificate becomes a worry: two weeks before its end,
// renewals that run by themselves are over.
const expiresSoon = 14 * 24 * time.Hour

const settingsFirst = "mend the settings first"

// hop is what a connection to n8n is made to: n8n, or the proxy before it.
func (e *examination) hop() (u *url.URL, proxied bool) {
	if u = e.Settings.WebhookURL; u == nil || u.Scheme != "https" {
		return u, false
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
		return proxy, true
	}
	return u, false
}

func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func (e *examination) name(ctx context.Context) operator.Check {
	const name = "n8n name"
	u, proxied := e.hop()
	if u == nil {
		return unknown(name, "the settings do not say where it is", settingsFirst)
	}
	host := u.Hostname()
	what := host
	if proxied {
		what = "the proxy " + host
	}
	if net.ParseIP(host) != nil {
		return ok(name, what+" is an address")
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		e.nameless = true
		return fault(name, what+": "+sentence(err), "look at the host in N8N_WEBHOOK_URL, and at the DNS of the VPC")
	}
	slices.Sort(addresses)
	return ok(name, fmt.Sprintf("%s is %s", what, strings.Join(addresses[:min(len(addresses), 4)], ", ")))
}

func (e *examination) connection(ctx context.Context) operator.Check {
	const name = "n8n connection"
	u, proxied := e.hop()
	switch {
	case u == nil:
		return unknown(name, "the settings do not say where it is", settingsFirst)
	case e.nameless:
		return unknown(name, "its name is not known", "mend the name first")
	}
	const mend = "look whether n8n is up, at its firewall, and at the way out of the VPC (NAT, security group)"
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address(u))
	if err != nil {
		return fault(name, address(u)+": "+sentence(err), mend)
	}
	defer conn.Close()
	e.reached = true
	switch {
	case proxied:
		e.connected = true
		return ok(name, "the proxy "+address(u)+" takes connections; TLS with n8n shows in the answer")
	case u.Scheme == "http":
		e.connected = true
		return ok(name, address(u)+" takes connections; there is no TLS, so token and payloads travel in plain text")
	}
	t := &tls.Config{}
	if e.TLS != nil {
		t = e.TLS.Clone()
	}
	t.ServerName = cmp.Or(t.ServerName, u.Hostname())
	secure := tls.Client(conn, t)
	if err := secure.HandshakeContext(ctx); err != nil {
		return fault(name, "TLS with "+address(u)+": "+sentence(err), "look at the certificate of n8n or of the proxy before it")
	}
	e.connected = true
	state := secure.ConnectionState()
	end := state.PeerCertificates[0].NotAfter
	text := fmt.Sprintf("%s speaks %s, with a certificate until %s", address(u), tls.VersionName(state.Version), end.UTC().Format(time.DateOnly))
	if time.Until(end) < expiresSoon {
		return warning(name, text, "renew the certificate")
	}
	return ok(name, text)
}

// answer asks with a GET, which runs nothing: the webhook takes POST alone, and
// no token is sent.
func (e *examination) answer(ctx context.Context) operator.Check {
	const name = "n8n answer"
	u := e.Settings.WebhookURL
	switch {
	case u == nil:
		return unknown(name, "the settings do not say where it is", settingsFirst)
	case !e.connected:
		return unknown(name, "there is no connection", "mend the connection first")
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: e.TLS, DisableKeepAlives: true}
	if u.Scheme != "https" {
		transport.Proxy = nil
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{"User-Agent": {"outbox-dispatcher doctor"}}}).WithContext(ctx)
	res, err := client.Do(req)
	if err != nil {
		return fault(name, sentence(err), "look at n8n, and at the proxy before it")
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10)) // what broke off says less, and that is all
	return judge(name, res.StatusCode, string(body))
}

// judge tells what n8n's answer to a GET means. Its own texts tell the cases
// apart: the status alone is the same for all of them.
func judge(name string, status int, body string) operator.Check {
	said := fmt.Sprintf("a GET was answered HTTP %d", status)
	switch {
	case status == http.StatusNotFound && strings.Contains(body, "Did you mean to make a POST request"):
		return ok(name, said+", as an active webhook for POST does; nothing was run")
	case status == http.StatusNotFound && strings.Contains(body, "not registered"):
		return fault(name, said+": the webhook is not registered", "activate the workflow; compare its path with N8N_WEBHOOK_URL")
	case status == http.StatusNotFound:
		return fault(name, said+", and not by a webhook", "compare the path with N8N_WEBHOOK_URL; n8n says so too while it starts up")
	case status == http.StatusOK && strings.Contains(body, "starting up"):
		return fault(name, said+": n8n is starting up", "wait, and look again")
	case status >= 200 && status <= 299:
		return warning(name, said+": something answers there that takes GET as well", "let the webhook take POST alone; look whether N8N_WEBHOOK_URL is the right one")
	case status >= 300 && status <= 399:
		return fault(name, said+": a redirect, which is never followed", "set N8N_WEBHOOK_URL to where it leads")
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ok(name, said+": it asks for authentication, which a GET does not bring; nothing was run")
	case status == http.StatusMethodNotAllowed:
		return ok(name, said+": it takes other methods; nothing was run")
	}
	return fault(name, said, "look at n8n, and at the proxy before it")
}

// sentence names what went wrong on the way, by the kind of the error: the texts
// of errors hold URLs.
func sentence(err error) string {
	var (
		dns       *net.DNSError
		timeout   net.Error
		hostname  x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the name is not known (DNS)"
	case errors.As(err, &dns):
		return "the name cannot be resolved (DNS)"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &hostname):
		return "the certificate is for another host"
	case errors.As(err, &authority):
		return "the certificate is signed by an authority that is not trusted"
	case errors.As(err, &invalid):
		return "the certificate is not valid, by its dates or its use"
	case errors.As(err, &record):
		return "no TLS is spoken on this port"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to it"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection was closed"
	}
	return "the exchange broke off"
}

func sorted(words []string) string {
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// wayOut tells whether the functions get out of their VPC.
func (e *examination) wayOut(ctx context.Context) operator.Check {
	const name = "way out"
	if !e.InLambda {
		return unknown(name, "this machine is not in the VPC of the functions", `invoke the operator function with {"action":"doctor"}`)
	}
	if e.Settings.WebhookURL == nil {
		return unknown(name, "the settings do not say where n8n is", settingsFirst)
	}
	if !e.reached {
		return fault(name, "n8n cannot be connected to from the subnets of the function", "give the subnets a NAT, or n8n an address inside the VPC; look at the security group")
	}
	id := cmp.Or(e.Settings.TokenSecretID, e.Settings.Database.SecretID)
	if id == "" {
		return ok(name, "n8n can be connected to; Secrets Manager is not used")
	}
	target := e.secretsManager()
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", target)
	if err != nil {
		return fault(name, target+": "+sentence(err), "give the VPC an endpoint for Secrets Manager, or the subnets a NAT; let the security group out to port 443")
	}
	conn.Close()
	return ok(name, "n8n and Secrets Manager can be connected to")
}

// secretsManager is its address, as the SDK would find it.
func (e *examination) secretsManager() string {
	for _, variable := range []string{"AWS_ENDPOINT_URL_SECRETS_MANAGER", "AWS_ENDPOINT_URL"} {
		if text, _ := e.Lookup(variable); text != "" {
			if u, err := url.Parse(text); err == nil && u.Hostname() != "" {
				return address(u)
			}
		}
	}
	region, _ := e.Lookup("AWS_REGION")
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain += ".cn"
	}
	return "secretsmanager." + region + "." + domain + ":443"
}
