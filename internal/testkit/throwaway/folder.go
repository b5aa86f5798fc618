package throwaway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const folderPattern = "outbox-dispatcher-postgres-*"

// folder is the place of one server. A lock on the file "lock" in it, which the
// kernel takes back when the owner dies, says that the owner lives.
type folder struct {
	path string
	lock *os.File
}

// parentFolder is where the folder of a server goes.
func parentFolder(options Options) string {
	const memory, spare = "/dev/shm", 1 << 30
	var stat syscall.Statfs_t
	if options.InMemory && syscall.Statfs(memory, &stat) == nil && int64(stat.Bavail)*int64(stat.Bsize) >= spare {
		return memory
	}
	return os.TempDir()
}

func newFolder(parent string) (*folder, error) {
	path, err := os.MkdirTemp(parent, folderPattern)
	if err != nil {
		return nil, fmt.Errorf("make a folder for Postgres: %w", err)
	}
	lock, err := lockFile(filepath.Join(path, "lock"), syscall.LOCK_EX)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a folder for Postgres: %w", err), os.RemoveAll(path))
	}
	return &folder{path: path, lock: lock}, nil
}

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	return errors.Join(err, f.lock.Close())
}

// sweep removes the folders in parent whose owner is dead. They are rare: the
// watchdog must have died too, as when the machine lost its power. A server
// that still runs in one notices within a minute that its lock file is gone,
// and ends.
func sweep(parent string) {
	paths, _ := filepath.Glob(filepath.Join(parent, folderPattern)) // it fails for a bad pattern only
	for _, path := range paths {
		// A young folder may just be waiting for its lock.
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := lockFile(filepath.Join(path, "lock"), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			continue // its owner lives, or it is another user's
		}
		_ = os.RemoveAll(path) // in vain: the next Start tries again
		_ = lock.Close()
	}
}

// lockFile opens a file and locks it, until the file is closed or the process
// ends. how is that of flock(2).
func lockFile(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}
