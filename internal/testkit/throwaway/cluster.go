package throwaway

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// makeCluster fills the folder of the server: its data, who may connect, and
// the TLS files.
func (s *Server) makeCluster(ctx context.Context, version string) error {
	cached := s.cachedCluster(version)
	if os.CopyFS(s.dataFolder(), os.DirFS(cached)) != nil || !isCluster(s.dataFolder()) {
		if err := os.RemoveAll(s.dataFolder()); err != nil {
			return err
		}
		if err := s.initdb(ctx); err != nil {
			return err
		}
		keepCluster(s.dataFolder(), cached)
	}
	if err := s.writeHBA(); err != nil {
		return err
	}
	if err := s.copyTLS(); err != nil {
		return err
	}
	// Postgres refuses data that others can read; the copy has lost the mode.
	if err := os.Chmod(s.dataFolder(), 0o700); err != nil {
		return err
	}
	if err := s.identity.own(s.folder.path); err != nil {
		return fmt.Errorf("hand the folder of Postgres over: %w", err)
	}
	return s.setPassword(ctx)
}

// initdb makes a new cluster. Locale C is on every machine; the encoding is that
// of every server one meets.
func (s *Server) initdb(ctx context.Context) error {
	cmd := s.identity.command(ctx, s.folder.path, s.binaries.initdb(),
		"--pgdata", s.dataFolder(), "--username", superuser, "--auth", "trust",
		"--locale", "C", "--encoding", "UTF8", "--no-sync", "--no-instructions")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a cluster with %s: %w\n%s", s.binaries.initdb(), err, text)
	}
	return nil
}

// cachedCluster is where a fresh cluster of these very binaries is kept: initdb
// takes a second, a copy a tenth of it.
func (s *Server) cachedCluster(version string) string {
	key := sha256.Sum256([]byte(s.binaries.folder))
	return filepath.Join(cacheFolder(), fmt.Sprintf("cluster-%s-%x", version, key[:4]))
}

// keepCluster puts a copy of a fresh cluster at cached. It may fail: the next
// Start is slower then, nothing else.
func keepCluster(fresh, cached string) {
	if os.MkdirAll(filepath.Dir(cached), 0o755) != nil {
		return
	}
	copied, err := os.MkdirTemp(filepath.Dir(cached), "new-*")
	if err != nil {
		return
	}
	defer os.RemoveAll(copied)
	if os.CopyFS(copied, os.DirFS(fresh)) == nil {
		_ = os.Rename(copied, cached) // in one step, so that nobody copies half a cluster
	}
}

func isCluster(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "global", "pg_control"))
	return err == nil
}

func (s *Server) writeHBA() error {
	method := "trust"
	if s.options.Password != "" {
		method = "scram-sha-256"
	}
	lines := append(append([]string{}, s.options.HBA...), "host all all 127.0.0.1/32 "+method)
	return os.WriteFile(filepath.Join(s.dataFolder(), "pg_hba.conf"), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// setPassword works on the data before any server runs, so that there is no
// moment at which the password is not asked for.
func (s *Server) setPassword(ctx context.Context) error {
	password := s.options.Password
	if password == "" {
		return nil
	}
	if strings.ContainsAny(password, "\x00\n\\") {
		return errors.New("a password for a throw-away Postgres may hold no backslash, line break or NUL")
	}
	cmd := s.identity.command(ctx, s.folder.path, s.binaries.postgres(), "--single", "-D", s.dataFolder(), superuser)
	cmd.Stdin = strings.NewReader("ALTER ROLE " + superuser + " PASSWORD '" + strings.ReplaceAll(password, "'", "''") + "'\n")
	// Its exit status is 0 even where the statement failed; a connection, which
	// follows, tells.
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("set the password of Postgres: %w\n%s", err, text)
	}
	return nil
}

func (s *Server) certFile() string { return filepath.Join(s.folder.path, "server.crt") }

func (s *Server) keyFile() string { return filepath.Join(s.folder.path, "server.key") }

func (s *Server) copyTLS() error {
	if s.options.TLS == nil {
		return nil
	}
	for to, from := range map[string]string{s.certFile(): s.options.TLS.CertFile, s.keyFile(): s.options.TLS.KeyFile} {
		text, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("TLS for Postgres: %w", err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return fmt.Errorf("TLS for Postgres: %w", err)
		}
	}
	return nil
}
