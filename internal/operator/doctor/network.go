package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"outbox-dispatcher/internal/netfault"
	"outbox-dispatcher/internal/operator"
)

// dialTimeout bounds one connection: what takes longer is a firewall that drops
// packets.
const dialTimeout = 5 * time.Second

// expiresSoon is when a certificate is worth a warning: automatic renewals happen
// earlier than two weeks before its end.
const expiresSoon = 14 * 24 * time.Hour

const settingsFirst = "fix the settings first"

// hop is what a connection to n8n is made to: n8n, or the proxy in front of it.
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
		return fault(name, what+": "+netfault.Of(err).String(), "check the host in N8N_WEBHOOK_URL, and the DNS of the VPC")
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
		return unknown(name, "its host name cannot be resolved", "fix the name first")
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address(u))
	if err != nil {
		return fault(name, address(u)+": "+netfault.Of(err).String(), "check that n8n is up, its firewall, and the egress of the VPC (NAT, security group)")
	}
	defer conn.Close()
	e.reached = true
	switch {
	case proxied:
		e.connected = true
		return ok(name, "the proxy "+address(u)+" accepts connections; TLS with n8n is part of the next check")
	case u.Scheme == "http":
		e.connected = true
		return ok(name, address(u)+" accepts connections; without TLS, so token and payloads travel in plain text")
	}
	t := &tls.Config{}
	if e.TLS != nil {
		t = e.TLS.Clone()
	}
	t.ServerName = cmp.Or(t.ServerName, u.Hostname())
	secure := tls.Client(conn, t)
	if err := secure.HandshakeContext(ctx); err != nil {
		return fault(name, address(u)+": "+netfault.Of(err).String(), "check the certificate of n8n or of the proxy in front of it")
	}
	e.connected = true
	state := secure.ConnectionState()
	end := state.PeerCertificates[0].NotAfter
	text := fmt.Sprintf("%s speaks %s, with a certificate valid until %s", address(u), tls.VersionName(state.Version), end.UTC().Format(time.DateOnly))
	if time.Until(end) < expiresSoon {
		return warning(name, text, "renew the certificate")
	}
	return ok(name, text)
}

// answer sends a GET, which runs nothing: the webhook accepts only POST, and no
// token is sent.
func (e *examination) answer(ctx context.Context) operator.Check {
	const name = "n8n answer"
	u := e.Settings.WebhookURL
	switch {
	case u == nil:
		return unknown(name, "the settings do not say where it is", settingsFirst)
	case !e.connected:
		return unknown(name, "there is no connection", "fix the connection first")
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, OnProxyConnectResponse: netfault.OnProxyConnectResponse, TLSClientConfig: e.TLS, DisableKeepAlives: true}
	if u.Scheme != "https" {
		transport.Proxy = nil
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{"User-Agent": {"outbox-dispatcher doctor"}}}).WithContext(ctx)
	res, err := client.Do(req)
	if err != nil {
		return fault(name, netfault.Of(err).String(), "check n8n, and the proxy in front of it")
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10)) // of an answer that breaks off, the status is enough
	redirect := ""
	if to, err := res.Location(); err == nil {
		redirect = to.Host
	}
	return judge(name, res.StatusCode, string(body), redirect)
}

// judge tells what n8n's answer to a GET means. Its own texts tell the cases
// apart: the status alone is the same for all of them. redirect is the host of a
// Location.
func judge(name string, status int, body, redirect string) operator.Check {
	said := fmt.Sprintf("a GET was answered with HTTP %d", status)
	switch {
	case status == http.StatusNotFound && strings.Contains(body, "Did you mean to make a POST request"):
		return ok(name, said+", as by an active webhook for POST; nothing was run")
	case status == http.StatusNotFound && strings.Contains(body, "not registered"):
		return fault(name, said+": the webhook is not registered", "activate the workflow; compare its path with N8N_WEBHOOK_URL")
	case status == http.StatusNotFound:
		return fault(name, said+", and not by a webhook", "compare the path with N8N_WEBHOOK_URL; n8n also answers this while it starts up")
	case status == http.StatusOK && strings.Contains(body, "starting up"):
		return fault(name, said+": n8n is starting up", "wait, then check again")
	case status >= 200 && status <= 299:
		return warning(name, said+": the endpoint also accepts GET", "let the webhook accept only POST; check that N8N_WEBHOOK_URL is the right one")
	case status >= 300 && status <= 399:
		return fault(name, said+": a redirect to "+cmp.Or(redirect, "no host")+", which is never followed", "set N8N_WEBHOOK_URL to where it points, unless that is a login page")
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ok(name, said+": it requires authentication, which a GET lacks; nothing was run")
	case status == http.StatusMethodNotAllowed:
		return ok(name, said+": it accepts other methods; nothing was run")
	}
	return fault(name, said, "check n8n, and the proxy in front of it")
}

func sorted(words []string) string {
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// wayOut checks the egress of the functions: n8n and Secrets Manager.
func (e *examination) wayOut(ctx context.Context) operator.Check {
	const name = "way out"
	if !e.InLambda {
		return unknown(name, "this machine is not in the VPC of the functions", `invoke the operator function with {"action":"doctor"}`)
	}
	if e.Settings.WebhookURL == nil {
		return unknown(name, "the settings do not say where n8n is", settingsFirst)
	}
	if !e.reached {
		return fault(name, "n8n cannot be connected to from the subnets of the function", "give the subnets a NAT, or n8n an address inside the VPC; check the security group")
	}
	id := cmp.Or(e.Settings.TokenSecretID, e.Settings.Database.SecretID)
	if id == "" {
		return ok(name, "n8n can be connected to; Secrets Manager is not used")
	}
	target := e.secretsManager()
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", target)
	if err != nil {
		return fault(name, target+": "+netfault.Of(err).String(), "give the VPC an endpoint for Secrets Manager, or the subnets a NAT; allow port 443 out of the security group")
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
