package throwaway

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// children lists the processes whose parent is pid.
func children(pid int) []int {
	var found []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // it fails for a bad pattern only
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		// "123 (name) S 45 ...": the name may itself hold spaces and brackets.
		stat := string(text)
		fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			found = append(found, child)
		}
	}
	return found
}
