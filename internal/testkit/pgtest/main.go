// Package pgtest gives tests a real Postgres: one server for a test
// process, a database of its own for a test.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestClaim(t *testing.T) {
//		url := pgtest.NewFrom(t, migrated)
//		...
//	}
//
// The server is a throwaway.Server, started by the first test that asks for a
// database, or the one that the environment variable TEST_DATABASE_URL names.
// Where neither can be had, the tests fail: they are never skipped.
package pgtest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Main runs the tests of a package and ends the process with their exit status,
// once the server is closed and what is given as after was called. It belongs
// into TestMain.
func Main(m *testing.M, after ...func()) {
	ignoreLibpq()
	status := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintf(os.Stderr, "pgtest: %v\n", err)
		status = max(status, 1)
	}
	for _, clean := range after {
		clean()
	}
	os.Exit(status)
}

// ignoreLibpq takes the PG variables of the shell out of this process: they would
// change what a connection string of a test means.
func ignoreLibpq() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name)
		}
	}
}
