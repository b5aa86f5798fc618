package main

import (
	"time"

	"github.com/spf13/cobra"

	"outbox-dispatcher/internal/operator"
)

func (t *terminal) migrate() *cobra.Command {
	c := &cobra.Command{
		Use: "migrate", GroupID: "keep", Args: noArguments,
		Short: "Bring the table to what the dispatcher needs, beside live traffic",
		Long: `Makes the table where there is none, adds missing columns, makes the table that
keeps a pause, drops invalid indexes of ours and builds missing ones. It looks at
what is there, so it can be run at any time, and again. It needs the owner of the
table and a direct connection, not a transaction pooler.`,
		Example: examples("operator migrate"),
	}
	return command(t, c, operator.New("migrate"), func(p *page, m operator.Migrated) {
		if len(m.Steps) == 0 {
			p.line("nothing was left to do")
			return
		}
		p.line("migrated in %d steps", len(m.Steps))
	})
}

func (t *terminal) prune() *cobra.Command {
	r := operator.New("prune").(*operator.Prune)
	c := &cobra.Command{
		Use: "prune", GroupID: "keep", Args: noArguments,
		Short: "Delete succeeded events older than some days, in small batches",
		Long: `Deletes succeeded events that occurred so many days ago, at least 7. Age is that of
occurred_at: the table does not know when an event was done. Failed events stay,
unless --failed is given.

The table is walked through once in the order of the disk, a few megabytes at a
time, and each batch is a transaction of its own with a pause behind it, so claims
stay as fast as they are. It can be ended at any time; the next prune goes on.
--dry-run counts, which reads the whole table.`,
		Example: examples("operator prune --older-than-days 30 --dry-run", "operator prune --older-than-days 30 --yes"),
	}
	flags := c.Flags()
	flags.IntVar(&r.OlderThanDays, "older-than-days", 0, "delete what occurred so many days ago, at least 7 (required)")
	flags.BoolVar(&r.Failed, "failed", false, "the failed events as well")
	flags.IntVar(&r.Limit, "limit", 0, "events at most; 0: all")
	flags.IntVar(&r.Batch, "batch", r.Batch, "events a transaction")
	flags.Var(&r.Pause, "pause", "between two transactions")
	askFlags(flags, &r.DryRun, &r.Yes)
	return command(t, c, r, func(p *page, d operator.Pruned) {
		done, which := "deleted", "succeeded"
		if d.DryRun {
			done = "to be deleted"
		}
		if d.Failed {
			which = "succeeded or failed"
		}
		p.line("%s: %s that had %s and occurred before %s (%v)", done, events(d.Deleted), which, d.Before,
			time.Duration(d.DurationMS)*time.Millisecond)
		switch d.Stopped {
		case operator.AtLimit:
			p.line("the limit was reached; there may be more")
		case operator.OutOfTime:
			p.line("the time was up; the next prune goes on")
		}
	})
}
