package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// roles are what this program is when it starts itself: everything that is
// measured runs in a process of its own.
var roles = map[string]func() error{
	"sink":  sinkRole,
	"bare":  func() error { return work(bareRole) },
	"floor": func() error { return work(floorRole) },
	"river": func() error { return work(riverRole) },
}

// job is what a contender is given.
type job struct {
	Events   int
	Bytes    int // of a body, about
	InFlight int
	Webhook  string
	Database string
	Box      time.Duration // it ends then, finished or not
}

// result is what a contender, or an invocation of ours, did.
type result struct {
	Done    int
	Seconds float64 // from the first claim to the last outcome that is durable
	CPU     float64 // seconds of this process within that time
	Peak    int64   // most memory that was resident, bytes
	Failed  int     // POSTs that were not acknowledged
	// The three below are the parent's.
	PostgresCPU float64
	SinkCPU     float64
	Foreign     float64 // share of the machine that others used meanwhile
}

func (r result) rate() float64 { return float64(r.Done) / r.Seconds }

// work runs a contender: it prepares, says so, waits for the word, and works.
func work(prepare func(job) (func() (done, failed int, err error), error)) error {
	in := bufio.NewReader(os.Stdin)
	var j job
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &j)
	}
	if err != nil {
		return err
	}
	drain, err := prepare(j)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := in.ReadBytes('\n'); err != nil {
		return err
	}
	cpu, began := ownCPU(), time.Now()
	done, failed, err := drain()
	if err != nil {
		return err
	}
	r := result{Done: done, Failed: failed, Seconds: time.Since(began).Seconds(), CPU: ownCPU() - cpu, Peak: peakMemory(os.Getpid())}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// ownCPU is what this process has used, in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for a wrong argument alone
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// child is this program in a role.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(role string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, role)
	cmd.Stderr = os.Stderr
	// It ends with us, however we end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &child{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (c *child) line() (string, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return "", errors.Join(fmt.Errorf("%s gave no answer", c.cmd.Args[1]), c.cmd.Wait())
	}
	return line[:len(line)-1], nil
}

// contend has a contender do a job.
func (p *place) contend(role string, j job) (r result, err error) {
	c, err := startChild(role)
	if err != nil {
		return r, err
	}
	defer func() {
		_ = c.in.Close()
		if waited := c.cmd.Wait(); err == nil {
			err = waited
		}
	}()
	text, err := json.Marshal(j)
	if err != nil {
		return r, err
	}
	if _, err := fmt.Fprintf(c.in, "%s\n", text); err != nil {
		return r, err
	}
	if _, err := c.line(); err != nil {
		return r, err
	}
	usage := p.usage()
	if _, err := fmt.Fprintln(c.in, "go"); err != nil {
		return r, err
	}
	line, err := c.line()
	if err != nil {
		return r, err
	}
	err = json.Unmarshal([]byte(line), &r)
	usage.into(&r)
	return r, err
}
