package cycle

// Stopped says why an invocation ended.
type Stopped string

const (
	// Disabled: N8N_DISPATCH_ENABLED is false; nothing was done.
	Disabled Stopped = "disabled"
	// Paused: an operator paused the dispatcher; nothing was claimed.
	Paused Stopped = "paused"
	// Drained: the last claim came back short, so nothing more was due.
	Drained Stopped = "drained"
	// CycleLimit: DISPATCH_MAX_CYCLES cycles were run and more may be due.
	CycleLimit Stopped = "cycleLimit"
	// TimeUp: the time left was too short for another POST.
	TimeUp Stopped = "timeUp"
	// EndpointDown: n8n failed several times in a row, so the rest was released.
	EndpointDown Stopped = "endpointDown"
)

// Report is the result of one invocation: the return value of the Lambda, one
// log line, and the metrics. The counts keep the sum
//
//	claimed = succeeded + retried + failed + released + lost + unrecorded
type Report struct {
	Enabled             bool    `json:"enabled"`
	Cycles              int     `json:"cycles"`                 // batches claimed that held at least one row
	Reclaimed           int     `json:"reclaimed"`              // expired leases given back to pending
	Claimed             int     `json:"claimed"`                // rows claimed
	Succeeded           int     `json:"succeeded"`              // acknowledged and recorded
	Retried             int     `json:"retried"`                // attempt failed, due again later
	Failed              int     `json:"failed"`                 // attempt failed and was the last one
	Released            int     `json:"released"`               // given back untried
	Lost                int     `json:"lost"`                   // outcomes dropped by the fence
	Unrecorded          int     `json:"unrecorded"`             // outcomes the database did not take in time
	LeaseLostFailed     int     `json:"lease_lost_failed"`      // suspects that lost their last lease
	BacklogDue          int     `json:"backlog_due"`            // rows due at the end, counted up to BacklogCap
	OldestDueAgeSeconds float64 `json:"oldest_due_age_seconds"` // of the due rows; 0 if there is none
	Parked              int     `json:"parked"`                 // delivering with no deadline: parked by somebody
	FailedTotal         int     `json:"failed_total"`           // rows in failed, counted up to BacklogCap
	DurationMS          int64   `json:"duration_ms"`
	Stopped             Stopped `json:"stopped"`
	DryRun              *DryRun `json:"dry_run,omitempty"` // what is due, when the event asked for a dry run
}

// BacklogCap bounds the counts of the backlog, so that a report costs the same
// whether ten thousand or ten million rows wait. A count that equals it means
// "at least".
const BacklogCap = 10_000

// DryRun shows what an invocation would claim.
type DryRun struct {
	Due []DueEvent `json:"due"` // in claim order, at most the claim limit
}

// DueEvent is one due row as a dry run shows it: nothing of its payload.
type DueEvent struct {
	EventID    string  `json:"event_id"`
	EventType  string  `json:"event_type"`
	Attempts   int     `json:"attempts"`
	AgeSeconds float64 `json:"age_seconds"` // since it became due
	Suspect    bool    `json:"suspect"`
}
