//! What a replica knows of one instance, and what it does about it.

use super::footprint::{Footprint, stand_in};
use super::messages::{Kept, Said, Shown};
use crate::shared::ballot::Ballot;
use quorate_core::{Entry, EntryId, MemberIndex, MemberSet, Slot, Touches};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// What goes before an entry: these, and all that is delivered in slots before one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Deps {
    /// The instances that go before it, by name.
    pub ids: BTreeSet<EntryId>,
    /// The slot. What is before it is delivered by more members than may fail, durably, or was when it was written
    /// here; so none of it is ever recovered any more.
    pub after: Slot,
}

impl Deps {
    /// Adds what is in others.
    pub(super) fn join(&mut self, other: &Deps) {
        self.ids.extend(other.ids.iter().copied());
        self.after = self.after.max(other.after);
    }
}

/// How far an instance is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Phase {
    /// There is no value.
    #[default]
    Unknown,
    /// The entry is kept with dependencies that the coordinator was told of.
    PreAccepted,
    /// A value was accepted at a ballot.
    Accepted,
    /// The value is decided.
    Committed,
}

/// One instance that is not delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Instance {
    /// The entry, if it is here.
    pub(super) entry: Option<Entry>,
    /// What the entry touches.
    pub(super) footprint: Option<Footprint>,
    pub(super) phase: Phase,
    /// The ballot joined (`bal`).
    pub(super) ballot: Ballot,
    /// The ballot at which the value was accepted (`abal`).
    pub(super) accepted: Ballot,
    /// Whether the value is void.
    pub(super) is_void: bool,
    /// The dependencies of the value (`D`).
    pub(super) deps: Deps,
    /// The initial dependencies (`D0`), if the entry is here as an initial value.
    pub(super) initial: Option<Deps>,
    /// The fast quorum that the coordinator named, if it is known; nobody where entries are not held.
    pub(super) quorum: MemberSet,
    /// Members that were not asked to keep the entry (`thrifty`).
    pub(super) unasked: MemberSet,
    /// This replica formed the entry, and has not committed it.
    pub(super) is_coordinating: bool,
    /// What this replica does to have it committed.
    pub(super) lead: Lead,
    /// The ballot at which this replica recovers it, or did.
    pub(super) leads_at: Ballot,
    /// Something was heard of it since the recovery timer was armed.
    pub(super) is_fresh: bool,
    /// How long nothing was heard of it, in ns.
    pub(super) silent_ns: u64,
    /// The most members that had kept the entry as it came, of those who recover it and wait for others.
    pub(super) waiting: u64,
    /// The instances that all values of it go behind with which somebody recovers it and waits, if anybody does.
    pub(super) waits_behind: Option<BTreeSet<EntryId>>,
    /// Whether it is committed on the fast path here, which is not durable: nobody may know.
    pub(super) is_unsettled: bool,
    /// This replica committed it by its own count: whether on the fast path.
    pub(super) counted: Option<bool>,
    /// Records written of it.
    pub(super) version: u64,
    /// Whether the last record has the entry itself.
    pub(super) is_written: bool,
    /// Whether a record has something that stands in for it.
    pub(super) has_stand_in: bool,
}

/// What a replica does to have an instance committed.
#[derive(Clone, Hash, Debug, Default)]
pub(super) enum Lead {
    /// Nothing is asked here.
    #[default]
    None,
    /// Members are asked to keep the entry, by its coordinator.
    PreAccepting(PreAccepting),
    /// Members are asked to accept a value.
    Accepting(Accepting),
    /// Members are asked what they know.
    Recovering(BTreeMap<MemberIndex, Known>),
    /// Members are asked whether it can have been committed on the fast path; or it waits for what contradicts.
    Validating(Validating),
}

/// The coordinator's count of who keeps an entry.
#[derive(Clone, Hash, Debug, Default)]
pub(super) struct PreAccepting {
    /// By member that has answered: what the entry goes behind there.
    pub(super) answers: BTreeMap<MemberIndex, Deps>,
    /// Answers that the fast path lacks were waited for.
    pub(super) has_waited: bool,
}

impl PreAccepting {
    /// Who has answered.
    pub(super) fn heard(&self) -> MemberSet {
        self.answers.keys().copied().collect()
    }

    /// Who keeps the entry behind these.
    pub(super) fn equal(&self, deps: &Deps) -> MemberSet {
        let equal = self.answers.iter().filter(|(_, said)| *said == deps);
        equal.map(|(member, _)| *member).collect()
    }

    /// All that the entry goes behind somewhere.
    pub(super) fn union(&self) -> Deps {
        let mut all = Deps::default();
        self.answers.values().for_each(|deps| all.join(deps));
        all
    }
}

/// A count of who has accepted a value.
#[derive(Clone, Hash, Debug)]
pub(super) struct Accepting {
    pub(super) ballot: Ballot,
    pub(super) accepted_by: MemberSet,
}

/// What a member has shown of an instance.
#[derive(Clone, Debug)]
pub(super) struct Known(pub(super) Shown);

impl Hash for Known {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let shown = &self.0;
        (shown.ballot, shown.accepted, shown.phase, shown.is_void).hash(to);
        (&shown.deps, &shown.initial, shown.quorum).hash(to);
        shown.is_coordinating.hash(to);
    }
}

/// A value that may have been committed on the fast path.
#[derive(Clone, Hash, Debug)]
pub(super) struct Validating {
    /// Who joined the ballot, and what they know: they are asked.
    pub(super) answers: BTreeMap<MemberIndex, Known>,
    pub(super) quorum: MemberSet,
    /// Who has answered.
    pub(super) heard: MemberSet,
    /// How many of them keep the entry as it came (`|R|`).
    pub(super) kept_by: usize,
    /// The initial dependencies.
    pub(super) deps: Deps,
    /// All that is delivered in slots before this one may go before it, too.
    pub(super) after: Slot,
    /// The instances that contradict.
    pub(super) conflicts: BTreeSet<EntryId>,
    /// Everybody has answered, and it waits for what contradicts.
    pub(super) is_waiting: bool,
}

impl Instance {
    /// Takes the entry in, if it is not here; says whether it was not.
    pub(super) fn learn(&mut self, entry: Entry, touches: Option<Touches>) -> bool {
        let is_new = self.entry.is_none();
        if is_new {
            self.footprint = Some(Footprint::of(&entry, touches));
            self.entry = Some(entry);
        }
        is_new
    }

    /// Whether it is decided.
    pub(super) fn is_committed(&self) -> bool {
        self.phase == Phase::Committed
    }

    /// Whether it has a place in the order: it is decided, and what is to be delivered is here.
    pub(super) fn is_ready(&self, next: Slot) -> bool {
        let is_here = self.is_void || self.entry.is_some();
        self.is_committed() && !self.is_unsettled && is_here && self.deps.after <= next
    }

    /// Whether it is a root that is ordered.
    pub(super) fn is_root(&self) -> bool {
        !self.is_void && self.footprint.as_ref().is_some_and(Footprint::is_root)
    }

    /// What is written of it now.
    pub(super) fn keep(&mut self, id: EntryId) -> Kept {
        self.version += 1;
        self.is_written = self.entry.is_some();
        self.has_stand_in |= !self.is_written;
        Kept {
            id,
            version: self.version,
            entry: self.entry.clone().unwrap_or_else(|| stand_in(id)),
            phase: self.phase,
            ballot: self.ballot,
            accepted: self.accepted,
            is_void: self.is_void,
            deps: self.deps.clone(),
            initial: self.initial.clone(),
            quorum: self.quorum,
        }
    }

    /// What was written of it.
    pub(super) fn restored(kept: Kept, touches: Option<Touches>) -> Instance {
        let mut instance = Instance {
            phase: kept.phase,
            ballot: kept.ballot,
            accepted: kept.accepted,
            is_void: kept.is_void,
            deps: kept.deps,
            initial: kept.initial,
            quorum: kept.quorum,
            version: kept.version,
            ..Instance::default()
        };
        instance.is_written = kept.entry.id == kept.id;
        match instance.is_written {
            true => drop(instance.learn(kept.entry, touches)),
            false => instance.has_stand_in = true,
        }
        instance
    }

    /// What is told of it to who recovers it.
    pub(super) fn show(&self, id: EntryId) -> Shown {
        Shown {
            id,
            ballot: self.ballot,
            accepted: self.accepted,
            phase: self.phase,
            is_void: self.is_void,
            entry: self.entry.clone(),
            deps: self.deps.clone(),
            initial: self.initial.clone(),
            quorum: self.quorum,
            is_coordinating: self.is_coordinating,
        }
    }
}

impl Hash for Instance {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.entry.is_some(), self.phase, self.ballot, self.accepted).hash(to);
        (self.is_void, &self.deps, &self.initial).hash(to);
        (self.quorum, self.unasked, &self.waits_behind).hash(to);
        (
            self.is_coordinating,
            &self.lead,
            self.leads_at,
            self.is_fresh,
        )
            .hash(to);
        (
            self.waiting,
            self.is_unsettled,
            self.counted,
            self.is_written,
        )
            .hash(to);
    }
}

/// What this replica says to itself once its records are durable, as others hear it then.
#[derive(Clone, Debug)]
pub(super) struct ToSelf(pub(super) Said);

impl Hash for ToSelf {
    fn hash<H: Hasher>(&self, to: &mut H) {
        format!("{:?}", self.0).hash(to);
    }
}
