package throwaway

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// process is a child of ours that is waited for by asking, not by a goroutine
// (see the package comment). Until it was found to have exited its number
// cannot go to another process, so that signals reach it or nobody.
type process struct {
	pid  int
	done bool
}

func newProcess(p *os.Process) *process {
	defer p.Release() // we wait for it by its number
	return &process{pid: p.Pid}
}

func (p *process) signal(signal syscall.Signal) {
	if !p.exited() {
		_ = syscall.Kill(p.pid, signal)
	}
}

func (p *process) exited() bool {
	if p.done {
		return true
	}
	for {
		pid, err := syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		p.done = pid == p.pid || err != nil // an error: it is no child of ours any more
		return p.done
	}
}

// freeze stops the process as it is, until a SIGCONT or a SIGKILL.
func (p *process) freeze() {
	if p.exited() {
		return
	}
	_ = syscall.Kill(p.pid, syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		p.done = err != nil || !status.Stopped()
		return
	}
}

// wait reports whether the process exited in time.
func (p *process) wait(timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); !p.exited(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
