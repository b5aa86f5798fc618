package throwaway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// Download as Options.Bin or as POSTGRES_BIN passes by an installed server.
const Download = "download"

// downloaded is the version that is fetched where none is installed.
const downloaded = embedded.V17

// cacheFolder is kept from run to run. It holds nothing that cannot be made
// again. Root's own cache lies where nobody, as whom Postgres then runs, may not
// look.
func cacheFolder() string {
	const name = "outbox-dispatcher"
	if os.Geteuid() == 0 {
		return filepath.Join("/var/cache", name)
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		folder = os.TempDir()
	}
	return filepath.Join(folder, name)
}

// download returns the binaries of the cache folder, fetched by the
// library the first time.
func download(ctx context.Context, options Options) (binaries, error) {
	kept := filepath.Join(cacheFolder(), "postgres-"+string(downloaded))
	b := binaries{filepath.Join(kept, "bin")}
	if b.complete() {
		return b, nil
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return binaries{}, err
	}
	options.logf("downloading Postgres %s to %s", downloaded, kept)
	// The library cannot be interrupted. Given up, it ends with our process.
	done := make(chan error, 1)
	go func() { done <- fetch("", kept) }()
	select {
	case <-ctx.Done():
		return binaries{}, fmt.Errorf("download Postgres %s: %w", downloaded, ctx.Err())
	case err := <-done:
		return b, err
	}
}

// fetch puts the binaries at kept, as a whole or not at all. repository is the
// URL of a Maven repository; empty: the one that the library knows.
func fetch(repository, kept string) error {
	// The test processes of several packages may come here at once.
	lock, err := lockFile(kept+".lock", syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	if (binaries{filepath.Join(kept, "bin")}).complete() {
		return nil
	}
	work, err := os.MkdirTemp(filepath.Dir(kept), "new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	extracted := filepath.Join(work, "postgres")
	if err := extract(repository, work, extracted); err != nil {
		return fmt.Errorf("download Postgres %s: %w", downloaded, err)
	}
	if err := os.Chmod(extracted, 0o755); err != nil {
		return err
	}
	return os.Rename(extracted, kept)
}

// extract lets the library do the part of its Start that we want: to fetch the
// archive for this machine, compare its checksum and unpack it. What follows
// there, initdb, refuses root; so the library is given a place for its data that
// cannot be made, and stops before. That it makes the runtime folder just
// between the two tells one failure from the other.
func extract(repository, work, to string) error {
	file := filepath.Join(work, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	port, err := freePort() // never used, but it is looked at
	if err != nil {
		return err
	}
	runtime := filepath.Join(work, "runtime")
	config := embedded.DefaultConfig()
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	defer sweepLogs(logs())
	database := embedded.NewDatabase(config.
		Version(downloaded).
		Port(uint32(port)).
		CachePath(filepath.Join(work, "archive")).
		BinariesPath(to).
		RuntimePath(runtime).
		DataPath(filepath.Join(file, "data")).
		Logger(nil))
	err = database.Start()
	if err == nil {
		return errors.Join(errors.New("the library started a server it was not meant to"), database.Stop())
	}
	if _, statErr := os.Stat(runtime); statErr != nil {
		return err
	}
	return nil
}

// logs lists the logs of the library, which it leaves behind when its Start ends
// early.
func logs() map[string]bool {
	there := map[string]bool{}
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), "embedded_postgres_log*")) // it fails for a bad pattern only
	for _, path := range paths {
		there[path] = true
	}
	return there
}

// sweepLogs removes the logs that were not there before.
func sweepLogs(before map[string]bool) {
	for path := range logs() {
		if !before[path] {
			_ = os.Remove(path) // one that is gone already is as good
		}
	}
}
