//! What a replica is to the others, and what it knows of a slot.

use super::fragments::Fragments;
use super::messages::{SlotVote, has_bulk};
use super::spread::Spreading;
use crate::shared::ballot::Ballot;
use crate::shared::led;
use crate::shared::under_way::UnderWay;
use quorate_core::{Entry, EntryId, Lsn, MemberIndex, MemberSet, Share, Slot};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

/// A value accepted in a slot, and proposed there if this replica leads its ballot.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) ballot: Ballot,
    /// The value; `None` is the no-op. Its payloads are at hand where they will be sent: whole, at a leader.
    pub(super) value: Option<Entry>,
    /// What is on the own disk, or on its way there.
    pub(super) fragments: Fragments,
}

impl Proposal {
    /// The name of the value.
    pub(super) fn name(&self) -> Option<EntryId> {
        self.value.as_ref().map(|entry| entry.id)
    }

    /// Whether all of the value is at hand.
    pub(super) fn is_whole(&self) -> bool {
        is_whole(self.value.as_ref())
    }
}

/// Whether all of a value is at hand, its payloads too.
pub(super) fn is_whole(value: Option<&Entry>) -> bool {
    let share = value.and_then(|entry| entry.share());
    !has_bulk(value) || share.is_some_and(|share| Share::is_whole(share))
}

impl Hash for Proposal {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.ballot, self.name(), self.fragments, self.is_whole()).hash(to);
    }
}

/// Who has accepted the value of the own ballot under one code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Tally {
    pub(super) code: u8,
    /// Members whose accept is durable.
    pub(super) acks: MemberSet,
}

/// What is known of a slot.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct Instance {
    /// What this replica has accepted.
    pub(super) accepted: Option<Proposal>,
    /// Whether the accepted value is chosen.
    pub(super) is_chosen: bool,
    /// Accepts in the own ballot, by code; the code proposed last comes last.
    pub(super) tallies: Vec<Tally>,
    /// Members to which their fragment went.
    pub(super) attached: UnderWay,
    /// Whether a value was proposed since the last retransmission timer.
    pub(super) is_fresh: bool,
}

/// What a replica is to the others.
pub(super) type Role = led::Role<Candidate, Leader>;

impl Role {
    /// The record of the own ballot, while promises are gathered.
    pub(super) fn candidacy_lsn(&self) -> Option<Lsn> {
        match self {
            Role::Candidate(candidate) => Some(candidate.written),
            _ => None,
        }
    }
}

/// Phase 1 under way.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The first slot asked about.
    pub(super) from: Slot,
    /// The record of the own ballot: the own promise counts once it is durable.
    pub(super) written: Lsn,
    /// What has come of each member's promise, by member.
    pub(super) promises: Vec<Gathered>,
    /// Values being gathered because the promises tell of too few fragments, with the entries that are here.
    pub(super) wanted: BTreeMap<EntryId, Option<Entry>>,
}

impl Candidate {
    /// The members that have promised in full, and what they told.
    pub(super) fn complete(&self) -> impl Iterator<Item = (MemberIndex, &Gathered)> {
        let members = MemberSet::first(self.promises.len()).iter();
        let promises = members.zip(&self.promises);
        promises.filter(|(_, promise)| promise.is_complete)
    }
}

impl Hash for Candidate {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.from, &self.promises).hash(to);
        for (id, whole) in &self.wanted {
            (id, whole.is_some()).hash(to);
        }
    }
}

/// What has come of a promise.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// The member's first slot not delivered.
    pub(super) next: Slot,
    /// The first slot the member has not told about.
    pub(super) covered: Slot,
    /// The member has told about every slot.
    pub(super) is_complete: bool,
    pub(super) votes: Vec<SlotVote>,
}

impl Gathered {
    /// A promise of which nothing has come, for all slots from this one on.
    pub(super) fn untold(from: Slot) -> Gathered {
        Gathered {
            covered: from,
            ..Gathered::default()
        }
    }
}

impl Hash for Gathered {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.next, self.covered, self.is_complete).hash(to);
        for vote in &self.votes {
            let name = vote.value.as_ref().map(|entry| entry.id);
            (vote.slot, vote.ballot, name, vote.fragments).hash(to);
        }
    }
}

/// Phase 2 under way.
#[derive(Clone, Debug)]
pub(super) struct Leader {
    /// The first slot not proposed in.
    pub(super) next: Slot,
    /// Choices from here on were counted by this replica.
    pub(super) since: Slot,
    /// Every slot that an earlier leader may have decided is before this one.
    pub(super) recovered: Slot,
    /// Peers were told that every slot before this one is decided.
    pub(super) announced: Slot,
    /// Entries waiting for a slot.
    pub(super) pending: VecDeque<PendingEntry>,
    /// Large values on their way to enough members.
    pub(super) spreading: Vec<Spreading>,
    /// Values to propose again once their payloads are here.
    pub(super) gathering: BTreeMap<Slot, Gathering>,
    /// A slot was chosen since the last election timer.
    pub(super) is_effective: bool,
    /// Election timers that came due since a slot was chosen.
    pub(super) timeouts: u32,
}

impl Hash for Leader {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.next, self.since, self.recovered, self.announced).hash(to);
        (
            self.is_effective,
            self.timeouts,
            &self.gathering,
            &self.spreading,
        )
            .hash(to);
        let pending = self.pending.iter();
        pending.for_each(|one| (one.entry.id, one.spread_code).hash(to));
    }
}

/// An entry that waits for a slot.
#[derive(Clone, Debug)]
pub(super) struct PendingEntry {
    pub(super) entry: Entry,
    /// The code under which fragments went ahead of the slot, if any did.
    pub(super) spread_code: Option<u8>,
}

/// A value of an earlier leader whose payloads are being gathered.
#[derive(Clone, Debug)]
pub(super) struct Gathering {
    pub(super) recovered: Recovered,
    /// Election timers that came due while the payloads are gathered.
    pub(super) timeouts: u32,
}

/// A slot that an earlier leader may have decided, and what is proposed there again.
#[derive(Clone, Debug)]
pub(super) struct Recovered {
    pub(super) slot: Slot,
    pub(super) value: Option<Entry>,
    /// The code under which the value can be rebuilt.
    pub(super) code: u8,
    /// What members said they hold of the value.
    pub(super) holders: Vec<(MemberIndex, Fragments)>,
}

impl Recovered {
    /// Members that hold the value under a code.
    pub(super) fn holders_of(&self, code: u8) -> MemberSet {
        let holders = self.holders.iter().filter(|(_, held)| held.has(code));
        holders.map(|(member, _)| *member).collect()
    }
}

impl Hash for Gathering {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let name = self.recovered.value.as_ref().map(|entry| entry.id);
        (
            name,
            self.recovered.code,
            &self.recovered.holders,
            self.timeouts,
        )
            .hash(to);
    }
}
