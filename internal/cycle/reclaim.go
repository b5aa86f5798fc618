package cycle

// Reclaim bounds the first step of an invocation: rows whose lease ran out go
// back to pending, whoever held them. It happens in the round trip of the first
// claim. The zero value reclaims nothing.
type Reclaim struct {
	Limit         int // rows at most
	MaxLostLeases int // a suspect that loses this many leases in a row fails
	// Done is called when the reclaim is through and the claim begins, for the
	// trace. May be nil.
	Done func()
}

// Reclaimed counts rows whose lease ran out.
type Reclaimed struct {
	Returned int // pending again
	Failed   int // suspects that lost their last lease
}
