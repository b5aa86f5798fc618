package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// group is a program with all the processes it starts. They end with us, however
// we end: a shell beside them waits for the end of a pipe that only we hold.
type group struct {
	cmd   *exec.Cmd
	life  *os.File // our end of the pipe
	ended chan struct{}
}

const endWithUs = `
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
( read -r nothing <&3; kill -KILL 0 ) &
exec 3<&-
wait "$program"
`

// startGroup starts a program whose output goes to the end of a log file.
func startGroup(folder, logFile string, env []string, command ...string) (*group, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	reading, writing, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reading.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", endWithUs, "e2e"}, command...)...)
	cmd.Dir, cmd.Env = folder, env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = reading, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = writing.Close()
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	g := &group{cmd: cmd, life: writing, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended says its log
		close(g.ended)
	}()
	return g, nil
}

// kill ends all of it with SIGKILL, as a crash would, and waits.
func (g *group) kill() error {
	err := syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
	<-g.ended
	_ = g.life.Close()
	if errors.Is(err, syscall.ESRCH) { // it was gone already
		return nil
	}
	return err
}

// running reports whether the program has not ended by itself.
func (g *group) running() bool {
	select {
	case <-g.ended:
		return false
	default:
		return true
	}
}
