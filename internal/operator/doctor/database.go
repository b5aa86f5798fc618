package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"outbox-dispatcher/internal/operator"
)

const (
	runMigrate = "run operator migrate, as the owner of the table"
	runGrants  = "run infra/grants.sql, as the owner of the table"
	mendFirst  = "mend the database first"
	// defaultRole is the dispatcher's as infra/grants.sql makes it.
	defaultRole = "outbox_dispatcher"
)

func (e *examination) database(ctx context.Context) operator.Check {
	const name = "database"
	if e.Store == nil {
		return unknown(name, "the settings do not say where it is", "mend the settings first")
	}
	s, err := e.Store.Session(ctx)
	if err != nil {
		return fault(name, err.Error(), "mend what it says; look at security groups, routes, login and host name")
	}
	e.session = &s
	roles := []string{s.Role, defaultRole}
	if e.asked.Role != "" {
		roles[1] = e.asked.Role
	}
	i, err := e.Store.Inspect(ctx, roles)
	if err != nil {
		return fault(name, "the session works and a look at the catalogue does not: "+err.Error(), "mend what it says")
	}
	e.inspection = &i
	if s.ReadOnly {
		return fault(name, "it takes no writes: it is a standby, or the session is read-only", "connect to the writer")
	}
	return ok(name, fmt.Sprintf("Postgres %s, database %s, role %s, %v away", s.Version, s.Database, s.Role, s.RoundTrip.Round(10*time.Microsecond)))
}

func (e *examination) transport(context.Context) operator.Check {
	const name = "database TLS"
	switch s := e.session; {
	case s == nil:
		return unknown(name, "there is no session", mendFirst)
	case s.TLS == "" && s.Local:
		return ok(name, "none, and none is needed: the connection does not leave this machine")
	case s.TLS == "":
		return fault(name, "none: password and payloads travel in plain text", "take sslmode out of the settings, which means verify-full")
	case !s.Verified && !s.Local:
		return fault(name, s.TLS+", but any certificate would have been taken", "take sslmode out of the settings, which means verify-full")
	default:
		return ok(name, s.TLS+verifiedNote(s))
	}
}

func verifiedNote(s *operator.Session) string {
	if s.Verified {
		return ", the certificate was verified"
	}
	return ", not verified; the connection does not leave this machine"
}

// rights of a role; nil if there is no such role.
func (e *examination) rights(role string) *operator.Rights {
	for i := range e.inspection.Rights {
		if r := &e.inspection.Rights[i]; r.Role == role {
			return r
		}
	}
	return nil
}

// role looks at what this session may do: whether the operator's actions work.
func (e *examination) role(context.Context) operator.Check {
	const name = "own role"
	if e.inspection == nil || !e.inspection.Exists {
		return unknown(name, "there is no table to have rights on", mendFirst)
	}
	r := e.rights(e.session.Role)
	if r == nil {
		return unknown(name, "the catalogue does not show the role", runGrants)
	}
	var lacks []string
	for _, need := range []struct {
		has bool
		to  string
	}{
		{r.Schema && r.Select, "see"}, {r.Update, "replay, cancel and reclaim"}, {r.Delete, "prune"},
		{r.WritesControl || !e.inspection.HasControl, "pause and resume"},
	} {
		if !need.has {
			lacks = append(lacks, need.to)
		}
	}
	switch {
	case len(lacks) == 0 && (r.Superuser || r.Owner):
		return ok(name, r.Role+" may do everything here; only migrate needs that")
	case len(lacks) == 0:
		return ok(name, r.Role+" may see, change and delete events, and pause")
	case !r.Select || !r.Schema:
		return fault(name, r.Role+" may not "+strings.Join(lacks, "; "), runGrants)
	}
	return warning(name, r.Role+" may not "+strings.Join(lacks, "; ")+": right for the dispatcher's role, too little for an operator's", runGrants+", and log in as the operator's role")
}

// dispatcher looks at what the dispatcher's role may do: no less than it needs,
// and no more.
func (e *examination) dispatcher(context.Context) operator.Check {
	const name = "dispatcher's role"
	if e.inspection == nil || !e.inspection.Exists {
		return unknown(name, "there is no table to have rights on", mendFirst)
	}
	role := e.asked.Role
	if role == "" {
		role = defaultRole
	}
	r := e.rights(role)
	if r == nil && e.asked.Role == "" {
		if own := e.rights(e.session.Role); own != nil && !own.Superuser && !own.Owner {
			r = own
		}
	}
	switch {
	case r == nil && e.asked.Role == "":
		return unknown(name, "there is no role "+defaultRole, "name it with role (--role); infra/grants.sql makes one")
	case r == nil:
		return fault(name, "there is no role "+role, runGrants)
	case !r.Schema || !r.Select || !r.Update:
		return fault(name, r.Role+" may not SELECT and UPDATE "+e.inspection.Table, runGrants)
	case e.inspection.HasControl && !r.ReadsControl:
		return fault(name, r.Role+" may not SELECT "+e.inspection.ControlTable+", where a pause is kept", runGrants)
	}
	var more []string
	for what, has := range map[string]bool{"INSERT": r.Insert, "DELETE": r.Delete, "TRUNCATE": r.Truncate} {
		if has {
			more = append(more, what)
		}
	}
	if len(more) > 0 {
		return fault(name, fmt.Sprintf("%s may %s as well: a fault of the dispatcher, or a stolen secret, could lose events", r.Role, sorted(more)), runGrants)
	}
	return ok(name, r.Role+" may SELECT and UPDATE, and neither add nor delete")
}

func (e *examination) table(context.Context) operator.Check {
	const name = "table"
	i := e.inspection
	switch {
	case i == nil:
		return unknown(name, "there is no session", mendFirst)
	case !i.Exists:
		return fault(name, "there is no table "+i.Table+", or it is not on the search path of the role", "set OUTBOX_TABLE, or make it with operator migrate")
	case !i.Ordinary:
		return fault(name, i.Table+" is partitioned, or a view: the dispatcher needs an ordinary table", "set OUTBOX_TABLE to the table itself")
	case len(i.Problems) > 0:
		return fault(name, strings.Join(i.Problems, "; "), "it is not the outbox table, or its service has not made it whole; set OUTBOX_TABLE")
	case len(i.Missing) > 0:
		return fault(name, i.Table+" lacks "+strings.Join(i.Missing, ", "), runMigrate)
	}
	return ok(name, i.Table+" has every column")
}

func (e *examination) indexes(context.Context) operator.Check {
	const name = "indexes"
	i := e.inspection
	switch {
	case i == nil || !i.Exists:
		return unknown(name, "there is no table", mendFirst)
	case i.IndexesUnknown != "":
		return unknown(name, i.IndexesUnknown, "run doctor as the owner of the table")
	case len(i.Indexes) == 0:
		return unknown(name, "the table is not as it has to be", "mend the table first")
	}
	if bad := badIndexes(i); len(bad) > 0 {
		return fault(name, strings.Join(bad, "; ")+": each claim reads the whole table", runMigrate)
	}
	return ok(name, fmt.Sprintf("all %d are there and valid", len(i.Indexes)))
}

func badIndexes(i *operator.Inspection) (bad []string) {
	for _, x := range i.Indexes {
		switch {
		case !x.There:
			bad = append(bad, x.Name+" is missing")
		case !x.Valid:
			bad = append(bad, x.Name+" is invalid")
		}
	}
	return bad
}

// migration tells what operator migrate would do.
func (e *examination) migration(context.Context) operator.Check {
	const name = "migration"
	i := e.inspection
	switch {
	case i == nil:
		return unknown(name, "there is no session", mendFirst)
	case !i.Exists:
		return fault(name, "the table is to be made", runMigrate)
	case len(i.Problems) > 0 || !i.Ordinary:
		return unknown(name, "the table is not one that can be migrated", "mend the table first")
	}
	var todo []string
	if len(i.Missing) > 0 {
		todo = append(todo, "add "+strings.Join(i.Missing, ", "))
	}
	if !i.HasControl {
		todo = append(todo, "make "+i.ControlTable)
	}
	if bad := badIndexes(i); len(bad) > 0 {
		todo = append(todo, fmt.Sprintf("build %d indexes", len(bad)))
	}
	switch {
	case len(todo) > 0:
		return fault(name, "it would "+strings.Join(todo, ", "), runMigrate)
	case i.IndexesUnknown != "":
		return unknown(name, "columns and control table are there; of the indexes nothing is known", "run doctor as the owner of the table")
	}
	return ok(name, "nothing is left to do")
}

const (
	// clockTrouble: AWS refuses signatures that are five minutes off, and the
	// Python thread reckons its leases with its own clock.
	clockTrouble = 30 * time.Second
	clockDrift   = 2 * time.Second
)

func (e *examination) clock(context.Context) operator.Check {
	const name = "clock"
	if e.session == nil {
		return unknown(name, "there is no session", mendFirst)
	}
	ahead := e.session.Ahead
	side := "ahead of"
	if ahead < 0 {
		side = "behind"
	}
	text := fmt.Sprintf("the clock of the database is %v %s this machine's", ahead.Abs().Round(time.Millisecond), side)
	const mend = "let both follow NTP; rows live by the clock of the database alone, but signatures of AWS and the Python thread do not"
	switch {
	case ahead.Abs() > clockTrouble:
		return fault(name, text, mend)
	case ahead.Abs() > clockDrift:
		return warning(name, text, mend)
	}
	return ok(name, fmt.Sprintf("the clock of the database and this machine's agree, to %v", clockDrift))
}
