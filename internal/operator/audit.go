package operator

import (
	"context"
	"fmt"
)

// Who asks: a person on a machine, or what Lambda tells of its caller.
type Who struct {
	User string // of the operating system, or of the caller; empty: not known
	Host string // name of the machine; empty: not known
}

func (w Who) String() string {
	switch {
	case w.User == "":
		return w.Host
	case w.Host == "":
		return w.User
	}
	return w.User + " on " + w.Host
}

// Entry of the audit: who changed what. When, its line says.
type Entry struct {
	Action  string
	Phase   Phase
	Role    string   // with which the session logged in to the database
	Who     Who      // who asked
	What    string   // was asked for, in words
	Counts  bool     // it changes events, and Changed counts them
	Changed int      // events changed so far
	IDs     []string // of events that were changed, the first few
	Err     error    // why it ended before it was done
}

// Phase of a change.
type Phase string

const (
	// Begun: a long change begins. If no end follows, the process died in it.
	Begun Phase = "begin"
	// Ended: what Changed says is done.
	Ended Phase = "end"
)

// maxAuditIDs are written out, so that a line stays a line.
const maxAuditIDs = 20

// change begins an entry for a change that is about to be made.
func (o *Operator) change(ctx context.Context, action, what string) (*Entry, error) {
	role, err := o.Store.Role(ctx)
	if err != nil {
		return nil, err
	}
	return &Entry{Action: action, Phase: Ended, Role: role, Who: o.Who, What: what, Counts: true}, nil
}

// tell writes the entry.
func (o *Operator) tell(ctx context.Context, e *Entry) {
	// What was done is told even where the person has given up waiting.
	o.Audit(context.WithoutCancel(ctx), *e)
}

// begin writes an entry for a change that takes long.
func (o *Operator) begin(ctx context.Context, e *Entry) {
	begun := *e
	begun.Phase = Begun
	o.tell(ctx, &begun)
}

// add counts what was changed.
func (e *Entry) add(ids []string) {
	e.Changed += len(ids)
	e.IDs = append(e.IDs, ids[:min(len(ids), maxAuditIDs-len(e.IDs))]...)
}

// by names who changed something, for the row that it changed.
func (e *Entry) by() string {
	if who := e.Who.String(); who != "" {
		return fmt.Sprintf("%s (%s)", e.Role, who)
	}
	return e.Role
}
