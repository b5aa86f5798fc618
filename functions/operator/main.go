package main

import (
	"context"
	"fmt"
	"os"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/postgres"
)

func main() {
	d, err := config.LoadDatabase(config.Environ)
	if err == nil {
		var s *postgres.Store
		if s, err = postgres.Open(d, &postgres.Connector{}); err == nil {
			err = s.Migrate(context.Background(), func(t string) { fmt.Println(t) })
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}
