package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// sample is what a process holds at one moment.
type sample struct {
	memory      int // resident, KiB
	threads     int
	handles     int // open file descriptors
	connections int // those of them that are sockets
}

// take reads it from /proc, which has it for a frozen process too.
func take(pid int) (s sample, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "VmRSS":
			s.memory, err = strconv.Atoi(strings.Fields(value)[0])
		case "Threads":
			s.threads, err = strconv.Atoi(strings.TrimSpace(value))
		}
		if err != nil {
			return s, err
		}
	}
	folder := fmt.Sprintf("/proc/%d/fd/", pid)
	handles, err := os.ReadDir(folder)
	for _, h := range handles {
		s.handles++
		if to, err := os.Readlink(folder + h.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			s.connections++
		}
	}
	return s, err
}

// measure is one thing that has to stay flat.
type measure struct {
	name  string
	of    func(sample) int
	slack int // by which the last third may be above the first
}

// The slacks are what a Go program that leaks nothing shows: the heap moves by
// some megabytes with the size of the last batch, and threads are made when many
// system calls block at once and are never given back.
var measures = []measure{
	{"memory, KiB", func(s sample) int { return s.memory }, 8 << 10},
	{"threads", func(s sample) int { return s.threads }, 4},
	{"file handles", func(s sample) int { return s.handles }, 3},
	{"connections", func(s sample) int { return s.connections }, 3},
}

// printFlat prints the median of the first and the last third of the samples, and
// reports whether nothing grew. The first tenth is the warm-up.
func printFlat(out io.Writer, samples []sample) (ok bool) {
	ok = true
	const format = "%-14s%14v%14v%14v%14v  %s\n"
	fmt.Fprintf(out, format, "", "at first", "first third", "last third", "most", "")
	samples = samples[len(samples)/10:]
	for _, m := range measures {
		values := make([]int, len(samples))
		for i, s := range samples {
			values[i] = m.of(s)
		}
		early, late := median(values[:len(values)/3]), median(values[len(values)-len(values)/3:])
		word := "flat"
		if late > early+m.slack {
			word, ok = fmt.Sprintf("DOES NOT HOLD: it grew by more than %d", m.slack), false
		}
		fmt.Fprintf(out, format, m.name, values[0], early, late, slices.Max(values), word)
	}
	return ok
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
