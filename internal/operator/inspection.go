package operator

import (
	"context"
	"time"
)

// Inspector looks at the database for the doctor.
type Inspector interface {
	// Session opens a session and tells of it. An error says why there is none.
	Session(ctx context.Context) (Session, error)
	// Inspect looks at the table and at what these roles may do with it. What is
	// wrong with them is no error.
	Inspect(ctx context.Context, roles []string) (Inspection, error)
	// Overview counts what is where.
	Overview(ctx context.Context) (Overview, error)
}

// Session is how we are connected to the database.
type Session struct {
	Role      string
	Superuser bool
	Database  string
	Version   string
	ReadOnly  bool          // a standby, or a session that may not write
	TLS       string        // such as TLS 1.3; empty: none
	Verified  bool          // the certificate was verified
	Local     bool          // the connection does not leave this machine
	Ahead     time.Duration // the clock of the database, of ours; negative: behind
	RoundTrip time.Duration
}

// Inspection is what was found of the table.
type Inspection struct {
	Table, ControlTable string
	Exists              bool
	Ordinary            bool     // not partitioned, no view
	Problems            []string // columns of the service that are missing or of a wrong type
	Missing             []string // columns of ours that migrate adds
	HasControl          bool
	Indexes             []IndexState
	IndexesUnknown      string // why Indexes is empty; empty: it is not
	Rights              []Rights
}

// IndexState is one index that migrate makes.
type IndexState struct {
	Name         string
	There, Valid bool
}

// Rights of a role on the table.
type Rights struct {
	Role                                          string
	Superuser, Owner                              bool
	Schema, Select, Update, Insert                bool
	Delete, Truncate, ReadsControl, WritesControl bool
}
