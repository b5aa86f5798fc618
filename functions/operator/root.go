package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

const rootHelp = `See what the dispatcher does, understand why, and put it right, without SQL.

The settings come from the environment: DATABASE_URL, or DATABASE_SECRET_ID, or
the PG variables, and OUTBOX_TABLE. doctor looks at all the others as well.

In Lambda the same actions take the same members: {"action": "list", "status":
"failed"}. A flag is the member with dashes.

Results go to stdout, everything else to stderr. Each change is told there in one
line, "audit": who, when, what.

Exit status: 0 done; 1 it could not be done, or not all of it; 2 the command
cannot be meant so, or was not confirmed, and nothing was done; 3 doctor found
faults. "go run" makes a 1 of each that is not 0: for scripts, build it first,
go build ./functions/operator.`

// root is the command line. It is made anew for each run: requests are filled in
// by its flags.
func (t *terminal) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "operator",
		Short:         "See, understand and mend the outbox dispatcher",
		Long:          rootHelp,
		Example:       "  operator status\n  operator list --status failed\n  operator replay --code connectionError --dry-run",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,

		SuggestionsMinimumDistance: 2,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(t.in)
	root.SetOut(t.out)
	root.SetErr(t.err)
	root.PersistentFlags().BoolVar(&t.json, "json", false, "the result as JSON, for programs")
	root.AddGroup(&cobra.Group{ID: "look", Title: "Look:"}, &cobra.Group{ID: "mend", Title: "Mend:"}, &cobra.Group{ID: "keep", Title: "Set up and keep:"})
	for _, c := range []*cobra.Command{
		t.status(), t.list(), t.show(), t.doctorCommand(),
		t.replay(), t.cancel(), t.reclaim(), t.pause(), t.resume(),
		t.migrate(), t.prune(),
	} {
		root.AddCommand(c)
	}
	root.SetHelpCommandGroupID("keep")
	root.SetCompletionCommandGroupID("keep")
	return root
}

// knownCommand refuses what is no command, and guesses which one was meant.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// noArguments refuses arguments.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes flags alone, not %q", c.Name(), args[0])
	}
	return nil
}

// filterFlags adds the flags of a filter.
func filterFlags(c *cobra.Command, f *operator.Filter) {
	flags := c.Flags()
	flags.StringVar(&f.Code, "code", "", "last_error_code, exactly, such as connectionError")
	flags.StringVar(&f.Type, "type", "", "event_type, exactly")
	flags.StringVar(&f.Aggregate, "aggregate", "", "the payload's aggregate: `KEY=VALUE`, a value, or JSON that it must contain")
	flags.StringVar(&f.Text, "text", "", "a piece of last_error, in any case")
	flags.Var(&f.OlderThan, "older-than", "occurred (occurred_at) at least so long ago, such as 2h or 30d")
	flags.Var(&f.NewerThan, "newer-than", "occurred (occurred_at) less long ago than that")
	flags.Var(&f.DueFor, "due-for", "pending, and due (next_attempt_at, else occurred_at) for at least so long")
	complete(c, "code", codes())
}

// choiceFlags adds the flags that choose events to change; their ids are
// arguments.
func choiceFlags(c *cobra.Command, choice *operator.Choice, statuses ...string) {
	c.Use += " [ID...]"
	c.Args = func(_ *cobra.Command, args []string) error {
		choice.IDs = append(choice.IDs, args...)
		return nil
	}
	c.Flags().StringVar(&choice.ID, "id", "", "an event, as the arguments name them")
	c.Flags().StringSliceVar(&choice.IDs, "ids", nil, "events, separated by commas")
	c.Flags().BoolVar(&choice.All, "all", false, "all of them, without a filter (up to --limit)")
	c.Flags().StringSliceVar((*[]string)(&choice.Status), "status", nil, strings.Join(statuses, ", "))
	complete(c, "status", statuses)
	_ = c.Flags().MarkHidden("id")
	_ = c.Flags().MarkHidden("ids")
	filterFlags(c, &choice.Filter)
}

// askFlags adds what every change of many events has.
func askFlags(flags *pflag.FlagSet, dry, yes *bool) {
	flags.BoolVar(dry, "dry-run", false, "show what would be changed, and change nothing")
	flags.BoolVarP(yes, "yes", "y", false, "do not ask before more than one event is changed")
}

// idArgument takes the id of one event.
func idArgument(id *string, required bool) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return fmt.Errorf("%s takes one id", c.Name())
		case len(args) == 1:
			*id = args[0]
		case required && *id == "":
			return fmt.Errorf("say which event: operator %s ID", c.Name())
		}
		return nil
	}
}

// complete lets the shell complete the values of a flag.
func complete(c *cobra.Command, flag string, values []string) {
	// The error says that the flag is not there, which the first run would show.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func codes() (codes []string) {
	for _, c := range outbox.Codes {
		codes = append(codes, string(c.Code)+"\t"+c.Meaning)
	}
	return append(codes, operator.DefaultCancelCode+"\tA person cancelled it.")
}

// examples indents the lines of an example.
func examples(lines ...string) string { return "  " + strings.Join(lines, "\n  ") }
