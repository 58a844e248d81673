//! Deliberate faults, and what finds them.

use super::Replica;
use super::config::Config;
use super::messages::Record;
use crate::registry::{Catcher, Mutant, Sabotage};
use crate::shared::faults::Faults;

/// The rules that mutants break, one each; a replica without a mutant keeps all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Log modifications are taken in with gaps.
    SyncWithGaps,
    /// An entry that is synced may be unsynced, too.
    KeepOtherVersions,
    /// A member that comes late has the log of a view made anew.
    StartTwice,
    /// The log of a view is taken in by a replica that is in the view already.
    StartAgain,
    /// A leader that starts again goes on leading its view.
    LeadAfterRestart,
    /// A leader places entries before it is durable that the view has begun.
    LeadBeforeDurable,
    /// What is unsynced for long is promised no more.
    DropUnsynced,
    /// Digests do not tell lives apart.
    DigestWithoutLives,
    /// Digests do not cover deadlines.
    DigestWithoutDeadlines,
    /// A leader's word is enough for a read.
    UnconfirmedReads,
    /// Digests are of the XOR of the buckets' sums.
    DigestOfXor,
    /// What survives has to be above all that is synced, not only above what conflicts with it.
    GlobalFilter,
    /// How far a follower was in another view counts.
    MixViews,
    /// What was answered to a former life counts.
    HeedFormerAnswers,
    /// A place in a log stands for what was there when entries changed places.
    KeepReadPlaces,
}

/// All of them.
pub(super) fn all() -> Vec<Mutant<Replica>> {
    let mut all = numbers();
    all.extend(logs());
    all.extend(answers());
    all.extend(records());
    all
}

macro_rules! found_by {
    ($test:literal) => {
        found_by!("mutants", $test)
    };
    ($file:literal, $test:literal) => {
        Catcher::Test(concat!(
            "crates/protocols/src/nezha/tests/",
            $file,
            ".rs: ",
            $test
        ))
    };
}

fn changed(
    name: &'static str,
    what: &'static str,
    edit: fn(&mut Config),
    catcher: Catcher,
) -> Mutant<Replica> {
    Mutant::new(name, what, Sabotage::Config(edit), catcher)
}

/// Quorums that are too small, or too large.
fn numbers() -> Vec<Mutant<Replica>> {
    vec![
        changed(
            "fast-quorum",
            "f + 1 equal digests commit",
            |config| config.thresholds.fast = config.thresholds.slow,
            found_by!("a_fast_quorum_of_a_majority_loses_answers"),
        ),
        changed(
            "slow-quorum",
            "f synced logs commit",
            |config| config.thresholds.slow -= 1,
            found_by!("a_slow_quorum_of_one_loses_what_was_delivered"),
        ),
        changed(
            "survivors-few",
            "what fewer promised survives",
            |config| config.thresholds.survive -= 1,
            found_by!(
                "schedules",
                "what_too_few_promised_comes_before_what_was_committed_fast"
            ),
        ),
        changed(
            "survivors-many",
            "only what more promised survives",
            |config| config.thresholds.survive += 1,
            found_by!(
                "schedules",
                "what_was_committed_fast_does_not_survive_where_more_is_asked_for"
            ),
        ),
        changed(
            "rejoin-one",
            "f answers make up for lost promises",
            |config| config.thresholds.rejoin -= 1,
            found_by!(
                "schedules_lives",
                "one_answer_does_not_make_up_for_lost_promises"
            ),
        ),
    ]
}

/// Rules of logs that are left out.
fn logs() -> Vec<Mutant<Replica>> {
    vec![
        changed(
            "gaps",
            "log modifications are taken in with gaps",
            |config| config.faults = Faults::only(Fault::SyncWithGaps),
            found_by!("a_gap_taken_in_is_vouched_for"),
        ),
        changed(
            "start-again",
            "who is in a view begins it again",
            |config| config.faults = Faults::only(Fault::StartAgain),
            found_by!("a_view_begun_again_forgets_what_was_vouched_for"),
        ),
        changed(
            "same-leader",
            "a leader that starts again goes on leading its view",
            |config| config.faults = Faults::only(Fault::LeadAfterRestart),
            found_by!("a_leader_that_leads_on_after_a_crash_tells_two_logs"),
        ),
        changed(
            "hasty-leader",
            "a leader places entries before its view is durable",
            |config| config.faults = Faults::only(Fault::LeadBeforeDurable),
            found_by!(
                "schedules_views",
                "a_leader_that_places_entries_too_early_has_two_logs"
            ),
        ),
        changed(
            "starts-twice",
            "who comes late has the log of a view made anew",
            |config| config.faults = Faults::only(Fault::StartTwice),
            found_by!("schedules_views", "who_is_late_changes_the_log_of_a_view"),
        ),
        changed(
            "two-versions",
            "an entry that is synced may be unsynced, too",
            |config| config.faults = Faults::only(Fault::KeepOtherVersions),
            found_by!("schedules", "s1_two_versions_of_an_entry_survive_as_two"),
        ),
        changed(
            "unsynced-dropped",
            "what waits for long is promised no more",
            |config| config.faults = Faults::only(Fault::DropUnsynced),
            found_by!("schedules", "a_promise_that_is_dropped_is_missing"),
        ),
        changed(
            "global-filter",
            "what survives has to be above all that is synced",
            |config| config.faults = Faults::only(Fault::GlobalFilter),
            found_by!(
                "schedules",
                "s3_what_is_synced_shuts_out_what_commutes_and_was_committed_fast"
            ),
        ),
    ]
}

/// Rules of digests, answers and reads that are left out.
fn answers() -> Vec<Mutant<Replica>> {
    vec![
        changed(
            "deadline-not-hashed",
            "digests do not cover deadlines",
            |config| config.faults = Faults::only(Fault::DigestWithoutDeadlines),
            found_by!("schedules", "versions_with_other_deadlines_look_the_same"),
        ),
        changed(
            "xor-sums",
            "digests are of the XOR of the buckets' sums",
            |config| config.faults = Faults::only(Fault::DigestOfXor),
            found_by!(
                "schedules",
                "s2_what_touches_two_buckets_cancels_in_their_combined_sum"
            ),
        ),
        changed(
            "one-life",
            "digests do not tell lives apart",
            |config| config.faults = Faults::only(Fault::DigestWithoutLives),
            found_by!(
                "schedules_lives",
                "s7_replies_of_former_lives_commit_an_entry"
            ),
        ),
        changed(
            "former-answers",
            "what was answered to a former life counts",
            |config| config.faults = Faults::only(Fault::HeedFormerAnswers),
            found_by!(
                "schedules_lives",
                "s8_the_log_for_a_former_life_lacks_what_was_vouched_for"
            ),
        ),
        changed(
            "any-sync-point",
            "how far a follower was in another view counts",
            |config| config.faults = Faults::only(Fault::MixViews),
            found_by!(
                "schedules_views",
                "s11_how_far_a_follower_was_in_an_earlier_view_counts_in_this_one"
            ),
        ),
        changed(
            "unconfirmed-reads",
            "a leader's word is enough for a read",
            |config| config.faults = Faults::only(Fault::UnconfirmedReads),
            found_by!("schedules_views", "a_read_that_nobody_confirms_is_stale"),
        ),
        changed(
            "reads-where-it-was",
            "a place in a log stands for what was there when entries changed places",
            |config| config.faults = Faults::only(Fault::KeepReadPlaces),
            found_by!("schedules_views", "a_read_misses_what_has_changed_places"),
        ),
    ]
}

/// Records that are not written.
fn records() -> Vec<Mutant<Replica>> {
    let forgotten = |name, what, forgets: fn(&Record) -> bool, catcher| {
        Mutant::new(name, what, Sabotage::Forget(forgets), catcher)
    };
    vec![forgotten(
        "no-sync-record",
        "a follower writes entries, not where they are",
        |record| matches!(record, Record::Sync { .. }),
        found_by!("a_synced_entry_that_counts_as_unsynced_after_a_crash_is_lost"),
    )]
}
