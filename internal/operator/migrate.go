package operator

import "context"

// Migrate brings the table to what the dispatcher needs. It needs the owner of
// the table.
type Migrate struct{}

// Action is migrate.
func (*Migrate) Action() string { return "migrate" }

func (*Migrate) check() error { return nil }

func (m *Migrate) do(ctx context.Context, o *Operator) (any, error) {
	entry, err := o.change(ctx, m.Action(), "migrate the table")
	if err != nil {
		return nil, err
	}
	entry.Counts = false
	done := Migrated{Steps: []string{}}
	err = o.Store.Migrate(ctx, func(step string) {
		done.Steps = append(done.Steps, step)
		if o.Say != nil {
			o.Say(step)
		}
	})
	if entry.Err = err; err != nil || len(done.Steps) > 0 {
		o.tell(ctx, entry)
	}
	return done, err
}

// Migrated tells what a migration did.
type Migrated struct {
	Steps []string `json:"steps"` // in order; none: nothing was left to do
}
