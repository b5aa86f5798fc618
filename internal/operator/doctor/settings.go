package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/operator"
)

func (e *examination) settings(context.Context) operator.Check {
	const name = "settings"
	var wrong *config.SettingsError
	switch {
	case errors.As(e.SettingsErr, &wrong):
		return fault(name, strings.Join(wrong.Problems, "; "), "set these variables (in AWS: the parameters of the stack); the README lists each")
	case e.SettingsErr != nil:
		return fault(name, e.SettingsErr.Error(), "mend that setting; the README lists each")
	case !e.Settings.Enabled:
		return warning(name, "N8N_DISPATCH_ENABLED is false: invocations do nothing", "set it to true (parameter DispatchEnabled) when events are to go out")
	}
	return ok(name, "every setting can be used")
}

func (e *examination) token(ctx context.Context) operator.Check {
	const name = "token"
	if e.Tokens == nil {
		return unknown(name, "the settings do not say where it is", "mend the settings first")
	}
	if _, err := e.Tokens.Token(ctx); err != nil {
		return fault(name, err.Error(), "mend what it says; the secret is read again by itself")
	}
	if e.Settings.TokenSecretID == "" {
		return ok(name, "N8N_WEBHOOK_TRIGGER_TOKEN holds a token")
	}
	return ok(name, "the secret can be read and holds a token")
}

func (e *examination) login(ctx context.Context) operator.Check {
	const name = "database secret"
	if e.Login == nil {
		return ok(name, "none is used: DATABASE_URL or the PG variables say how to log in")
	}
	if err := e.Login(ctx); err != nil {
		return fault(name, err.Error(), "mend what it says; the secret is read again by itself")
	}
	return ok(name, "the secret can be read and holds a login")
}

// lease compares the three times that must follow each other.
func (e *examination) lease(context.Context) operator.Check {
	const name = "lease"
	if e.timesWrong() {
		return unknown(name, "the settings are wrong", "mend the settings first")
	}
	post, lease := e.Settings.HTTPTimeout, e.Settings.Lease
	text, _ := e.Lookup("DISPATCHER_TIMEOUT_SECONDS")
	function, err := time.ParseDuration(strings.TrimSpace(text) + "s")
	if err != nil {
		return ok(name, fmt.Sprintf("a lease of %v outlives a POST of %v; the timeout of the function is not known here, and must be between them", lease, post))
	}
	switch {
	case lease <= function:
		return fault(name, fmt.Sprintf("the lease of %v does not outlive the function, whose timeout is %v: a second invocation would send what the first is still sending", lease, function),
			"raise N8N_DELIVERY_LEASE_SECONDS (parameter LeaseSeconds) above the timeout of the function")
	case function <= e.Settings.Needed():
		return fault(name, fmt.Sprintf("the function has %v and one POST needs more than %v: nothing is ever sent", function, e.Settings.Needed()), moreTime)
	case function < post+cycle.StartMargin:
		return warning(name, fmt.Sprintf("the function has %v, less than %v more than one POST: after a slow cold start nothing is sent", function, cycle.StartMargin), moreTime)
	}
	return ok(name, fmt.Sprintf("POST %v < function %v < lease %v", post, function, lease))
}

const moreTime = "raise the timeout of the function or lower N8N_HTTP_TIMEOUT_SECONDS"

// timesWrong reports whether the times of the settings are of no use.
func (e *examination) timesWrong() bool {
	var wrong *config.SettingsError
	if !errors.As(e.SettingsErr, &wrong) {
		return false
	}
	for _, p := range wrong.Problems {
		if strings.HasPrefix(p, "N8N_HTTP_TIMEOUT_SECONDS ") || strings.HasPrefix(p, "N8N_DELIVERY_LEASE_SECONDS ") {
			return true
		}
	}
	return false
}
