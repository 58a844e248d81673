//! What replicas say, what they write down, and what they wait for.

use crate::shared::ballot::Ballot;
use crate::shared::question::QuestionName;
use crate::shared::words::carried_whole;
use quorate_core::{Entry, EntryId, Slot};
use std::hash::{Hash, Hasher};

/// What a replica voted for in a slot, last.
#[derive(Clone, PartialEq, Debug)]
pub struct Vote {
    /// The ballot it voted in.
    pub ballot: Ballot,
    /// Whether the leader of the ballot asked for this value by itself; otherwise the replica gave an entry that it
    /// heard of the next free slot, in a fast round.
    pub is_classic: bool,
    /// The entry; `None` is a no-op.
    pub value: Option<Entry>,
}

impl Vote {
    /// The name of the entry; `None` is a no-op.
    pub(super) fn name(&self) -> Option<EntryId> {
        self.value.as_ref().map(|entry| entry.id)
    }

    /// What orders the votes of one replica in a slot: a later one has replaced an earlier one.
    pub(super) fn rank(&self) -> (Ballot, bool) {
        (self.ballot, self.is_classic)
    }
}

impl Hash for Vote {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.rank(), self.name()).hash(to);
    }
}

/// A vote that a promise shows.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Shown {
    /// The slot of the vote.
    pub slot: Slot,
    /// The last vote in that slot.
    pub vote: Vote,
}

/// "This entry got my vote in this slot, in the fast round", to the leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastVote {
    /// The ballot of the fast round.
    pub ballot: Ballot,
    /// The slot of the vote.
    pub slot: Slot,
    /// The name of the entry.
    pub entry: EntryId,
}

/// The leader's own value for a slot: votes of fast rounds were not equal, or an earlier leader may have chosen it.
#[derive(Clone, PartialEq, Debug)]
pub struct Accept {
    /// The ballot of the leader.
    pub ballot: Ballot,
    /// The slot that the value is for.
    pub slot: Slot,
    /// The entry; `None` is a no-op.
    pub value: Option<Entry>,
}

/// The leader's fast round is open (the paper's Any message), and what is decided.
#[derive(Clone, PartialEq, Debug)]
pub struct Commit {
    /// The ballot of the leader.
    pub ballot: Ballot,
    /// Everybody may vote in slots from this one on.
    pub any: Slot,
    /// The slot of the first name.
    pub first: Slot,
    /// The names of decided entries, slot by slot; `None` is a no-op.
    pub names: Vec<Option<EntryId>>,
}

/// The sender votes in no lower ballot any more, durably.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Promise {
    /// The ballot of the candidate.
    pub ballot: Ballot,
    /// The sender's first slot not delivered: it shows nothing before, for that is decided.
    pub delivered: Slot,
    /// The sender's votes.
    pub shown: Vec<Shown>,
}

/// What a member knows of leaders, for a reader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Known {
    /// What the sender has promised.
    pub ballot: Ballot,
    /// If the sender leads by it: the first slot behind all that may hold a completed write.
    pub mark: Option<Slot>,
}

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// An entry of a gateway, for everybody to give it a slot; or for the leader, from a member that heard of it.
    /// Promises nothing.
    Propose(Entry),
    /// A vote in a fast round.
    FastVote(FastVote),
    /// A leader's own value. Promises nothing.
    Accept(Accept),
    /// The sender has accepted the leader's value, durably: the ballot of the leader, and the slot.
    Accepted(Ballot, Slot),
    /// A fast round is open, and slots are decided. Promises nothing.
    Commit(Commit),
    /// The sender wants to lead (phase 1): its ballot, and its first slot not delivered.
    Prepare(Ballot, Slot),
    /// A promise of a ballot.
    Promise(Promise),
    /// The sender has promised this ballot, which is more than what somebody still uses.
    Nack(Ballot),
    /// "Something waits here: who leads, and what have I missed?": the sender's first slot not delivered.
    Ask(Slot),
    /// "Who leads, and what is decided?", for reads. Promises nothing.
    ReadQ(QuestionName),
    /// The answer to a query of a reader.
    ReadA(QuestionName, Known),
}

/// What must survive a crash before a message that rests on it leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// A vote. Of several records about a slot that of the highest ballot counts, and of those the classic one.
    Vote(Shown),
    /// Nothing of a lower ballot gets a vote any more. The highest counts. A replica's own ballots are promised by
    /// itself before it asks for promises, so that it never uses one twice.
    Promise(Ballot),
    /// Promises were lost: nothing of what earlier starts wrote counts, and no later start takes part.
    Lost,
}

carried_whole!(Message, Record);

impl quorate_core::Record for Record {
    fn slot(&self) -> Option<Slot> {
        self.vote().map(|shown| shown.slot)
    }

    fn scalar(&self) -> Option<u8> {
        match self {
            Record::Promise(_) => Some(0),
            Record::Lost => Some(1),
            Record::Vote(_) => None,
        }
    }

    fn entry(&self) -> Option<&Entry> {
        self.vote().and_then(|shown| shown.vote.value.as_ref())
    }
}

impl Record {
    fn vote(&self) -> Option<&Shown> {
        match self {
            Record::Vote(shown) => Some(shown),
            _ => None,
        }
    }

    /// Whether this is a vote of a fast round.
    pub(super) fn is_fast_vote(&self) -> bool {
        self.vote().is_some_and(|shown| !shown.vote.is_classic)
    }

    /// Whether this is a vote for a leader's own value.
    pub(super) fn is_accept(&self) -> bool {
        self.vote().is_some_and(|shown| shown.vote.is_classic)
    }

    /// Whether this is a promise.
    pub(super) fn is_promise(&self) -> bool {
        matches!(self, Record::Promise(_))
    }
}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// Something said here went unanswered for a while.
    Retransmit,
    /// The leader was silent for long, or there is none.
    Election,
    /// Votes of the fast round are not equal, or have not come, for a while.
    Collide,
    /// Slots decided elsewhere have not become known here for a while.
    CatchUp,
    /// Requests have waited as long as they should.
    Patience,
}
