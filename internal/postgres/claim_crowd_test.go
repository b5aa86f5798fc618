package postgres

import (
	"sync"
	"testing"

	"outbox-dispatcher/internal/cycle"
)

func TestClaimUnderACrowd(t *testing.T) {
	t.Parallel()
	const rows, claimers, size = 2000, 8, 50
	f := newFixture(t)
	f.fill(rows)

	var (
		mu     sync.Mutex
		claims = map[string]int{}
		wg     sync.WaitGroup
	)
	for range claimers {
		s := f.open(f.url)
		wg.Go(func() {
			for {
				var left cycle.Backlog
				batch, err := s.Take(t.Context(), ask(limit(size), reclaiming(10)))
				if err == nil {
					left, err = s.Backlog(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
				if len(batch.Events) > size {
					t.Errorf("claimed %d, more than the limit of %d", len(batch.Events), size)
				}
				mu.Lock()
				for _, e := range batch.Events {
					claims[e.Claim.Token+" "+e.ID]++
					claims[e.ID]++
				}
				mu.Unlock()
				if left.Due == 0 {
					return
				}
			}
		})
	}
	wg.Wait()
	for n := range rows {
		if claims[id(n)] != 1 {
			t.Errorf("row %d was claimed %d times", n, claims[id(n)])
		}
	}
	if got := f.value("select count(*) from outbox_events where delivery_status = 'delivering'"); got != "2000" {
		t.Errorf("%s rows are delivering", got)
	}
	// Each row carries the token that its claimer was given.
	var tokens [][2]string
	result, err := f.Query(t.Context(), "select event_id::text, payload_json ->> '_delivery_claim_token' from outbox_events")
	if err != nil {
		t.Fatal(err)
	}
	for result.Next() {
		var row [2]string
		if err := result.Scan(&row[0], &row[1]); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, row)
	}
	for _, row := range tokens {
		if claims[row[1]+" "+row[0]] != 1 {
			t.Errorf("nobody holds the token of row %d", number(row[0]))
		}
	}
}
