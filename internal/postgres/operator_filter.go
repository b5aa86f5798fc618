package postgres

import (
	"strconv"
	"strings"

	"outbox-dispatcher/internal/operator"
	"outbox-dispatcher/internal/outbox"
)

// tablePart of the table that one index holds.
type tablePart struct {
	where string // the predicate of the index, and what narrows it
	byDue bool   // the index is in due order
	byID  bool   // the index is in the order of ids
}

// sqlArguments of a statement, by number.
type sqlArguments []any

// add returns the placeholder of a value.
func (a *sqlArguments) add(v any) string {
	*a = append(*a, v)
	return "$" + strconv.Itoa(len(*a))
}

const (
	dueNowSQL     = "(next_attempt_at is null or next_attempt_at <= statement_timestamp())"
	deliveringSQL = "delivery_status = 'delivering'"
)

// partsOf returns where events of a status or state are.
func partsOf(word string, f operator.Filter, args *sqlArguments) []tablePart {
	pending := tablePart{where: "delivery_status = 'pending' and " + ordinary, byDue: true}
	switch word {
	case string(outbox.Pending):
		return []tablePart{pending, {where: "delivery_status = 'pending' and " + suspects}}
	case string(operator.Due):
		pending.where += " and " + dueNowSQL
		return []tablePart{pending}
	case string(operator.Later):
		pending.where += " and next_attempt_at > statement_timestamp()"
		return []tablePart{pending}
	case string(operator.Suspect):
		return []tablePart{{where: "delivery_status = 'pending' and " + suspects}}
	case string(outbox.Delivering):
		return []tablePart{{where: deliveringSQL}}
	case string(operator.Leased):
		return []tablePart{{where: deliveringSQL + " and next_attempt_at > statement_timestamp()"}}
	case string(operator.Expired):
		return []tablePart{{where: deliveringSQL + " and next_attempt_at <= statement_timestamp()"}}
	case string(operator.Parked):
		return []tablePart{{where: deliveringSQL + " and next_attempt_at is null"}}
	case string(outbox.Failed):
		failed := tablePart{where: "delivery_status = 'failed'"}
		if f.Code != "" {
			failed.where += " and last_error_code = " + args.add(f.Code) + "::text"
			failed.byID = true
		}
		return []tablePart{failed}
	}
	return []tablePart{{where: "delivery_status = " + args.add(word) + "::text", byID: true}}
}

// filterSQL is the filter as a condition.
func filterSQL(f operator.Filter, args *sqlArguments) (string, error) {
	conditions := []string{"true"}
	add := func(given bool, before string, value any, behind string) {
		if given {
			conditions = append(conditions, before+args.add(value)+behind)
		}
	}
	add(f.Code != "", "last_error_code = ", f.Code, "::text")
	add(f.Type != "", "event_type = ", f.Type, "::text")
	add(f.Text != "", "strpos(lower(last_error), lower(", f.Text, "::text)) > 0")
	add(f.OlderThan != 0, "occurred_at <= statement_timestamp() - interval '1 second' * ", f.OlderThan.Seconds(), "::float8")
	add(f.NewerThan != 0, "occurred_at > statement_timestamp() - interval '1 second' * ", f.NewerThan.Seconds(), "::float8")
	add(f.DueFor != 0, "delivery_status = 'pending' and coalesce(next_attempt_at, occurred_at) <= statement_timestamp() - interval '1 second' * ", f.DueFor.Seconds(), "::float8")
	aggregates, err := f.Aggregates()
	if err != nil {
		return "", err
	}
	add(aggregates != nil, "payload_json::jsonb -> 'aggregate' @> any (", aggregates, "::text[]::jsonb[])")
	return strings.Join(conditions, " and "), nil
}
