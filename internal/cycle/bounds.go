package cycle

import (
	"time"

	"outbox-dispatcher/internal/outbox"
)

// Bounds of the settings and of an event written by hand. Each is derived from a
// guarantee: beyond it the program would break that guarantee without an error.
// Package config reads the settings by them, template.yaml and the README repeat them
// under test, and a test holds the settings at each bound against each guarantee.
const (
	// PostMargin is what a POST needs beyond its timeout, of the lease and of the
	// invocation: its outcome has to reach the database. Two seconds are some hundred
	// times what that takes.
	PostMargin = 2 * time.Second
	// StartMargin is by how much an invocation should outlast the timeout of a POST, so
	// that a cold start does not claim what it cannot send: 8 s for the secrets, up to 4 s
	// for session and claim, PostMargin, and the second before the deadline in which
	// nothing is done any more.
	StartMargin = 15 * time.Second
	// LongestInvocation is what Lambda lets a function run at most.
	LongestInvocation = 15 * time.Minute
	// MaxHTTPTimeout leaves the longest invocation time for one POST.
	MaxHTTPTimeout = LongestInvocation - StartMargin
	// MaxLease is how long the events of a worker that died wait at most.
	MaxLease = 24 * time.Hour

	// MinLostLeases: an event that lost outbox.SuspectLeases leases goes out alone, and one
	// more lease lost alone shows that it is the event that kills its worker. Any fewer
	// would fail the innocent events of its batch with it.
	MinLostLeases = outbox.SuspectLeases + 1
	MaxLostLeases = 1000

	// MaxAttempts ends an event that always fails after a week, by the default cap of the
	// backoff.
	MaxAttempts = 10_000
	// MaxBackoffCap is as long as a Retry-After may delay an event.
	MaxBackoffCap = outbox.MaxRetryAfter

	// MaxRows of a claim or a reclaim stay within the time limit of its statement, and a dry
	// run that shows as many within the 6 MB that a Lambda may return.
	MaxRows = 10_000
	// MaxCycles: 0 cycles are bounded by the time alone.
	MaxCycles = 1000
	// MaxConcurrency: of the 1,024 file descriptors of a Lambda, 24 are for the database,
	// AWS and the logs, and a burst may open two connections for each POST in flight.
	MaxConcurrency = (1024 - 24) / 2

	// LeastMemory of a function, in bytes. The payloads of a claim are held up to four times
	// over while they are sent.
	LeastMemory   = 256 << 20
	MaxClaimBytes = LeastMemory / 4
	// MinClaimBytes: a claim of less takes one large event a cycle, and a backlog never
	// drains.
	MinClaimBytes = 1 << 20
	// MinBodyBytes is enough for the envelope of an event without data.
	MinBodyBytes = 1 << 10
	// MaxBodyBytes: n8n answers 500 from 16 MiB on.
	MaxBodyBytes = 16<<20 - 1
)
