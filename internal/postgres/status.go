package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"outbox-dispatcher/internal/config"
	"outbox-dispatcher/internal/cycle"
	"outbox-dispatcher/internal/operator"
)

//go:embed sql/status.sql
var statusSQL string

// exactBelow is the size in bytes up to which rows are counted one by one. Above
// it a count would read the whole table, and the statistics have to do.
const exactBelow = 256 << 20

// Status counts what is where. It leaves out who paused the dispatcher.
func (s *Store) Status(ctx context.Context) (operator.Overview, error) {
	shape, err := s.look(ctx)
	if err != nil {
		return operator.Overview{}, err
	}
	st := operator.Overview{Table: displayed(s.table), FailedBy: []operator.FailedBy{}, CountedUpTo: cycle.BacklogCap, AtLeast: []string{}}
	rows, err := s.exchange(ctx, shape.replacer().Replace(statusSQL), st.CountedUpTo)
	if err != nil {
		return st, s.explain(ctx, err)
	}
	readParts(&st, rows)
	if err := s.done(ctx, shape, &st); err != nil {
		return st, s.explain(ctx, err)
	}
	facts, err := s.backlog(ctx, shape)
	st.OldestDueAgeSeconds, st.Paused = facts.backlog.OldestDueAge.Seconds(), facts.paused && shape.control
	return st, err
}

// plain is a name that SQL takes without quotes, key words aside.
var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z_][a-z0-9_$]*$`) })

// displayed is the name of a table for people: with quotes where SQL needs them.
func displayed(t config.Table) string {
	if plain().MatchString(t.Name) && (t.Schema == "" || plain().MatchString(t.Schema)) {
		return strings.TrimPrefix(t.Schema+"."+t.Name, ".")
	}
	return t.String()
}

// wholes are what the parts that status.sql counts add up to.
var wholes = []struct {
	status string
	parts  []string
}{
	{"pending", []string{"due", "later", "suspects"}},
	{"delivering", []string{"leased", "expired", "parked"}},
	{"failed", []string{"failed"}},
}

// readParts takes the rows of status.sql.
func readParts(st *operator.Overview, rows [][]string) {
	counts, more := map[string]int64{}, map[string]bool{}
	for _, row := range rows {
		part := row[0]
		n, _ := strconv.ParseInt(row[1], 10, 64)
		if code, ok := strings.CutPrefix(part, "failed:"); ok {
			st.FailedBy = append(st.FailedBy, operator.FailedBy{Code: code, Count: n, AtLeast: row[2] == "true"})
		}
		if strings.HasPrefix(part, "failed") {
			part = "failed"
		}
		counts[part] += n
		more[part] = more[part] || row[2] == "true"
	}
	slices.SortFunc(st.FailedBy, func(a, b operator.FailedBy) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Code, b.Code))
	})
	st.Due, st.Later, st.Suspects = counts["due"], counts["later"], counts["suspects"]
	st.Leased, st.Expired, st.Parked = counts["leased"], counts["expired"], counts["parked"]
	st.Statuses = map[string]int64{}
	for _, whole := range wholes {
		cut := false
		for _, part := range whole.parts {
			st.Statuses[whole.status] += counts[part]
			if cut = cut || more[part]; more[part] && part != whole.status {
				st.AtLeast = append(st.AtLeast, part)
			}
		}
		if cut {
			st.AtLeast = append(st.AtLeast, whole.status)
		}
	}
}

// done counts the other statuses, or takes what the statistics leave for them.
func (s *Store) done(ctx context.Context, shape *shape, st *operator.Overview) error {
	// What is not done, by the statistics: each such row is in one of these three
	// indexes of ours, or in that of the suspects, which are few.
	rows, err := s.exchange(ctx, `select pg_relation_size(c.oid)::text, greatest(c.reltuples, 0)::bigint::text,
		(select coalesce(sum(greatest(i.reltuples, 0)), 0)::bigint::text from pg_index x join pg_class i on i.oid = x.indexrelid
		 where x.indrelid = c.oid and i.relname ~ '_dispatch_(due|lease|failed)[0-9]*$')
		from pg_class c where c.oid = to_regclass($1)`, s.table.String())
	if err != nil {
		return err
	}
	size, _ := strconv.ParseInt(rows[0][0], 10, 64)
	if st.Estimated = size > exactBelow; st.Estimated {
		total, _ := strconv.ParseInt(rows[0][1], 10, 64)
		waiting, _ := strconv.ParseInt(rows[0][2], 10, 64)
		counted := int64(0)
		for _, n := range st.Statuses {
			counted += n
		}
		if len(st.AtLeast) > 0 {
			counted = max(counted, waiting)
		}
		st.Statuses["succeeded"] = max(total-counted, 0)
		return nil
	}
	st.Statuses["succeeded"] = 0
	rows, err = s.exchange(ctx, shape.replacer().Replace(`select delivery_status::text, count(*)::text from {table}
		where delivery_status not in ('pending', 'delivering', 'failed') group by delivery_status`))
	for _, row := range rows {
		st.Statuses[row[0]], _ = strconv.ParseInt(row[1], 10, 64)
	}
	return err
}
