package cycle

import (
	"context"
	"time"
)

// token is the webhook token of one invocation.
type token struct {
	tokens   Tokens
	observer Observer

	lock    chan struct{} // full while one goroutine reads or changes what follows
	value   string
	renewed bool // the secret was read again in this invocation
}

func fetchToken(ctx context.Context, tokens Tokens, o Observer) (*token, error) {
	ctx, end := o.Step(ctx, "secret")
	value, err := tokens.Token(ctx)
	end(err)
	if err != nil {
		return nil, err
	}
	return &token{tokens: tokens, observer: o, lock: make(chan struct{}, 1), value: value}, nil
}

// acquire takes the lock, or gives up at a moment: who holds it may be waiting for
// Secrets Manager.
func (t *token) acquire(until time.Time) bool {
	select {
	case t.lock <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case t.lock <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

func (t *token) release() { <-t.lock }

// get returns the token, after a refresh that is under way. False: the time was up.
func (t *token) get(until time.Time) (string, bool) {
	if !t.acquire(until) {
		return "", false
	}
	defer t.release()
	return t.value, true
}

// renew returns a token other than the refused one, if there is one. The secret is read
// again once an invocation; other callers wait for it meanwhile. Nothing of it takes
// longer than until.
func (t *token) renew(ctx context.Context, refused string, until time.Time) (fresh string, changed bool) {
	if !t.acquire(until) {
		return "", false
	}
	defer t.release()
	if !t.renewed && t.value == refused {
		t.renewed = true
		ctx, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		ctx, end := t.observer.Step(ctx, "secret")
		value, err := t.tokens.Refresh(ctx)
		end(err)
		if err == nil {
			t.value = value
		}
	}
	return t.value, t.value != refused
}
