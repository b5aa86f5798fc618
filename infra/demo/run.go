package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// showTime bounds all that comes after the builds. It takes a quarter of that;
// the rest is for an n8n of your own that is slow.
const showTime = 50 * time.Second

// run is the demo from start to end. What it started is gone when it returns,
// whatever the error.
func run(ctx context.Context, s *screen) (err error) {
	given, err := readGiven()
	if err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	s.head("The outbox dispatcher at work on this machine. Ctrl-C ends it; nothing is left behind.")
	j, err := startJanitor()
	if err != nil {
		return err
	}
	defer closing(&err, j.close)

	var (
		t     *table
		built programs
	)
	// A database of yours is looked at before anything is built: it may be one
	// that must not be touched.
	if given.databaseURL != "" {
		if t, err = openGiven(ctx, s, given); err != nil {
			return err
		}
	}
	side, sideCtx := errgroup.WithContext(ctx)
	if t == nil {
		side.Go(func() (err error) {
			t, err = startThrowaway(sideCtx, s)
			return err
		})
	}
	side.Go(func() (err error) {
		built, err = build(sideCtx, s, root, j.folder)
		return err
	})
	err = side.Wait()
	if t != nil {
		defer closing(&err, t.close)
	}
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeoutCause(ctx, showTime, fmt.Errorf("given up: it took longer than %v", showTime))
	defer cancel()
	n, err := openN8N(s, given)
	if err != nil {
		return err
	}
	defer closing(&err, n.close)
	if err := t.prepare(ctx, s); err != nil {
		return err
	}
	lambda, err := startEmulator(ctx, s, built, j.folder, environment(given, t, n))
	if err != nil {
		return err
	}
	defer closing(&err, lambda.close)
	return show(ctx, s, root, t, n, lambda)
}

// errLeft marks an error of the cleaning up.
var errLeft = errors.New("something may be left behind")

// closing is for a deferred close, whose error must not be lost.
func closing(err *error, end func() error) {
	if left := end(); left != nil {
		*err = errors.Join(*err, fmt.Errorf("%w: %w", errLeft, left))
	}
}
