//! What one replica can see of the invariants.

use super::Replica;
use super::mutants::Fault;
use quorate_core::Slot;

impl Replica {
    /// Lemmas over this replica's whole state.
    pub(super) fn check_all(&self) {
        let (next, end) = (self.log.next, self.log.end());
        self.log.check();
        self.disk.check();
        assert!(
            self.log.len() <= self.config.slots_max,
            "the log is bounded"
        );
        assert!(
            self.view.covers(self.last_normal),
            "views only grow: {:?} after {:?} (N6)",
            self.view,
            self.last_normal
        );
        if self.is_silent {
            assert!(
                next == end && self.early.is_empty(),
                "who lost its promises makes none"
            );
        }
        let twice = self.log.iter().filter_map(|(_, value)| value.as_ref());
        let first = twice.filter(|entry| self.gateway.unanswered.contains_key(&entry.id));
        for entry in first {
            assert!(
                !self.done.entries.contains(entry.id),
                "what is decided was answered, {:?}",
                entry.id
            );
        }
        self.check_stamps();
        self.check_leader();
    }

    /// One offset leads from numbers to slots (N3).
    fn check_stamps(&self) {
        let end = self.log.end();
        if let Some((number, _)) = self.early.first_key_value().filter(|_| self.has_session()) {
            let slot = self.log.slot(*number);
            assert!(slot >= end, "{slot:?} is placed, {end:?} is the end (N3)");
        }
        let kept = self.first_number() + self.config.slots_max;
        assert!(
            self.early.keys().all(|number| *number < kept),
            "nothing is kept that is too far ahead"
        );
        assert!(
            self.sequencer.number == 0
                || self.sequencer.session > self.sequencer.barred
                || self.fault(Fault::ReuseSession),
            "no session is stamped in by two starts (N3)"
        );
    }

    /// What is decided does not change, and no-ops are given up slots (N2, N5).
    fn check_leader(&self) {
        let (lead, end) = (&self.lead, self.log.end());
        assert!(
            lead.matched <= end,
            "no more is like the leader's than there is (N2)"
        );
        if !self.is_leader() {
            assert!(
                self.gaps.commit.is_none(),
                "who leads gives up slots, and nobody else (N5)"
            );
            return;
        }
        assert!(
            lead.synced <= end,
            "what is decided is in the leader's log (N2)"
        );
        let noops = self.log.iter().filter(|(_, value)| value.is_none());
        let noops: Vec<Slot> = noops.map(|(slot, _)| slot).collect();
        let noted: Vec<Slot> = lead.noops.range(self.log.next..).copied().collect();
        assert_eq!(
            noops, noted,
            "the leader names all no-ops it has, and no others (N5)"
        );
        if let Some(commit) = &self.gaps.commit {
            assert_eq!(
                commit.until, end,
                "nothing is placed behind a gap that is open (N5)"
            );
            let is_given_up = |slot| self.log.get(Slot(slot)).is_none_or(Option::is_none);
            assert!(
                (commit.from.0..commit.until.0).all(is_given_up),
                "{commit:?} (N5)"
            );
        }
    }
}
