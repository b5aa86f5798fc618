package throwaway

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestIdentity(t *testing.T) {
	t.Parallel()

	t.Run("IsNeverRoot", func(t *testing.T) {
		t.Parallel()
		s := start(t, Options{})
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(status), "\nUid:\t0\t") {
			t.Errorf("it runs as root:\n%s", status)
		}
	})

	// A container without privileges, as rootless podman makes one: a root that
	// may become nobody else.
	t.Run("WorksForARootWithoutOtherUsers", func(t *testing.T) {
		t.Parallel()
		lonely := func() *syscall.SysProcAttr {
			return &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
			}
		}
		probe := exec.Command("unshare", "--user", "--map-root-user", "true")
		probe.SysProcAttr = lonely()
		if err := probe.Run(); err != nil {
			t.Skipf("this system has no user namespaces for us, and so no such root: %v", err)
		}

		cmd, c := startParent(t, "SIGKILL", lonely())
		if !strings.Contains(c.Note, "user namespace") {
			t.Errorf("it runs %q, want in a user namespace", c.Note)
		}
		connect(t, c.URL)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "server and folder are gone", func() bool { return !running(t, c.PID) && !exists(c.Folder) })
	})
}
