package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/n8n"
	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/operator/doctor"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/secret"
	"outbox-dispatcher/internal/wire"
)

// parts is what an operator is made of, here and in Lambda.
type parts struct {
	lookup   config.Lookup
	secrets  *secret.Reader
	log      *slog.Logger
	inLambda bool
}

// wire makes an operator for one request. close ends its sessions.
func (p *parts) wire(r operator.Request) (o *operator.Operator, close func(), err error) {
	settings, settingsErr := config.Load(p.lookup)
	_, examines := r.(*operator.Doctor)
	if err := broken(settingsErr, "DISPATCH_MAX_LOST_LEASES"); err != nil && !examines {
		return nil, nil, err
	}
	o = &operator.Operator{MaxLostLeases: settings.MaxLostLeases, Audit: p.audit}
	if _, given := p.lookup("N8N_MAX_ATTEMPTS"); given && broken(settingsErr, "N8N_MAX_ATTEMPTS") == nil {
		o.MaxAttempts = settings.Policy.MaxAttempts
	}
	login, err := config.LoadDatabase(p.lookup)
	var store *postgres.Store
	if err == nil {
		store, err = wire.Open(login, p.secrets)
	}
	switch {
	case examines:
		if settingsErr == nil {
			settingsErr = err // what only opening it shows
		}
	case err != nil:
		return nil, nil, err
	}
	o.Doctor = p.doctor(settings, settingsErr, login, store).Examine
	if store == nil {
		return o, func() {}, nil
	}
	o.Store = store
	return o, store.Close, nil
}

// broken returns the error if it says something of that variable.
func broken(err error, variable string) error {
	var wrong *config.SettingsError
	if !errors.As(err, &wrong) {
		return nil
	}
	i := slices.IndexFunc(wrong.Problems, func(p string) bool { return strings.HasPrefix(p, variable+" ") })
	if i < 0 {
		return nil
	}
	return &config.SettingsError{Problems: wrong.Problems[i : i+1]}
}

func (p *parts) doctor(s config.Settings, settingsErr error, login config.Database, store *postgres.Store) *doctor.Doctor {
	d := &doctor.Doctor{Lookup: p.lookup, Settings: s, SettingsErr: settingsErr, InLambda: p.inLambda, Schedule: schedule}
	d.Settings.Database = login
	if store != nil {
		d.Store = store
	}
	if login.SecretID != "" {
		stored := secret.Database{Reader: p.secrets, ID: login.SecretID}
		d.Login = func(ctx context.Context) error {
			_, err := stored.Login(ctx, true)
			return err
		}
	}
	switch {
	case s.TokenSecretID != "":
		d.Tokens = secret.Token{Reader: p.secrets, ID: s.TokenSecretID, Key: s.TokenSecretKey}
	case s.TriggerToken != "":
		d.Tokens = secret.Static(s.TriggerToken)
	}
	if broken(settingsErr, "N8N_WEBHOOK_URL") != nil {
		d.Settings.WebhookURL = nil
	}
	if d.Settings.WebhookURL != nil && s.HTTPTimeout > 0 {
		d.Webhook = n8n.New(n8n.Options{URL: s.WebhookURL, Timeout: s.HTTPTimeout, Connections: 1})
	}
	return d
}

// audit writes one line for a change.
func (p *parts) audit(ctx context.Context, e operator.Entry) {
	attrs := []slog.Attr{
		slog.String("action", e.Action), slog.String("phase", string(e.Phase)),
		slog.String("role", e.Role), slog.String("user", e.Who.User), slog.String("host", e.Who.Host),
		slog.String("what", outbox.Clean(e.What)),
	}
	level := slog.LevelInfo
	if e.Counts && e.Phase == operator.Ended {
		attrs = append(attrs, slog.Int("changed", e.Changed))
		if len(e.IDs) > 0 {
			attrs = append(attrs, slog.Any("event_ids", e.IDs))
		}
	}
	if e.Err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("error", outbox.Clean(e.Err.Error())))
	}
	p.log.LogAttrs(ctx, level, "audit", attrs...)
}
