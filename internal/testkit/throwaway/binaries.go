package throwaway

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// binaries is a folder that holds the programs of one Postgres.
type binaries struct{ folder string }

func (b binaries) postgres() string { return filepath.Join(b.folder, "postgres") }
func (b binaries) initdb() string   { return filepath.Join(b.folder, "initdb") }

// complete reports whether both programs are there.
func (b binaries) complete() bool {
	for _, program := range []string{b.postgres(), b.initdb()} {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return true
}

// installations are the folders in which packages put a server, the newest
// version last: Debian and Ubuntu, Red Hat, Homebrew on either Mac.
var installations = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// findBinaries follows Options.Bin.
func findBinaries(ctx context.Context, options Options) (binaries, error) {
	switch asked := cmp.Or(options.Bin, os.Getenv("POSTGRES_BIN")); {
	case asked == Download:
		return download(ctx, options)
	case asked != "":
		b := binaries{asked}
		if !b.complete() {
			return binaries{}, fmt.Errorf("no postgres and initdb in %s, which POSTGRES_BIN or Options.Bin names", asked)
		}
		return b, nil
	}
	if installed, ok := findInstalled(); ok {
		return installed, nil
	}
	b, err := download(ctx, options)
	if err != nil {
		return binaries{}, fmt.Errorf("found no Postgres on PATH or in %v (set POSTGRES_BIN to the folder of one): %w", installations, err)
	}
	return b, nil
}

func findInstalled() (binaries, bool) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if b := (binaries{filepath.Dir(path)}); b.complete() {
			return b, true
		}
	}
	for _, pattern := range installations {
		folders, _ := filepath.Glob(pattern) // it fails for a bad pattern only
		slices.SortFunc(folders, func(a, b string) int { return cmp.Compare(majorVersion(b), majorVersion(a)) })
		for _, folder := range folders {
			if b := (binaries{folder}); b.complete() {
				return b, true
			}
		}
	}
	return binaries{}, false
}

// majorVersion is the number in the path of an installation, 0 without one.
func majorVersion(folder string) int {
	version, _ := strconv.Atoi(versionNumber.FindString(folder))
	return version
}
