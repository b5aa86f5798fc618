package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// pooler is a PgBouncer in transaction mode, one for all tests, with few sessions
// so that transactions of several clients share them.
var pooler struct {
	once sync.Once
	port string
	err  error
	end  func()
}

// throughPgBouncer is the URL of a database behind PgBouncer.
func throughPgBouncer(t testing.TB, to string) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	pooler.once.Do(func() { pooler.port, pooler.end, pooler.err = startPgBouncer(u) })
	if errors.Is(pooler.err, errNoPgBouncer) && os.Getenv("CI") == "" {
		t.Skip(pooler.err) // CI has it; a newcomer's machine need not
	}
	if pooler.err != nil {
		t.Fatal(pooler.err)
	}
	u.Host = net.JoinHostPort("127.0.0.1", pooler.port)
	return u.String()
}

var errNoPgBouncer = errors.New("this test needs PgBouncer: apt-get install pgbouncer (or brew install pgbouncer)")

func startPgBouncer(server *url.URL) (port string, end func(), err error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer") // where Debian has it, and not on every PATH
	}
	if err != nil {
		return "", nil, errNoPgBouncer
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	_, port, _ = net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	folder, err := os.MkdirTemp("", "pgbouncer-test-*")
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(folder)
		}
	}()
	user := server.User.Username()
	password, _ := server.User.Password()
	// ignore_startup_parameters and the like are left as they come.
	config := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 2
max_client_conn = 500
logfile = %s
`, server.Hostname(), server.Port(), port, filepath.Join(folder, "users"), filepath.Join(folder, "log"))
	if err := errors.Join(
		os.Chmod(folder, 0o777), // it runs as somebody else if we are root
		os.WriteFile(filepath.Join(folder, "pgbouncer.ini"), []byte(config), 0o644),
		os.WriteFile(filepath.Join(folder, "users"), fmt.Appendf(nil, "%q %q\n", user, password), 0o644),
	); err != nil {
		return "", nil, err
	}
	// The shell ends it when our end of its input closes, however we die.
	script := `"$0" "$@" & read -r _; kill $!; wait $!; rm -rf "$OLDPWD"`
	args := []string{"-c", "cd /; " + script, program, "-q"}
	if os.Getuid() == 0 {
		args = append(args, "-u", "nobody")
	}
	cmd := exec.Command("/bin/sh", append(args, filepath.Join(folder, "pgbouncer.ini"))...)
	cmd.Dir = folder
	life, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	end = func() {
		_ = life.Close()
		_ = cmd.Wait()
		_ = os.RemoveAll(folder)
	}
	through := *server
	through.Host = net.JoinHostPort("127.0.0.1", port)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, with(through.String(), "default_query_exec_mode=exec"))
		if err == nil {
			_ = conn.Close(ctx)
			return port, end, nil
		}
		if ctx.Err() != nil {
			log, _ := os.ReadFile(filepath.Join(folder, "log"))
			end()
			return "", nil, fmt.Errorf("PgBouncer does not answer: %w\n%s", err, log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
