package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// DatabaseError is a fault of the database in one sentence: what is wrong and what to
// do. It never holds a password, and no value of a row.
type DatabaseError struct {
	Text string
	Err  error // the cause, for errors.As; its own text may say more than is good to print
}

func (e *DatabaseError) Error() string { return "database: " + e.Text }

func (e *DatabaseError) Unwrap() error { return e.Err }

// explain makes an *DatabaseError of an error of pgx. Nil, an *DatabaseError, and what a secret
// says stay as they are.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var known *DatabaseError
	if errors.As(err, &known) {
		return known
	}
	var setup *setupError
	if errors.As(err, &setup) {
		return setup.err
	}
	return &DatabaseError{Text: s.sentence(ctx, err), Err: err}
}

func (s *Store) sentence(ctx context.Context, err error) string {
	aim := s.connector.aim(s.pool.Config().ConnConfig)
	where, user, database := aim.where, aim.user, aim.database
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "28P01":
			return fmt.Sprintf("%s refused the password of the role %q", where, user)
		case "28000":
			return fmt.Sprintf("%s does not let the role %q in: it is unknown, or pg_hba.conf has no line for this address and encryption", where, user)
		case "3D000":
			return fmt.Sprintf("%s has no database %q", where, database)
		case "42501":
			return fmt.Sprintf("the role %q lacks a right: %s", user, pg.Message)
		case "53300":
			return where + " has no connection left for this role; close some, raise max_connections, or lower Workers"
		case "25006":
			return where + " is read-only: it is a standby, or a failover is under way; connect to the writer"
		case "57014":
			return "a statement ran into its time limit; look for load, for locks on the table, and for the indexes that `operator migrate` makes"
		case "55P03":
			return fmt.Sprintf("the table %s is locked as a whole by another session, such as an ALTER TABLE", s.table)
		case "57P01", "57P02", "57P03":
			return where + " is restarting; the next invocation tries again"
		}
		var connect *pgconn.ConnectError
		if errors.As(err, &connect) {
			// The message can quote what the client sent at the start of the session.
			return fmt.Sprintf("%s refused a session with the database %q: SQLSTATE %s", where, database, pg.Code)
		}
		// The message of Postgres names the thing; its detail can hold values.
		return fmt.Sprintf("%s answered %s: %s", where, pg.Code, pg.Message)
	}
	var (
		hostname  x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		dns       *net.DNSError
	)
	switch {
	case errors.As(err, &hostname):
		return fmt.Sprintf("TLS: the certificate of %s is for another host; use the host name of the RDS endpoint", where)
	case errors.As(err, &authority):
		return fmt.Sprintf("TLS: the certificate of %s is signed by an authority that is not trusted; name its roots in PGSSLROOTCERT", where)
	case errors.As(err, &invalid):
		return fmt.Sprintf("TLS: the certificate of %s is not valid, by its dates or its use", where)
	case errors.As(err, &dns):
		return fmt.Sprintf("the host name in %s cannot be resolved", where)
	case errors.Is(err, syscall.ECONNREFUSED):
		return where + " refuses connections: no Postgres listens there"
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return "the invocation was told to end"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return where + " did not answer in time; look at security groups, routes and the load of the database"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return where + " closed the connection"
	case errors.As(err, &record), strings.Contains(err.Error(), "server refused TLS connection"):
		// The last of them: with sslmode prefer another try followed.
		return fmt.Sprintf("TLS: %s does not speak TLS, so no password was sent", where)
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return where + " cannot be reached"
	}
	return "the exchange with " + where + " broke off"
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// isData reports that a row could not be taken or read: classes 22 (data), 23
// (constraint) and 44 (view), 54 for one that is too large, and P0, which is what
// a trigger raises.
func isData(err error) bool {
	switch class(err) {
	case "22", "23", "44", "54", "P0":
		return true
	}
	return false
}

// refusal says why a row could not be changed. The message of Postgres is left out:
// a trigger may put values of the row into it.
func refusal(err error) string {
	text := "Postgres refuses every change of this row with SQLSTATE " + code(err)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.ConstraintName != "" {
		return text + ", constraint " + pg.ConstraintName
	}
	return text + "; look for a trigger on the table"
}

// isShape reports that the table is not what the statement took it for.
func isShape(err error) bool {
	switch code(err) {
	case "42P01", "42703", "42804", "42883", "42846", "42501", "0A000":
		return true
	}
	return false
}

// isRefused reports that the login was not let in.
func isRefused(err error) bool { return code(err) == "28P01" || code(err) == "28000" }

// isSession reports that this session is of no more use and a fresh one may be:
// it is broken, or it turned read-only in a failover.
func isSession(err error) bool {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	var known *DatabaseError
	var setup *setupError
	if errors.As(err, &known) && known.Err == nil || errors.As(err, &setup) {
		return false
	}
	switch code(err) {
	case "":
		return true
	case "25006", "57P01", "57P02", "57P03", "57P05":
		return true
	}
	return class(err) == "08"
}

func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

func class(err error) string {
	if c := code(err); len(c) == 5 {
		return c[:2]
	}
	return ""
}
