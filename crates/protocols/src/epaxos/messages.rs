//! What replicas say, what they write down, and what they wait for.

use super::state::{Deps, Phase};
use crate::shared::ballot::Ballot;
use crate::shared::lags::Probe;
use crate::shared::question::QuestionName;
use crate::shared::words::carried_whole;
use quorate_core::{Entry, EntryId, MemberSet, Slot};

/// What one replica says to others.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// How far the sender has come.
    pub header: Header,
    /// The word itself.
    pub said: Said,
}

/// How far the sender of a message has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Header {
    /// The sender's first slot not delivered.
    pub delivered: Slot,
    /// Every slot before this one is delivered there, durably.
    pub durable: Slot,
}

/// A new entry, from the replica that formed it: its coordinator.
#[derive(Clone, PartialEq, Debug)]
pub struct PreAccept {
    /// The entry, whose name is that of the instance.
    pub entry: Entry,
    /// The initial dependencies: what the coordinator knows that the entry conflicts with. Where entries are held, no
    /// more than what members add to: each has initial dependencies of its own.
    pub deps: Deps,
    /// Where entries are held: the fast quorum, its coordinator among them. Nobody otherwise.
    pub quorum: MemberSet,
    /// The time at which members keep the entry, in ns since the Unix epoch; at once, for 0.
    pub keep_at_ns: u64,
    /// When this left, as the clock of the coordinator showed, in ns since the Unix epoch; 0 if that is of no use.
    pub sent_ns: u64,
}

impl PreAccept {
    /// What is kept as soon as it arrives.
    pub(super) fn at_once(entry: Entry, deps: Deps, quorum: MemberSet) -> PreAccept {
        PreAccept {
            entry,
            deps,
            quorum,
            keep_at_ns: 0,
            sent_ns: 0,
        }
    }
}

/// A value at a ballot.
#[derive(Clone, PartialEq, Debug)]
pub struct Accept {
    /// The name of the instance, which is that of its entry.
    pub id: EntryId,
    /// The ballot; that of the coordinator is before all others.
    pub ballot: Ballot,
    /// The entry; `None` is void.
    pub value: Option<Entry>,
    /// What goes before it.
    pub deps: Deps,
}

/// What was decided of an instance.
#[derive(Clone, PartialEq, Debug)]
pub struct Commit {
    /// The name of the instance, which is that of its entry.
    pub id: EntryId,
    /// Whether the entry is not ordered by this instance.
    pub is_void: bool,
    /// The entry, for who may not have it.
    pub entry: Option<Entry>,
    /// What goes before it.
    pub deps: Deps,
}

/// What a member knows of an instance, told to who recovers it.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    /// The name of the instance, which is that of its entry.
    pub id: EntryId,
    /// The ballot that the sender joined.
    pub ballot: Ballot,
    /// The ballot at which it accepted a value, if it did.
    pub accepted: Ballot,
    /// How far the instance is there.
    pub phase: Phase,
    /// Whether the value is void.
    pub is_void: bool,
    /// The entry, if it is there.
    pub entry: Option<Entry>,
    /// The dependencies of the value.
    pub deps: Deps,
    /// The initial dependencies, if there are any.
    pub initial: Option<Deps>,
    /// The fast quorum that the coordinator named, if the sender knows it.
    pub quorum: MemberSet,
    /// The sender formed the entry since it started, and has not committed it: nor will it at its own ballot.
    pub is_coordinating: bool,
}

/// A value that may have been committed on the fast path.
#[derive(Clone, PartialEq, Debug)]
pub struct Validate {
    /// The ballot of who recovers the instance.
    pub ballot: Ballot,
    /// The entry, whose name is that of the instance.
    pub entry: Entry,
    /// The initial dependencies.
    pub deps: Deps,
}

/// Something that contradicts a fast commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// Another instance, with neither before the other.
    pub id: EntryId,
    /// Whether that one is committed.
    pub is_committed: bool,
}

/// What contradicts that an instance was committed on the fast path.
#[derive(Clone, PartialEq, Debug)]
pub struct Validated {
    /// The name of the instance, which is that of its entry.
    pub id: EntryId,
    /// The ballot of who recovers it.
    pub ballot: Ballot,
    /// The instances that contradict.
    pub conflicts: Vec<Conflict>,
    /// All that is delivered in slots before this one may go before it.
    pub after: Slot,
}

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// A new entry. Promises nothing.
    PreAccept(PreAccept),
    /// The sender keeps an entry behind these, durably; how long its messages take.
    PreAcceptA(EntryId, Deps, Probe),
    /// A value at a ballot. Promises nothing.
    Accept(Accept),
    /// The sender has accepted the value of a ballot, durably.
    AcceptA(EntryId, Ballot),
    /// What is decided.
    Commit(Commit),
    /// The sender finishes an instance at a ballot of its own. Promises nothing.
    Recover(EntryId, Ballot),
    /// The sender joined a ballot, durably, and knows this of the instance.
    RecoverA(Shown),
    /// The sender has joined a higher ballot.
    Nack(EntryId, Ballot),
    /// "Can this have been committed on the fast path?"
    Validate(Validate),
    /// The sender takes the value for the initial one, durably, and knows of these conflicts.
    ValidateA(Validated),
    /// Recovering the instance, the sender waits for others; so many members had kept the entry as it came, behind
    /// these.
    Waiting(EntryId, u64, Deps),
    /// "What is decided of these?"
    Ask(Vec<EntryId>),
    /// How far the sender has come; whether it wants to know that of the receiver, durably.
    Progress(bool),
    /// "Form an entry that reads here can stand behind", from a replica that may form none. Promises nothing.
    ReadQ(QuestionName),
    /// The entry of a question is delivered in this slot.
    ReadA(QuestionName, Slot),
}

/// What is kept of an instance: all that is known of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// The name of the instance, which is that of its entry.
    pub id: EntryId,
    /// Counts the records of the instance: the highest counts, in whatever order they are found.
    pub version: u64,
    /// The entry; one of another name stands in for it if it is not here.
    pub entry: Entry,
    /// How far the instance is.
    pub phase: Phase,
    /// The ballot joined.
    pub ballot: Ballot,
    /// The ballot at which the value was accepted.
    pub accepted: Ballot,
    /// Whether the value is void.
    pub is_void: bool,
    /// The dependencies of the value.
    pub deps: Deps,
    /// The initial dependencies, if there are any.
    pub initial: Option<Deps>,
    /// The fast quorum that the coordinator named, if it is known.
    pub quorum: MemberSet,
}

/// What must survive a crash before a message that rests on it leaves.
#[derive(Clone, PartialEq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every record is an instance"
)]
pub enum Record {
    /// An instance, as it is now.
    Instance(Kept),
    /// Slots before this one are delivered: written so that they are durable.
    Delivered(Slot),
    /// Promises were lost: nothing of what earlier starts wrote counts, and no later start takes part.
    Lost,
}

carried_whole!(Message, Record);

impl quorate_core::Record for Record {
    fn slot(&self) -> Option<Slot> {
        None
    }

    fn scalar(&self) -> Option<u8> {
        match self {
            Record::Instance(_) => None,
            Record::Delivered(_) => Some(0),
            Record::Lost => Some(1),
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Record::Instance(kept) => Some(&kept.entry),
            Record::Delivered(_) | Record::Lost => None,
        }
    }
}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// Something said here went unanswered for a while.
    Retransmit,
    /// Answers that the fast path lacks have not come.
    FastWait,
    /// Entries are to be kept.
    Hold,
    /// Committed entries have no root behind them.
    Mark,
    /// Nothing was heard of an instance for long.
    Recover,
    /// Slots decided elsewhere have not become known here for a while.
    CatchUp,
    /// Requests have waited as long as they should.
    Patience,
}
