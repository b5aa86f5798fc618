package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is what /proc counts CPU in: USER_HZ, 100 on every Linux.
const ticksPerSecond = 100

// stat returns the fields of /proc/pid/stat from the state on; nil if the process
// is gone. Field 1 is the parent, 11 and 12 are its own CPU, 13 and 14 that of the
// children it waited for.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name before may hold spaces.
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
}

func sumTicks(fields []string) (sum float64) {
	for _, f := range fields {
		n, _ := strconv.ParseFloat(f, 64) // digits, by the kernel's word
		sum += n
	}
	return sum / ticksPerSecond
}

// cpuOf is the CPU of a process in seconds.
func cpuOf(pid int) float64 {
	if f := stat(pid); f != nil {
		return sumTicks(f[11:13])
	}
	return 0
}

func parentOf(pid int) int {
	if f := stat(pid); f != nil {
		n, _ := strconv.Atoi(f[1])
		return n
	}
	return 0
}

// cpuOfFamily is the CPU of a process and of all its children, those that have
// ended included: Postgres and its sessions.
func cpuOfFamily(pid int) float64 {
	f := stat(pid)
	if f == nil {
		return 0
	}
	sum := sumTicks(f[11:15])
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		if child, _ := strconv.Atoi(filepath.Base(folder)); parentOf(child) == pid {
			sum += cpuOf(child)
		}
	}
	return sum
}

// cpuOfMachine is what was used by anybody: all but idle, iowait and steal.
func cpuOfMachine() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(line)[1:]
	return sumTicks([]string{f[0], f[1], f[2], f[5], f[6]})
}

// peakMemory is the most that a process had resident, in bytes.
func peakMemory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// usage is what was used up to a moment.
type usage struct {
	p                             *place
	at                            time.Time
	postgres, sink, self, machine float64
}

func (p *place) usage() usage {
	return usage{p, time.Now(), cpuOfFamily(p.postmaster), cpuOf(p.sink.child.cmd.Process.Pid), ownCPU(), cpuOfMachine()}
}

// into adds to a result what was used since.
func (u usage) into(r *result) {
	now := u.p.usage()
	r.PostgresCPU, r.SinkCPU = now.postgres-u.postgres, now.sink-u.sink
	foreign := now.machine - u.machine - r.PostgresCPU - r.SinkCPU - (now.self - u.self) - r.CPU
	r.Foreign = max(0, foreign) / now.at.Sub(u.at).Seconds() / float64(runtime.NumCPU())
}
