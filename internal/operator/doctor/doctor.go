// Package doctor checks everything that has to work for events to go out, in the
// order in which they depend on each other:
//
//	settings ─ secrets ─ database ─ TLS ─ rights ─ table ─ indexes ─ migration ─ clock
//	n8n: name ─ connection ─ answer ─ token        way out ─ schedule ─ lease
//
// It works before the first deploy from a laptop, and inside Lambda. It changes
// nothing, and runs no workflow unless it is asked to. What it cannot tell from
// where it is, it says so. No text holds a secret, or anything of the URL of the
// webhook but its host.
package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/operator"
)

// checkTimeout bounds one check, or the timeout of a POST where that is longer:
// what takes longer does not work. It leaves a secret its eight seconds.
const checkTimeout = 10 * time.Second

// Doctor has what it checks. What is nil could not be made: SettingsErr says why.
type Doctor struct {
	Lookup      config.Lookup
	Settings    config.Settings
	SettingsErr error // of the dispatcher's settings, the database's included

	Store    operator.Inspector
	Login    func(context.Context) error // reads the secret of the database; nil: there is none
	Tokens   cycle.Tokens
	Webhook  cycle.Webhook
	Schedule func(ctx context.Context, name string) (Schedule, error)

	InLambda bool
	TLS      *tls.Config // for n8n; nil: the system's roots
}

// Schedule of the dispatcher, as AWS knows it.
type Schedule struct {
	Enabled bool
	Rate    string // such as rate(1 minute)
}

// examination is one run of the doctor.
type examination struct {
	*Doctor
	asked      operator.Doctor
	session    *operator.Session    // nil: there is none
	inspection *operator.Inspection // nil: there is no session
	nameless   bool                 // the name of n8n cannot be resolved
	reached    bool                 // n8n, or the proxy before it, by TCP
	connected  bool                 // to n8n, TLS included
	result     operator.Diagnosis
}

// Examine checks everything, one after the other.
func (d *Doctor) Examine(ctx context.Context, asked operator.Doctor) (operator.Diagnosis, error) {
	e := &examination{Doctor: d, asked: asked}
	for _, check := range []func(context.Context) operator.Check{
		e.settings, e.token, e.login,
		e.database, e.transport, e.role, e.dispatcher, e.table, e.indexes, e.migration, e.clock,
		e.name, e.connection, e.answer, e.accepted,
		e.wayOut, e.schedule, e.lease,
	} {
		c := e.one(ctx, check)
		if err := ctx.Err(); err != nil {
			return e.result, errors.New("the doctor was told to end before everything was checked")
		}
		e.result.Add(c)
	}
	return e.result, nil
}

func (e *examination) one(ctx context.Context, check func(context.Context) operator.Check) operator.Check {
	// A POST has the time of its setting, and ends by itself.
	ctx, cancel := context.WithTimeout(ctx, max(checkTimeout, e.Settings.HTTPTimeout+time.Second))
	defer cancel()
	return check(ctx)
}

func ok(name, text string) operator.Check {
	return operator.Check{Name: name, Result: operator.OK, Text: text}
}

func warning(name, text, mend string) operator.Check {
	return operator.Check{Name: name, Result: operator.Warning, Text: text, Mend: mend}
}

func fault(name, text, mend string) operator.Check {
	return operator.Check{Name: name, Result: operator.Fault, Text: text, Mend: mend}
}

func unknown(name, text, mend string) operator.Check {
	return operator.Check{Name: name, Result: operator.Unknown, Text: text, Mend: mend}
}
