package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

func (t *terminal) doctorCommand() *cobra.Command {
	r := operator.New("doctor").(*operator.Doctor)
	c := &cobra.Command{
		Use: "doctor", GroupID: "look", Args: noArguments,
		Short: "Check everything that has to work, in order",
		Long: `Checks everything that has to work, in the order in which it depends on each
other, and says of each fault what mends it. It changes nothing and runs nothing:
n8n is asked with a GET, which an active webhook for POST answers with 404.

Whether n8n takes the token only a real POST tells. With --post the doctor sends
one event of its own: a random event_id, event_type "dispatcher.doctor",
correlation_id "doctor", aggregate {"type": "doctor"}, data {}. It runs the
workflow once; nothing is written to the table.

It works before the first deploy from a laptop, and in Lambda, where it can tell
whether there is a way out of the VPC and whether the schedule is enabled.
Exit status 3: it found faults.`,
		Example: examples("operator doctor", "operator doctor --post", "operator doctor --role my_dispatcher --json"),
	}
	c.Flags().BoolVar(&r.Post, "post", false, "send one event of the type dispatcher.doctor to n8n, which runs the workflow once")
	c.Flags().StringVar(&r.Role, "role", "", "the dispatcher's role, whose rights are checked (default outbox_dispatcher)")
	return command(t, c, r, printDiagnosis)
}

func printDiagnosis(p *page, d operator.Diagnosis) {
	marks := map[operator.Result]style{operator.OK: green, operator.Warning: yellow, operator.Fault: red, operator.Unknown: dim}
	for _, c := range d.Checks {
		mark := fmt.Sprintf("%-8s", c.Result)
		p.line("%s %-18s %s", p.paint(marks[c.Result], mark), c.Name, outbox.Clean(c.Text))
		if c.Mend != "" {
			p.line("%s %s", strings.Repeat(" ", 27), p.paint(bold, "mend: ")+outbox.Clean(c.Mend))
		}
	}
	p.line("")
	switch d.Faults {
	case 0:
		p.line("%s", p.paint(green, "no fault was found"))
	case 1:
		p.line("%s", p.paint(red, "1 fault was found"))
	default:
		p.line("%s", p.paint(red, fmt.Sprintf("%d faults were found", d.Faults)))
	}
}
