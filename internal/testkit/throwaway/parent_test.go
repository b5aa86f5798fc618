package throwaway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// actAsParent lets the test binary start a server in place of running tests,
// say where it is, and wait to be killed. With the value "exit" it ends by
// itself, without a Close.
const actAsParent = "THROWAWAY_TEST_PARENT"

// child is what the parent says of its server, on one line of JSON.
type child struct {
	PID    int
	Folder string
	Note   string // of the identity it runs with
	URL    string
}

func parent() {
	s, err := Start(context.Background(), Options{InMemory: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(child{s.process.pid, s.folder.path, s.identity.note(), s.URL("postgres")})
	if os.Getenv(actAsParent) == "exit" {
		os.Exit(0)
	}
	select {}
}

// startParent returns a process of ours and the server that it started.
func startParent(t *testing.T, how string, attr *syscall.SysProcAttr) (*exec.Cmd, child) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), actAsParent+"="+how)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // dead by now, unless the test failed
		_ = cmd.Wait()
	})
	var c child
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c)
	}
	if err != nil {
		t.Fatalf("the parent said %q: %v", line, err)
	}
	return cmd, c
}

func TestDeadParentLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"SIGKILL", "exit"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cmd, c := startParent(t, how, nil)
			pids := []int{c.PID}
			if how == "SIGKILL" {
				pids = append(pids, value[int](t, connect(t, c.URL), "SELECT pg_backend_pid()"))
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			for _, pid := range pids {
				eventually(t, "server and backend are gone", func() bool { return !running(t, pid) })
			}
			eventually(t, "the folder is gone", func() bool { return !exists(c.Folder) })
		})
	}
}
