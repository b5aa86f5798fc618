package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// janitorScript waits until the writing end of its pipe closes: by close, or
// because our process is dead, however it died. Then it ends every process that
// has the folder in its environment, and removes the folder. Compilers, emulator
// and function all inherit TMPDIR or GOTMPDIR, whoever started them, so that
// none needs to be told of. Postgres has a watchdog of its own.
//
// Where there is no /proc it only removes the folder: compilers end by
// themselves there, and close ends the emulator.
const janitorScript = `
trap '' HUP INT TERM
while read -r _; do :; done
tries=0
while [ "$tries" -lt 20 ]; do
	tries=$((tries + 1))
	ended=
	for file in $(grep -lsF -- "$1" /proc/[0-9]*/environ); do
		pid=${file#/proc/}
		kill -KILL "${pid%/environ}" && ended=yes
	done
	[ -n "$ended" ] || break
done 2>/dev/null
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
`

// janitor owns the folder of a run. It is the one that cleans up in any case, so
// that what happens after a SIGKILL is what happens every time.
type janitor struct {
	folder string
	cmd    *exec.Cmd
	pipe   *os.File // nobody else has this end: Go opens it close-on-exec
}

// startJanitor starts the janitor, and only then makes the folder, so that no
// moment is left in which nobody would remove it.
func startJanitor() (*janitor, error) {
	folder := filepath.Join(os.TempDir(), "outbox-dispatcher-demo-"+rand.Text())
	reading, writing, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reading.Close()
	cmd := exec.Command("/bin/sh", "-c", janitorScript, "demo-janitor", folder)
	cmd.Dir = "/"
	cmd.Stdin = reading
	// A group of its own: a Ctrl-C passes it by.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = writing.Close()
		return nil, fmt.Errorf("start the janitor: %w", err)
	}
	j := &janitor{folder: folder, cmd: cmd, pipe: writing}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// close lets the janitor do its work and waits for its end.
func (j *janitor) close() error {
	_ = j.pipe.Close()
	if err := j.cmd.Wait(); err != nil {
		return fmt.Errorf("clean up %s: %w", j.folder, err)
	}
	return nil
}
