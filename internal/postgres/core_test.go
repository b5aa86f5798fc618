package postgres

import (
	"fmt"
	"sync/atomic"
	"testing"

	"outbox-dispatcher/internal/config"
)

// core is what must hold in every protocol mode of pgx and behind a pooler.
var core = []struct {
	name string
	test func(*testing.T, *fixture)
}{
	{"ClaimsByDueTimeThenID", claimsByDueTimeThenID},
	{"ClaimsOnlyWhatIsDue", claimsOnlyWhatIsDue},
	{"ClaimsRowsDatedInTheFuture", claimsRowsDatedInTheFuture},
	{"ClaimsAreLeases", claimsAreLeases},
	{"ClaimTakesNothingThatBecameDueLater", claimTakesNothingThatBecameDueLater},
	{"ClaimTellsWhetherMoreIsDue", claimTellsWhetherMoreIsDue},
	{"ClaimPutsATokenIntoThePayload", claimPutsATokenIntoThePayload},
	{"ClaimKeepsPayloadsDigitForDigit", claimKeepsPayloadsDigitForDigit},
	{"ClaimsPayloadsThatAreNoObject", claimsPayloadsThatAreNoObject},
	{"ClaimNamesTheFirstMissingKey", claimNamesTheFirstMissingKey},
	{"SuspectsAreClaimedOnlyByThemselves", suspectsAreClaimedOnlyByThemselves},
	{"APauseStopsTheClaimAlone", aPauseStopsTheClaimAlone},
	{"ClaimTellsTheBacklog", claimTellsTheBacklog},
	{"ClaimStopsAtItsBytes", claimStopsAtItsBytes},
	{"ClaimLeavesWhatItCutAsItWas", claimLeavesWhatItCutAsItWas},
	{"ClaimLoadsNoPayloadThatIsTooLarge", claimLoadsNoPayloadThatIsTooLarge},
	{"ClaimSkipsLockedRows", claimSkipsLockedRows},
	{"ARoundTripIsBoundedAsAWhole", aRoundTripIsBoundedAsAWhole},
	{"APayloadThatJSONBRefusesIsUnusableAlone", aPayloadThatJSONBRefusesIsUnusableAlone},
	{"JSONPayloadsAreNeverGluedTogether", jsonPayloadsAreNeverGluedTogether},
	{"ReclaimsOnlyWhatExpired", reclaimsOnlyWhatExpired},
	{"ReclaimCountsLeasesLostInARow", reclaimCountsLeasesLostInARow},
	{"ReclaimFailsWhatLostItsLastLease", reclaimFailsWhatLostItsLastLease},
	{"ReclaimKeepsToItsLimit", reclaimKeepsToItsLimit},
	{"AnOutcomeIsNeverReclaimed", anOutcomeIsNeverReclaimed},
	{"TheReclaimStepEndsBeforeTheClaim", theReclaimStepEndsBeforeTheClaim},
	{"RecordWritesEachOutcome", recordWritesEachOutcome},
	{"RecordIsFenced", recordIsFenced},
	{"RowsWithoutATokenAreFencedByTheirDeadline", rowsWithoutATokenAreFencedByTheirDeadline},
	{"RecordKeepsWhatWasEditedMeanwhile", recordKeepsWhatWasEditedMeanwhile},
	{"ALockedRowIsHeldAndRecordedLater", aLockedRowIsHeldAndRecordedLater},
	{"AnOutcomeWrittenAlreadyIsRecorded", anOutcomeWrittenAlreadyIsRecorded},
	{"ARefusedValueHarmsNoOther", aRefusedValueHarmsNoOther},
	{"ReleasePutsBackWhatWas", releasePutsBackWhatWas},
	{"SessionsMayBeTerminated", sessionsMayBeTerminated},
	{"ColumnsMayBeAdded", columnsMayBeAdded},
	{"ThePayloadMayChangeItsType", thePayloadMayChangeItsType},
	{"StatusCountsWhatIsWhere", statusCountsWhatIsWhere},
	{"DueShowsAndTakesNothing", dueShowsAndTakesNothing},
}

// way to reach the database.
type way struct {
	name    string
	options []string
	through func(testing.TB, string) string // nil: straight
}

var ways = []way{
	{name: "Exec", options: []string{"default_query_exec_mode=exec"}}, // as it comes
	{name: "OneSession", options: []string{"pool_max_conns=1"}},
	{name: "SimpleProtocol", options: []string{"default_query_exec_mode=simple_protocol"}},
	{name: "CacheStatement", options: []string{"default_query_exec_mode=cache_statement"}},
	{name: "CacheDescribe", options: []string{"default_query_exec_mode=cache_describe"}},
	{name: "PgBouncer", through: throughPgBouncer},
	{name: "PgBouncerSimpleProtocolOneSession", options: []string{"default_query_exec_mode=simple_protocol", "pool_max_conns=1"}, through: throughPgBouncer},
}

// reach returns what makes a fixture for a test that goes this way. They share a
// database, and each has a schema in it: that is much quicker.
func (w way) reach(t *testing.T) func(*testing.T) *fixture {
	shared := newFixture(t)
	var schemas atomic.Int64
	return func(t *testing.T) *fixture {
		t.Helper()
		schema := fmt.Sprintf("s%d", schemas.Add(1))
		through := shared.url
		if w.through != nil {
			through = w.through(t, through)
		}
		f := fixtureAt(t, with(shared.url, "options=-csearch_path%3D"+schema))
		f.exec("create schema " + schema)
		for _, table := range []string{"outbox_events", "outbox_events_control"} {
			f.exec("create table " + schema + "." + table + " (like public." + table + " including all)")
		}
		f.store = openStore(t, with(through, w.options...), config.Table{Schema: schema, Name: "outbox_events"}, &Connector{})
		return f
	}
}

func TestCore(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			fresh := way.reach(t)
			for _, c := range core {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.test(t, fresh(t))
				})
			}
		})
	}
}
