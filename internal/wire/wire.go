// Package wire opens the outbox table as the settings say. Here the two adapters of a
// login meet, which do not know each other: Postgres, and Secrets Manager with the
// passwords.
package wire

import (
	"context"
	"net"
	"strconv"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres"
	"outbox-dispatcher/internal/secret"
)

// Open returns the store. It connects to nothing and reads no secret: the first call of
// the store does.
func Open(d config.Database, reader *secret.Reader) (*postgres.Store, error) {
	return postgres.Open(d, connector(d, reader))
}

// connector logs in as the settings say.
func connector(d config.Database, reader *secret.Reader) *postgres.Connector {
	c := &postgres.Connector{}
	if d.SecretID != "" {
		db := secret.Database{Reader: reader, ID: d.SecretID}
		c.Logins = db.Login
	}
	if d.IAMAuth {
		c.Passwords = func(ctx context.Context, host string, port uint16, user string) (string, error) {
			return secret.IAMAuthToken(ctx, net.JoinHostPort(host, strconv.Itoa(int(port))), "", user)
		}
	}
	return c
}
