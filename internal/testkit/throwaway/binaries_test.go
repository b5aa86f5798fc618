package throwaway

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeBinaries makes a folder with the given programs.
func fakeBinaries(t *testing.T, programs ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, program := range programs {
		if err := os.WriteFile(filepath.Join(folder, program), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestFindBinaries(t *testing.T) {
	whole, half := fakeBinaries(t, "postgres", "initdb"), fakeBinaries(t, "postgres")
	other := fakeBinaries(t, "postgres", "initdb")
	for name, test := range map[string]struct {
		option, variable, path string
		want                   string // empty: an error
	}{
		"OptionWinsOverEnvironment": {option: whole, variable: other, want: whole},
		"EnvironmentWinsOverPath":   {variable: whole, path: other, want: whole},
		"FoundOnPath":               {path: whole, want: whole},
		"NamedButIncomplete":        {variable: half, path: whole},
		"NamedButAbsent":            {option: filepath.Join(half, "absent"), path: whole},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("POSTGRES_BIN", test.variable)
			t.Setenv("PATH", test.path)
			got, err := findBinaries(t.Context(), Options{Bin: test.option})
			if got.folder != test.want || (err != nil) != (test.want == "") {
				t.Errorf("got %q and error %v, want %q", got.folder, err, test.want)
			}
		})
	}

	t.Run("HalfAPostgresOnPathIsPassedBy", func(t *testing.T) {
		t.Setenv("PATH", half)
		if got, ok := findInstalled(); ok && got.folder == half {
			t.Error("it took a folder without initdb")
		}
	})

	t.Run("NewestInstallationFirst", func(t *testing.T) {
		if majorVersion("/usr/lib/postgresql/9.6/bin") >= majorVersion("/usr/lib/postgresql/15/bin") {
			t.Error("9.6 counts as newer than 15")
		}
	})
}

func TestFetch(t *testing.T) {
	t.Parallel()

	t.Run("KeepsTheBinaries", func(t *testing.T) {
		t.Parallel()
		requests := 0
		repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			if strings.HasSuffix(r.URL.Path, ".jar") {
				_, _ = w.Write(jar(t))
				return
			}
			http.NotFound(w, r) // no checksum: the library takes that
		}))
		defer repository.Close()
		cache := t.TempDir()
		kept := filepath.Join(cache, "postgres")
		for range 2 {
			if err := fetch(repository.URL, kept); err != nil {
				t.Fatal(err)
			}
		}
		if b := (binaries{filepath.Join(kept, "bin")}); !b.complete() {
			t.Error("the programs are not there")
		}
		if requests != 2 {
			t.Errorf("%d requests, want 2: the archive and its checksum, once", requests)
		}
		if left, _ := filepath.Glob(filepath.Join(cache, "new-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})

	t.Run("LeavesNothingHalfDone", func(t *testing.T) {
		t.Parallel()
		repository := httptest.NewServer(http.NotFoundHandler())
		defer repository.Close()
		kept := filepath.Join(t.TempDir(), "postgres")
		if err := fetch(repository.URL, kept); err == nil {
			t.Error("no error from a repository without the archive")
		}
		if exists(kept) {
			t.Error("something was kept all the same")
		}
	})
}

// jar wraps the archive in testdata as the repository does.
func jar(t *testing.T) []byte {
	archive, err := os.ReadFile("testdata/postgres.txz")
	if err != nil {
		t.Error(err)
	}
	var file bytes.Buffer
	writer := zip.NewWriter(&file)
	entry, err := writer.Create("postgres-test.txz")
	if err == nil {
		_, err = entry.Write(archive)
	}
	if err != nil || writer.Close() != nil {
		t.Errorf("make the jar: %v", err)
	}
	return file.Bytes()
}
