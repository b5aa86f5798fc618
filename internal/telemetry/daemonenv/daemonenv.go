// Package daemonenv hides AWS_XRAY_DAEMON_ADDRESS from the X-Ray SDK while that
// initialises, because the SDK panics there on an address that it does not take
// ("[::1]:2000" is one), and asks the DNS for a name. No program of ours may die,
// or wait, for the sake of a trace.
//
// It works by the order that the Go specification fixes: of the packages whose
// imports are initialised, the first by import path comes next. This one imports
// os alone. The SDK needs net/http, which needs packages under vendor/, and
// "outbox-dispatcher" sorts before "vendor". A test holds it to that.
package daemonenv

import "os"

const variable = "AWS_XRAY_DAEMON_ADDRESS"

var hidden, wasSet = os.LookupEnv(variable)

func init() { os.Unsetenv(variable) }

// Restore puts the variable back. To be called once the SDK is initialised: from
// the init of a package that imports both.
func Restore() {
	if wasSet {
		os.Setenv(variable, hidden)
	}
}
