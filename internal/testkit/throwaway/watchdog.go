package throwaway

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// watchdogScript reads process numbers, one a line, until the writing end of
// the pipe closes: by dismiss, or because our process is dead, however it
// died. Then it ends the last process it was told of (0: none), with its
// group, and removes the folder. Postgres takes its lock file away as the last
// thing it does; its number alone would not tell, where nobody reaps orphans.
//
// A parent-death signal would not do: it is tied to the thread that forked, is
// known to Linux alone, and leaves the folder.
const watchdogScript = `
trap '' HUP INT TERM
pid=0
while read -r line; do pid=$line; done
if [ "$pid" -gt 0 ]; then
	kill -QUIT "-$pid"
	tries=0
	while [ -e "$1/data/postmaster.pid" ] && kill -0 "$pid" && [ "$tries" -lt 100 ]; do
		tries=$((tries + 1))
		sleep 0.05 || sleep 1
	done
	kill -KILL "-$pid"
fi
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
`

// watchdog is the process that cleans up when we cannot.
type watchdog struct {
	cmd  *exec.Cmd
	pipe *os.File // nobody else has this end: Go opens it close-on-exec
}

func startWatchdog(folder string) (*watchdog, error) {
	reading, writing, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the watchdog of Postgres: %w", err)
	}
	defer reading.Close()
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "postgres-watchdog", folder)
	cmd.Dir = "/"
	cmd.Stdin = reading
	// A group of its own: what ends ours, a Ctrl-C among others, passes it by.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = writing.Close()
		return nil, fmt.Errorf("start the watchdog of Postgres: %w", err)
	}
	return &watchdog{cmd: cmd, pipe: writing}, nil
}

// watch tells which process, the leader of its group, to end in our place. 0:
// none.
func (w *watchdog) watch(pid int) error {
	if _, err := w.pipe.WriteString(strconv.Itoa(pid) + "\n"); err != nil {
		return fmt.Errorf("the watchdog of Postgres is gone: %w", err)
	}
	return nil
}

// dismiss lets the watchdog do its work, which is none after a watch(0) and the
// removal of the folder, and waits for its end.
func (w *watchdog) dismiss() error {
	_ = w.pipe.Close()
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("end the watchdog of Postgres: %w", err)
	}
	return nil
}
