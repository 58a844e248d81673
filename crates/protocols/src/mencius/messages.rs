//! What replicas say, what they write down, and what they wait for.

use super::lanes::Span;
use crate::shared::ballot::Ballot;
use crate::shared::question::QuestionName;
use crate::shared::words::carried_whole;
use quorate_core::{Entry, EntryId, MemberIndex, Slot};

/// The own slots that a replica skipped since it started: those from `from` on, before `below`, that are not in
/// `except`. In none of them it ever suggests anything, nor has before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skips {
    /// The first slot that is spoken of.
    pub from: Slot,
    /// The first own slot that may still be used.
    pub below: Slot,
    /// Own slots before `below` in which something was suggested, ascending.
    pub except: Vec<Slot>,
}

/// What most messages say besides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The slots that the sender skipped in its own lane.
    pub skips: Skips,
    /// The sender's first slot not delivered.
    pub delivered: Slot,
}

/// What is decided.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Learned {
    /// Slots that hold an entry, and its name.
    pub values: Vec<(Slot, EntryId)>,
    /// Slots that hold none.
    pub noops: Vec<Span>,
}

impl Learned {
    /// Whether nothing is told.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.noops.is_empty()
    }
}

/// What an acceptor has in a slot, or what one has in several alike.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    /// The slots; one, if there is an entry.
    pub span: Span,
    /// The ballot at which the value was accepted; `None` if it is decided.
    pub ballot: Option<Ballot>,
    /// The entry; `None` is a no-op.
    pub value: Option<Entry>,
}

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// A value for one slot, from the leader of its lane: the owner's at ballot 0, or what a phase 1 showed.
    /// Promises nothing.
    Suggest {
        /// The slot that it is for.
        slot: Slot,
        /// The ballot; the first one is the owner's, without a phase 1.
        ballot: Ballot,
        /// The entry that is suggested.
        entry: Entry,
        /// What the sender has counted meanwhile.
        learned: Learned,
        /// What the sender says besides.
        header: Header,
    },
    /// No-ops for slots of a lane that the sender took over. Promises nothing.
    Noops {
        /// The slots that are filled.
        span: Span,
        /// The ballot of the sender.
        ballot: Ballot,
        /// What the sender says besides.
        header: Header,
    },
    /// The sender has accepted values at a ballot, durably.
    Accept {
        /// The ballot at which they were accepted.
        ballot: Ballot,
        /// The slots, all of one lane.
        spans: Vec<Span>,
        /// What the sender says besides.
        header: Header,
    },
    /// What the sender skipped, and how far it has delivered.
    Skip {
        /// What was skipped, and what is delivered.
        header: Header,
    },
    /// What the sender knows to be decided.
    Learn {
        /// The slots and their values.
        learned: Learned,
        /// What the sender says besides.
        header: Header,
    },
    /// A decided entry, for who may not have it.
    Decided {
        /// The slot that holds it.
        slot: Slot,
        /// The entry that it holds.
        entry: Entry,
    },
    /// The sender takes over a lane (phase 1), from a slot on and for ever.
    Prepare {
        /// The owner of the lane.
        lane: MemberIndex,
        /// The sender's ballot.
        ballot: Ballot,
        /// The first slot.
        from: Slot,
    },
    /// The sender accepts nothing of a lower ballot in the lane any more, durably.
    Promise {
        /// The owner of the lane.
        lane: MemberIndex,
        /// The ballot that was promised.
        ballot: Ballot,
        /// What the sender has in the lane.
        shown: Vec<Shown>,
        /// The sender's first slot not delivered: it shows nothing before, for that is decided.
        delivered: Slot,
    },
    /// The sender has promised more than the ballot that somebody still uses.
    Nack {
        /// The owner of the lane.
        lane: MemberIndex,
        /// The ballot that was promised.
        promised: Ballot,
        /// The sender's first slot not delivered.
        delivered: Slot,
    },
    /// "I wait for the slots before one: what do you know of them?" Promises nothing.
    Ask {
        /// The sender's first slot not delivered.
        next: Slot,
        /// The sender waits for every slot before this one.
        until: Slot,
    },
    /// "Behind which slot is all that you have accepted?", for reads. Promises nothing.
    ReadQ(QuestionName),
    /// The answer to a query of a reader.
    ReadA {
        /// The query that is answered.
        query: QuestionName,
        /// The first slot behind every entry that the sender accepted or knows to be decided.
        mark: Slot,
    },
}

impl Message {
    /// Whether its sender takes part: one that lost its promises asks, and that is all.
    pub(super) fn is_work(&self) -> bool {
        !matches!(self, Message::Ask { .. } | Message::ReadQ(_))
    }
}

/// What must survive a crash before a message that rests on it leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// An entry was accepted in a slot. Of several records about a slot that of the highest ballot counts.
    Accept {
        /// The slot it was accepted in.
        slot: Slot,
        /// The ballot at which it was accepted.
        ballot: Ballot,
        /// The entry that was accepted.
        entry: Entry,
    },
    /// No-ops were accepted.
    Noops {
        /// The slots they were accepted in.
        span: Span,
        /// The ballot at which they were accepted.
        ballot: Ballot,
    },
    /// Nothing of a lower ballot is accepted in a lane any more. The highest counts. A replica's own ballots are
    /// promised by itself before it asks for promises, so that it never uses one twice.
    Promise {
        /// The owner of the lane.
        lane: MemberIndex,
        /// The ballot that is promised.
        ballot: Ballot,
    },
    /// Own slots before this one may be suggested in, or skipped, until the next start. The highest counts.
    Reserve {
        /// The first slot that may not.
        until: Slot,
    },
    /// Promises were lost: nothing of what earlier starts wrote counts, and no later start takes part.
    Lost,
}

carried_whole!(Message, Record);

impl quorate_core::Record for Record {
    fn slot(&self) -> Option<Slot> {
        match self {
            Record::Accept { slot, .. } => Some(*slot),
            Record::Noops { span, .. } => Some(span.last),
            Record::Promise { .. } | Record::Reserve { .. } | Record::Lost => None,
        }
    }

    fn scalar(&self) -> Option<u8> {
        match self {
            Record::Reserve { .. } => Some(0),
            Record::Lost => Some(1),
            Record::Promise { lane, .. } => Some(2 + lane.position() as u8),
            Record::Accept { .. } | Record::Noops { .. } => None,
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Record::Accept { entry, .. } => Some(entry),
            _ => None,
        }
    }
}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// Something said here went unanswered for a while.
    Retransmit,
    /// A lane that this replica waits for was silent for long.
    Suspect,
    /// Slots that this replica skipped may not be known to all.
    Skip,
    /// Slots decided elsewhere have not become known here for a while.
    CatchUp,
    /// Requests have waited as long as they should.
    Patience,
}

impl Record {
    /// Whether this is a promise.
    pub(super) fn is_promise(&self) -> bool {
        matches!(self, Record::Promise { .. })
    }

    /// Whether this is about something accepted.
    pub(super) fn is_accept(&self) -> bool {
        matches!(self, Record::Accept { .. } | Record::Noops { .. })
    }
}
