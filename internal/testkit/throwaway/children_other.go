//go:build !linux

package throwaway

import (
	"os/exec"
	"strconv"
	"strings"
)

// children lists the processes whose parent is pid.
func children(pid int) []int {
	// pgrep exits with 1 where there are none.
	text, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	var found []int
	for _, field := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			found = append(found, child)
		}
	}
	return found
}
