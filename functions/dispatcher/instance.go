package main

import (
	"context"
	"encoding/json"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/n8n"
	"outbox-dispatcher/internal/outbox"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/secret"
)

// instance is this process: what is made once and outlives an invocation.
// Nothing is made before the first invocation, whose error then says what is
// wrong where people look for it.
type instance struct {
	dispatcher *cycle.Dispatcher // nil until the settings are read
	webhook    *n8n.Webhook
}

func newInstance() *instance { return &instance{} }

// invoke is the handler.
func (i *instance) invoke(ctx context.Context, event json.RawMessage) (cycle.Report, error) {
	request, err := cycle.ParseRequest(event)
	if err != nil {
		return cycle.Report{}, err
	}
	if i.dispatcher == nil {
		if err := i.wire(); err != nil {
			return cycle.Report{}, err
		}
	}
	// What was idle while the instance was frozen is dead, or half dead.
	i.webhook.CloseIdle()
	return i.dispatcher.Run(ctx, request)
}

// wire makes the parts, from the settings inward.
func (i *instance) wire() error {
	s, err := config.Load(config.Environ)
	if err != nil {
		return err
	}
	reader := &secret.Reader{}
	connector := &postgres.Connector{}
	if id := s.Database.SecretID; id != "" {
		db := secret.Database{Reader: reader, ID: id}
		connector.Logins = func(ctx context.Context, fresh bool) (postgres.Login, error) {
			l, err := db.Login(ctx, fresh)
			return postgres.Login(l), err
		}
	}
	if s.Database.IAMAuth {
		connector.Passwords = nil
	}
	store, err := postgres.Open(s.Database, connector)
	if err != nil {
		return err
	}
	var tokens cycle.Tokens = secret.Static(s.TriggerToken)
	if s.TokenSecretID != "" {
		tokens = secret.Token{Reader: reader, ID: s.TokenSecretID, Key: s.TokenSecretKey}
	}
	i.webhook = n8n.New(n8n.Options{URL: s.WebhookURL, Timeout: s.HTTPTimeout, Connections: s.Concurrency})
	i.dispatcher = &cycle.Dispatcher{
		Settings: cycle.Settings{
			Enabled: s.Enabled, HTTPTimeout: s.HTTPTimeout, Lease: s.Lease, MaxBodyBytes: s.MaxBodyBytes,
			Policy:     outbox.Policy{MaxAttempts: s.MaxAttempts, BackoffCap: s.BackoffCap},
			ClaimLimit: s.ClaimLimit, ReclaimLimit: s.ReclaimLimit, ClaimBytes: s.ClaimBytes,
			Concurrency: s.Concurrency, MaxCycles: s.MaxCycles, Linger: s.Linger, MaxLostLeases: s.MaxLostLeases,
		},
		Store: store, Webhook: i.webhook, Tokens: tokens,
		Observer: cycle.Discard{}, Pacer: cycle.NewPacer(),
	}
	return nil
}
