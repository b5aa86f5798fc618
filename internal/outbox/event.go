// Package outbox is the domain of the dispatcher: what an event is, what is sent for
// it, what n8n's answer means, and what is written to the row then.
//
// It imports only the standard library and does no I/O. Time and answers come in as
// arguments, so every rule here has a table test.
//
//	            claim                    acknowledged
//	pending ───────────────▶ delivering ───────────────▶ succeeded
//	   ▲                      │   │   │
//	   │  lease ran out       │   │   │ attempts used up, or
//	   │  released            │   │   │ lease lost too often
//	   │  attempt failed      │   │   └──────────────────▶ failed
//	   └──────────────────────┴───┘                           │
//	   ▲                                                      │
//	   └───────────────── replay (a person) ──────────────────┘
package outbox

// Status is the state of a row, as the column delivery_status holds it. Any
// other value there belongs to another program and is never touched.
type Status string

const (
	// Pending rows wait for their due time. The service inserts them so.
	Pending Status = "pending"
	// Delivering rows are claimed; next_attempt_at is the deadline of the lease.
	Delivering Status = "delivering"
	// Succeeded rows were acknowledged by n8n. Final.
	Succeeded Status = "succeeded"
	// Failed rows need a person: their attempts are used up, or they lost too
	// many leases. Final until a person replays them.
	Failed Status = "failed"
)

// TokenKey is the member of payload_json that holds the claim token while a
// row is delivering. It lives in the payload because the Python thread, which
// works on the same table, fences on it there. It is never sent to n8n.
const TokenKey = "_delivery_claim_token"

// SuspectLeases is the number of leases lost in a row that makes a row a suspect: it
// may be what kills its worker, so it is claimed alone and last. Two, because every
// row that is in flight when an instance dies loses one.
const SuspectLeases = 2

// Event is one claimed row, with everything its delivery needs.
type Event struct {
	ID       string // lower-case UUID
	Type     string // event_type
	Occurred Micros // occurred_at
	Attempts int    // attempts made before this one
	Base     int    // attempts_base: attempts made before the last replay

	Body     []byte // the envelope to send; nil if Unusable is set
	Unusable string // why nothing can be sent (malformedPayload); empty if Body is set

	Claim Claim
}

// Claim is the hold that this worker has on a row. An outcome is written only
// while the row still carries the very same claim.
type Claim struct {
	// Token is the claim token in payload_json. Empty if the payload is not an
	// object and cannot hold one: such a row is fenced by its deadline.
	Token string
	// Deadline is next_attempt_at as the claim set it, the end of the lease, in
	// the database's own words so that it compares equal to the microsecond.
	Deadline string
	// Due is next_attempt_at before the claim, restored on release. Empty: it was
	// null.
	Due string
	// Suspect rows lost SuspectLeases or more leases in a row.
	Suspect bool
}
