package throwaway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	files := selfSigned(t)
	s := start(t, Options{TLS: &files})

	verified := strings.Replace(s.URL("postgres"), "sslmode=disable", "sslmode=verify-full&sslrootcert="+files.CertFile, 1)
	if !value[bool](t, connect(t, verified), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") {
		t.Error("the connection has no TLS")
	}
	if value[bool](t, connect(t, s.URL("postgres")), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") {
		t.Error("URL means a connection without TLS")
	}
}

// selfSigned writes a certificate for 127.0.0.1.
func selfSigned(t *testing.T) TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	files := TLS{CertFile: filepath.Join(folder, "cert.pem"), KeyFile: filepath.Join(folder, "key.pem")}
	for path, block := range map[string]*pem.Block{
		files.CertFile: {Type: "CERTIFICATE", Bytes: certificate},
		files.KeyFile:  {Type: "PRIVATE KEY", Bytes: private},
	} {
		// Postgres itself would refuse a key that everybody may read.
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
