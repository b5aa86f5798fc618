package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres/rdsroots"
)

// trust adds our roots for the host to those that the settings name. Nil, and
// what verifies nothing (sslmode require), stay as they are.
func (c *Connector) trust(t *tls.Config, host string) *tls.Config {
	if t == nil || unverified(t) {
		return t
	}
	name := host
	if t.InsecureSkipVerify { // sslmode verify-ca: any name will do
		name = ""
	}
	own, ours := t.RootCAs, c.rootsFor(host)
	t = t.Clone()
	t.InsecureSkipVerify, t.VerifyPeerCertificate = true, nil // VerifyConnection does it
	t.VerifyConnection = func(s tls.ConnectionState) error {
		err := verify(s.PeerCertificates, name, ours)
		if err != nil && own != nil {
			err = verify(s.PeerCertificates, name, own)
		}
		return err
	}
	return t
}

// unverified reports that TLS would take any certificate.
func unverified(t *tls.Config) bool {
	return t.InsecureSkipVerify && t.VerifyPeerCertificate == nil && t.VerifyConnection == nil
}

// verify checks a chain as crypto/tls does; an empty name fits any certificate.
func verify(chain []*x509.Certificate, name string, roots *x509.CertPool) error {
	options := x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(options)
	return err
}

// rootsFor returns the roots that we trust for a host, parsed once.
func (c *Connector) rootsFor(host string) *x509.CertPool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pool := c.roots[host]; pool != nil {
		return pool
	}
	pool := x509.NewCertPool()
	rds := strings.HasSuffix(host, ".rds.amazonaws.com") || strings.HasSuffix(host, ".rds.amazonaws.com.cn")
	if !rds || strings.Contains(host, ".proxy-") {
		// RDS Proxy and every other host use public roots.
		if system, err := x509.SystemCertPool(); err == nil {
			pool = system
		}
	}
	rdsroots.Append(pool, host)
	if c.roots == nil {
		c.roots = map[string]*x509.CertPool{}
	}
	c.roots[host] = pool
	return pool
}

// lax reports whether a connection that leaves this machine would get TLS as it
// comes out where nobody asked for it: one try with any certificate, and one in
// plain text, which there is not if the settings ask for direct TLS.
func lax(cc *pgx.ConnConfig) bool {
	tries := append([]*pgconn.FallbackConfig{{Host: cc.Host, Port: cc.Port, TLSConfig: cc.TLSConfig}}, cc.Fallbacks...)
	plain := map[string]bool{}
	for _, try := range tries {
		plain[try.Host] = plain[try.Host] || try.TLSConfig == nil
	}
	return slices.ContainsFunc(tries, func(try *pgconn.FallbackConfig) bool {
		return !config.IsLoopback(try.Host) && try.TLSConfig != nil && unverified(try.TLSConfig) &&
			(plain[try.Host] || cc.SSLNegotiation == "direct")
	})
}
