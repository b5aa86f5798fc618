package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

func (t *terminal) replay() *cobra.Command {
	r := operator.New("replay").(*operator.Replay)
	c := &cobra.Command{
		Use: "replay", GroupID: "mend",
		Short: "Send failed events again, with a fresh budget of attempts, at a pace",
		Long: `Makes failed events pending again. Each gets a fresh budget of attempts; its
attempts and its last error stay as history. They become due one after the other,
--rate a second, so that n8n is not stormed. Those that occurred first go first.

Look first: --dry-run shows what would be replayed. Mend the cause before: a
replayed event spends its new attempts the same way.

The Python thread does not know attempts_base: it gives a replayed event one try.`,
		Example: examples(
			"operator replay 7f1c2a34-0000-4000-8000-000000000001",
			"operator replay --code connectionError --limit 100 --dry-run",
			"operator replay --code connectionError --newer-than 6h --limit 10000 --rate 5 --yes"),
	}
	choiceFlags(c, &r.Choice, "failed")
	// Members of every choice, but of no use where all that can be chosen is failed.
	_ = c.Flags().MarkHidden("status")
	_ = c.Flags().MarkHidden("due-for")
	c.Flags().IntVar(&r.Limit, "limit", r.Limit, "events at most")
	c.Flags().Float64Var(&r.Rate, "rate", r.Rate, "events that become due a second")
	askFlags(c.Flags(), &r.DryRun, &r.Yes)
	return command(t, c, r, func(p *page, d operator.Replayed) {
		printChanged(p, d.Changed, "replayed")
		if d.Changed.Changed > 1 {
			p.line("they become due %g a second, the last one in %s", d.Rate, seconds(d.LastDueInSeconds))
		}
	})
}

func (t *terminal) cancel() *cobra.Command {
	r := operator.New("cancel").(*operator.Cancel)
	c := &cobra.Command{
		Use: "cancel", GroupID: "mend",
		Short: "Give pending events up: they become failed, with a code and a reason",
		Long: `Makes pending events failed, so that they are not sent any more. last_error says
who did it and why. A replay takes it back. An event that is being delivered is
left alone.`,
		Example: examples(
			`operator cancel 7f1c2a34-0000-4000-8000-000000000001 --reason "sent by hand"`,
			`operator cancel --type vehicle.test --reason "test data" --dry-run`),
	}
	choiceFlags(c, &r.Choice, "pending", "due", "later", "suspect")
	c.Flags().StringVar(&r.As, "as", r.As, "code that is written into last_error_code")
	c.Flags().StringVar(&r.Reason, "reason", "", "why; goes into last_error (required)")
	c.Flags().IntVar(&r.Limit, "limit", r.Limit, "events at most")
	askFlags(c.Flags(), &r.DryRun, &r.Yes)
	return command(t, c, r, func(p *page, d operator.Changed) { printChanged(p, d, "cancelled") })
}

func printChanged(p *page, d operator.Changed, done string) {
	if len(d.Sample) > 0 {
		p.refs(d.Sample)
		if more := d.Changed - len(d.Sample); more > 0 {
			p.line("and %s more", thousands(more))
		}
		p.line("")
	}
	least := ""
	if d.Capped {
		least = "at least "
	}
	if d.DryRun {
		done = "to be " + done
	}
	switch {
	case d.Matched > 0:
		p.line("%s: %s of %s%s", done, thousands(d.Changed), least, events(d.Matched))
	case len(d.Skipped) == 0:
		p.line("no event fits: nothing is %s", done)
	default:
		p.line("nothing is %s", done)
	}
	if d.Passed > 0 {
		p.line("passed over: %s that had changed meanwhile, or were locked", events(d.Passed))
	}
	for _, s := range d.Skipped {
		p.line("%s  %s %s", p.paint(yellow, "skipped"), s.ID, outbox.Clean(s.Reason))
	}
}

func events(n int) string {
	if n == 1 {
		return "1 event"
	}
	return thousands(n) + " events"
}

func (t *terminal) reclaim() *cobra.Command {
	r := operator.New("reclaim").(*operator.Reclaim)
	c := &cobra.Command{
		Use: "reclaim [ID]", GroupID: "mend",
		Short: "Take back leases that ran out; one event by its id, also by force",
		Long: `Makes events pending whose lease ran out, at once, as the next invocation would.

With an id and --force also one whose lease is live, and one that somebody parked
(delivering without a deadline). If its worker is alive after all, its outcome is
dropped and n8n gets the event twice.`,
		Example: examples("operator reclaim", "operator reclaim 7f1c2a34-0000-4000-8000-000000000001 --force"),
		Args:    idArgument(&r.ID, false),
	}
	c.Flags().StringVar(&r.ID, "id", "", "the event, as the argument names it")
	_ = c.Flags().MarkHidden("id")
	c.Flags().BoolVar(&r.Force, "force", false, "also a live lease or a parked event; only with an id")
	c.Flags().IntVar(&r.Limit, "limit", r.Limit, "leases at most")
	c.Flags().BoolVarP(&r.Yes, "yes", "y", false, "do not ask before more than one event is changed")
	return command(t, c, r, func(p *page, d operator.Reclaimed) {
		switch {
		case d.Pending > 0:
			p.line("%s pending again", was(d.Pending))
		case len(d.Skipped) > 0:
			p.line("nothing is reclaimed")
		case d.Failed == 0:
			p.line("no lease had run out: nothing was done")
		}
		if d.Failed > 0 {
			p.line("%s failed, for too many leases lost in a row", was(d.Failed))
		}
		for _, s := range d.Skipped {
			p.line("%s  %s %s", p.paint(yellow, "skipped"), s.ID, outbox.Clean(s.Reason))
		}
	})
}

func was(n int) string {
	if n == 1 {
		return "1 event is"
	}
	return thousands(n) + " events are"
}

func (t *terminal) pause() *cobra.Command {
	r := operator.New("pause").(*operator.Pause)
	c := &cobra.Command{
		Use: "pause", GroupID: "mend", Args: noArguments,
		Short: "Stop sending at once, without a deploy",
		Long: `Lets the dispatcher claim nothing any more, from its next round trip to the
database on. What it is just sending is finished and recorded. It stays so, over
cold starts and deploys, until: operator resume.`,
		Example: examples(`operator pause --reason "n8n is being upgraded"`),
	}
	c.Flags().StringVar(&r.Reason, "reason", "", "why; status shows it")
	return command(t, c, r, printPause)
}

func (t *terminal) resume() *cobra.Command {
	r := operator.New("resume").(*operator.Resume)
	c := &cobra.Command{
		Use: "resume", GroupID: "mend", Args: noArguments,
		Short:   "End a pause: the next invocation sends again",
		Example: examples("operator resume"),
	}
	c.Flags().StringVar(&r.Reason, "reason", "", "why")
	return command(t, c, r, printPause)
}

func printPause(p *page, d operator.PauseChange) {
	now, before := "the dispatcher runs", "it was not paused"
	if d.Paused {
		now = p.paint(yellow, "the dispatcher is paused")
	}
	if b := d.Before; b.Paused {
		before = "it was paused"
		if d.Paused {
			before += " already"
		}
		if b.ChangedAt != nil {
			before += fmt.Sprintf(", since %s by %s", b.ChangedAt, outbox.Clean(b.ChangedBy))
		}
		if b.Reason != "" {
			before += ": " + outbox.Clean(b.Reason)
		}
	} else if d.Paused {
		before = ""
	}
	p.line("%s", now)
	if before != "" {
		p.line("%s", before)
	}
}
