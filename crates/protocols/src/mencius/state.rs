//! What a replica knows of lanes and slots.

use super::messages::Skips;
use crate::shared::ballot::Ballot;
use quorate_core::{Entry, EntryId, MemberSet, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// What a slot may hold; `None` is a no-op.
pub(super) type Value = Option<Entry>;

/// The ballot of owners, which nobody had to promise anything for.
pub(super) const OWNERS: Ballot = Ballot {
    round: 0,
    node: quorate_core::ReplicaId(0),
};

/// The name of what is in a slot; `None` is a no-op.
pub(super) fn name(value: &Value) -> Option<EntryId> {
    value.as_ref().map(|entry| entry.id)
}

/// What a replica knows of a slot that it has not delivered.
#[derive(Clone, Default, Debug)]
pub(super) struct Held {
    /// The value that this replica accepted at the highest ballot, and that ballot.
    pub(super) accepted: Option<(Ballot, Value)>,
    /// What is decided.
    pub(super) decided: Option<Value>,
    /// An entry that was suggested and not accepted here.
    pub(super) heard: Option<Entry>,
    /// The name of the entry that is decided, as long as that entry is not here.
    pub(super) claimed: Option<EntryId>,
}

impl Held {
    /// The entry of this name, if it is here.
    pub(super) fn entry(&self, id: EntryId) -> Option<&Entry> {
        let accepted = self.accepted.as_ref().and_then(|(_, value)| value.as_ref());
        let mut all = accepted.into_iter().chain(&self.heard);
        all.find(|entry| entry.id == id)
    }

    /// Whether nothing was ever suggested here, as far as known, and nothing is decided.
    pub(super) fn is_unheard_of(&self) -> bool {
        let is_heard_of = self.heard.is_some() || self.claimed.is_some();
        self.accepted.is_none() && self.decided.is_none() && !is_heard_of
    }

    /// Whether it holds an entry that was accepted, or is decided.
    pub(super) fn has_entry(&self) -> bool {
        let accepted = matches!(self.accepted, Some((_, Some(_))));
        accepted || matches!(self.decided, Some(Some(_)))
    }
}

impl Hash for Held {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let accepted = self.accepted.as_ref();
        accepted
            .map(|(ballot, value)| (*ballot, name(value)))
            .hash(to);
        self.decided.as_ref().map(name).hash(to);
        (name(&self.heard), self.claimed).hash(to);
    }
}

/// A value that this replica proposed as leader of its lane, and that is not decided here.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    /// The ballot at which it was proposed.
    pub(super) ballot: Ballot,
    /// What was proposed.
    pub(super) value: Value,
    /// Members that accepted it at this ballot.
    pub(super) accepted_by: MemberSet,
    /// Whether it was said since the last retransmission timer.
    pub(super) is_fresh: bool,
    /// By when a long entry that was said is there, on the own clock in ns: it is not said again before.
    pub(super) until_ns: u64,
}

impl Hash for Proposal {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (
            self.ballot,
            name(&self.value),
            self.accepted_by,
            self.is_fresh,
        )
            .hash(to);
    }
}

/// The highest ballot at which somebody accepted a value, or `None` where it is decided, and the value.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) ballot: Option<Ballot>,
    pub(super) value: Value,
}

impl Found {
    /// Whether this says more than another one of the same slot.
    fn is_above(&self, other: &Found) -> bool {
        match (self.ballot, other.ballot) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(own), Some(other)) => own > other,
        }
    }
}

impl Hash for Found {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.ballot, name(&self.value)).hash(to);
    }
}

/// By slot: what promises showed.
#[derive(Clone, Default, Hash, Debug)]
pub(super) struct Findings(BTreeMap<Slot, Found>);

impl Findings {
    /// Somebody showed this.
    pub(super) fn add(&mut self, slot: Slot, found: Found) {
        let known = self.0.get(&slot);
        if known.is_none_or(|known| found.is_above(known)) {
            self.0.insert(slot, found);
        }
    }

    /// What was shown in a slot.
    pub(super) fn get(&self, slot: Slot) -> Option<&Found> {
        self.0.get(&slot)
    }

    /// The last slot in which something was shown.
    pub(super) fn last(&self) -> Option<Slot> {
        self.0.last_key_value().map(|(slot, _)| *slot)
    }

    /// The last slot in which an entry was shown.
    pub(super) fn last_entry(&self) -> Option<Slot> {
        let mut entries = self
            .0
            .iter()
            .rev()
            .filter(|(_, found)| found.value.is_some());
        entries.next().map(|(slot, _)| *slot)
    }

    /// Forgets what is before a slot.
    pub(super) fn cut(&mut self, before: Slot) {
        if self
            .0
            .first_key_value()
            .is_some_and(|(first, _)| *first < before)
        {
            self.0 = self.0.split_off(&before);
        }
    }
}

/// Phase 1 of a lane: promises that have come.
#[derive(Clone, Hash, Debug)]
pub(super) struct Preparing {
    pub(super) ballot: Ballot,
    /// The first slot that was asked about.
    pub(super) from: Slot,
    /// Members that have promised.
    pub(super) promised_by: MemberSet,
    /// What they showed.
    pub(super) findings: Findings,
    /// The first slot that the furthest of them has not delivered: before it, nothing needs to be proposed.
    pub(super) delivered: Slot,
}

/// Phase 2 of a lane.
#[derive(Clone, Hash, Debug)]
pub(super) struct Leading {
    pub(super) ballot: Ballot,
    /// What promises showed, from `filled` on.
    pub(super) findings: Findings,
    /// The first slot of the lane that nothing was proposed in.
    pub(super) filled: Slot,
    /// Where an owner's own slots begin, which hold whatever it likes; `None` for a lane of another, which is
    /// filled with no-ops for ever.
    pub(super) until: Option<Slot>,
}

/// What this replica is to a lane.
#[derive(Clone, Hash, Debug)]
pub(super) enum Lead {
    /// Another leads the lane, if anybody does; an owner may, by ballot 0.
    None,
    /// This replica asks for promises.
    Preparing(Preparing),
    /// This replica has the promises of a majority.
    Leading(Leading),
}

/// What a replica knows of a lane.
#[derive(Clone, Hash, Debug)]
pub(super) struct Lane {
    /// What this replica has promised: nothing below is accepted, in any slot of the lane (M5).
    pub(super) promised: Ballot,
    /// The highest ballot heard of.
    pub(super) highest: Ballot,
    /// What this replica is to it.
    pub(super) lead: Lead,
    /// How often in a row its leader was heard and nothing moved.
    pub(super) strikes: u32,
    /// A ballot of this replica was outdone since the last retransmission timer: it waits before the next.
    pub(super) is_barred: bool,
    /// The slot and ballot of a promise that binds for one slot alone (a mutant).
    pub(super) one_slot: Option<(Slot, Ballot)>,
}

impl Lane {
    pub(super) fn new() -> Lane {
        Lane {
            promised: OWNERS,
            highest: OWNERS,
            lead: Lead::None,
            strikes: 0,
            is_barred: false,
            one_slot: None,
        }
    }

    /// Somebody uses, or has promised, this ballot: whoever leads by a lower one does no more. Says whether this
    /// replica did.
    pub(super) fn see(&mut self, ballot: Ballot) -> bool {
        self.highest = self.highest.max(ballot);
        let is_outdone = self.lead_ballot().is_some_and(|own| own < ballot);
        if is_outdone {
            self.lead = Lead::None;
        }
        is_outdone
    }

    /// The ballot by which this replica leads it, or wants to.
    pub(super) fn lead_ballot(&self) -> Option<Ballot> {
        match &self.lead {
            Lead::None => None,
            Lead::Preparing(preparing) => Some(preparing.ballot),
            Lead::Leading(leading) => Some(leading.ballot),
        }
    }

    /// Phase 2 of this replica, if it leads the lane.
    pub(super) fn leading(&self) -> Option<&Leading> {
        match &self.lead {
            Lead::Leading(leading) => Some(leading),
            _ => None,
        }
    }

    /// What is accepted in a slot has this ballot at least.
    pub(super) fn bound(&self, slot: Slot) -> Ballot {
        let single = self.one_slot.filter(|(of, _)| *of == slot);
        single.map_or(self.promised, |(_, ballot)| ballot.max(self.promised))
    }
}

/// The own lane, as its owner knows it.
#[derive(Clone, Debug)]
pub(super) struct OwnLane {
    /// The first own slot of this start: those before it may have been used by earlier ones.
    pub(super) from: Slot,
    /// The first own slot that is neither suggested in nor skipped.
    pub(super) next: Slot,
    /// Own slots before `next` that were suggested in since the start, but for those delivered long ago.
    pub(super) suggested: BTreeSet<Slot>,
    /// Slots before this one are reserved.
    pub(super) reserved: Slot,
    /// Slots before this one are reserved, durably.
    pub(super) reserved_durable: Slot,
    /// Own skipped slots before this one are decided here.
    pub(super) settled: Slot,
    /// All peers were told of the own skipped slots before this one.
    pub(super) announced: Slot,
}

impl OwnLane {
    /// What this replica skipped, from a slot on.
    pub(super) fn skips(&self, from: Slot) -> Skips {
        let from = self.from.max(from);
        let suggested = self.suggested.range(from.min(self.next)..);
        Skips {
            from,
            below: self.next,
            except: suggested.copied().collect(),
        }
    }

    /// Whether a slot was skipped since the start.
    pub(super) fn has_skipped(&self, slot: Slot) -> bool {
        self.from <= slot && slot < self.next && !self.suggested.contains(&slot)
    }
}

impl Hash for OwnLane {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.from, self.next, &self.suggested).hash(to);
        (self.reserved, self.reserved_durable).hash(to);
        (self.settled, self.announced).hash(to);
    }
}

/// What counts once a record is durable.
#[derive(Clone, Hash, Debug)]
pub(super) enum Written {
    /// This replica accepted what it proposed itself.
    Own {
        ballot: Ballot,
        span: super::lanes::Span,
    },
    /// This replica accepted what a peer proposed, and has not said so.
    Peer {
        to: quorate_core::MemberIndex,
        ballot: Ballot,
        span: super::lanes::Span,
    },
    /// This replica promised its own ballot in a lane.
    Promise {
        lane: quorate_core::MemberIndex,
        ballot: Ballot,
    },
    /// Own slots are reserved.
    Reserve { until: Slot },
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::ReplicaId;

    fn found(round: Option<u64>) -> Found {
        Found {
            ballot: round.map(|round| Ballot {
                round,
                node: ReplicaId(1),
            }),
            value: None,
        }
    }

    #[test]
    fn what_is_decided_outdoes_every_ballot_and_a_higher_ballot_a_lower_one() {
        let mut findings = Findings::default();
        let round = |findings: &Findings| findings.get(Slot(3)).unwrap().ballot.map(|b| b.round);
        for (shown, best) in [(Some(2), Some(2)), (Some(1), Some(2)), (Some(5), Some(5))] {
            findings.add(Slot(3), found(shown));
            assert_eq!(round(&findings), best);
        }
        findings.add(Slot(3), found(None));
        findings.add(Slot(3), found(Some(9)));
        assert_eq!(round(&findings), None);
        assert_eq!(
            (findings.last(), findings.last_entry()),
            (Some(Slot(3)), None)
        );
        findings.cut(Slot(4));
        assert!(findings.get(Slot(3)).is_none());
    }

    #[test]
    fn skips_name_what_was_suggested() {
        let own = OwnLane {
            from: Slot(3),
            next: Slot(12),
            suggested: BTreeSet::from([Slot(6)]),
            reserved: Slot(99),
            reserved_durable: Slot(99),
            settled: Slot(3),
            announced: Slot(3),
        };
        let skips = own.skips(Slot(0));
        assert_eq!(
            (skips.from, skips.below, &skips.except[..]),
            (Slot(3), Slot(12), &[Slot(6)][..])
        );
        let skipped = [0, 3, 6, 9, 12].map(|slot| own.has_skipped(Slot(slot)));
        assert_eq!(skipped, [false, true, false, true, false]);
        assert!(own.skips(Slot(20)).except.is_empty());
    }
}
