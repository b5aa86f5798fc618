package throwaway

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	make := func(ownerLives bool, age time.Duration) string {
		t.Helper()
		f, err := newFolder(parent)
		if err != nil {
			t.Fatal(err)
		}
		if ownerLives {
			t.Cleanup(func() { _ = f.remove() })
		} else {
			_ = f.lock.Close() // as the kernel does
		}
		made := time.Now().Add(-age)
		if err := os.Chtimes(f.path, made, made); err != nil {
			t.Fatal(err)
		}
		return f.path
	}
	orphan := make(false, time.Hour)
	owned := make(true, time.Hour)
	young := make(false, 0)
	foreign := filepath.Join(parent, "somebody-else")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}

	sweep(parent)

	if exists(orphan) {
		t.Error("the folder of a dead owner is still there")
	}
	for what, path := range map[string]string{"of a living owner": owned, "that may just be made": young, "of somebody else": foreign} {
		if !exists(path) {
			t.Errorf("the folder %s is gone", what)
		}
	}
}
