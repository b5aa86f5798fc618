package main

import (
	"context"
	"encoding/json"
	"os"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/n8n"
	"outbox-dispatcher/internal/secret"
	"outbox-dispatcher/internal/telemetry"
	"outbox-dispatcher/internal/wire"
)

// instance is this process: what is made once and outlives an invocation. The first
// invocation reads the settings, so that its error says what is wrong where people look
// for it.
type instance struct {
	telemetry  *telemetry.Telemetry
	dispatcher *cycle.Dispatcher // nil until the settings are read
	webhook    *n8n.Webhook
	close      func() // ends the sessions with the database
}

func newInstance() *instance {
	t := telemetry.New(telemetry.FromEnv(os.Getenv, os.Stdout, os.Stderr))
	t.Install()
	return &instance{telemetry: t, close: func() {}}
}

// invoke is the handler.
func (i *instance) invoke(ctx context.Context, event json.RawMessage) (cycle.Report, error) {
	request, err := cycle.ParseRequest(event)
	if err == nil {
		err = i.wire()
	}
	if err != nil {
		i.telemetry.Reported(ctx, cycle.Report{}, err)
		return cycle.Report{}, err
	}
	// Connections that were idle while the instance was frozen are dead, or half dead.
	i.webhook.CloseIdle()
	return i.dispatcher.Run(ctx, request)
}

// wire makes the parts, once.
func (i *instance) wire() error {
	if i.dispatcher != nil {
		return nil
	}
	s, err := config.Load(config.Environ)
	if err != nil {
		return err
	}
	reader := &secret.Reader{}
	store, err := wire.Open(s.Database, reader)
	if err != nil {
		return err
	}
	i.close = store.Close
	var tokens cycle.Tokens = secret.Static(s.TriggerToken)
	if s.TokenSecretID != "" {
		tokens = secret.Token{Reader: reader, ID: s.TokenSecretID, Key: s.TokenSecretKey}
	}
	i.webhook = n8n.New(n8n.Options{URL: s.WebhookURL, Timeout: s.HTTPTimeout, Connections: cycle.MaxConcurrency})
	i.dispatcher = &cycle.Dispatcher{
		Settings: s.Settings, Store: store, Webhook: i.webhook, Tokens: tokens,
		Observer: i.telemetry, Pacer: cycle.NewPacer(),
	}
	return nil
}
