//! What replicas say, what they write down, and what they wait for.

use crate::shared::lives::{Life, Lives};
use crate::shared::question::QuestionName;
use crate::shared::rejoin::RejoinAnswer;
use quorate_core::{Carry, Entry, EntryId, MemberIndex, Slot};
use std::hash::{Hash, Hasher};

/// What is in a slot of the log.
#[derive(Clone, PartialEq, Debug)]
pub struct LogEntry {
    /// The term of the leader that gave the slot its entry.
    pub term: u64,
    /// The entry; `None` is a no-op.
    pub entry: Option<Entry>,
}

impl LogEntry {
    /// The name of the entry; `None` for a no-op.
    pub(super) fn name(&self) -> Option<EntryId> {
        self.entry.as_ref().map(|entry| entry.id)
    }
}

impl Hash for LogEntry {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.term, self.name()).hash(to);
    }
}

/// Where a log ends. Of two logs the one with the later end, by term and then by slot, may lead the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogEnd {
    /// The term of the last entry; 0 if it is not known.
    pub term: u64,
    /// The first slot behind the log.
    pub end: Slot,
}

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// An entry for the leader to append, from the replica that formed it or from one it reaches the leader
    /// through. Promises nothing.
    Offer {
        /// The entry that was formed.
        entry: Entry,
    },
    /// "Would you vote for me?" Changes nothing at who hears it.
    PreVote {
        /// The name of the asker's campaign.
        campaign: QuestionName,
        /// The end of the asker's log.
        last: LogEnd,
        /// The asker's first slot not delivered.
        delivered: Slot,
    },
    /// "I would vote for you, for I hear of no leader."
    PreVoteOk {
        /// The name of the asker's campaign.
        campaign: QuestionName,
        /// The sender's term.
        term: u64,
    },
    /// A candidate asks for a vote (RequestVote).
    Vote {
        /// The candidate's term.
        term: u64,
        /// The end of the candidate's log.
        last: LogEnd,
        /// The candidate's first slot not delivered.
        delivered: Slot,
    },
    /// A vote for a candidate.
    Voted {
        /// The candidate's term.
        term: u64,
        /// The lives the sender knows of.
        lives: Lives,
    },
    /// A leader's entries, or news of what is committed (AppendEntries). Promises nothing.
    Append(Append),
    /// The sender's log is the leader's before this slot, on its disk.
    Appended {
        /// The leader's term.
        term: u64,
        /// The first slot behind what is equal.
        upto: Slot,
        /// The lives the sender knows of.
        lives: Lives,
    },
    /// The sender's log is not the leader's before a slot. Promises nothing.
    Behind(Behind),
    /// The sender's term is later than one that somebody still uses.
    Newer {
        /// The sender's term.
        term: u64,
    },
    /// "I hear of a leader, and know this much to be committed." Promises nothing.
    Led {
        /// Every slot before this one is decided.
        upto: Slot,
    },
    /// "Something waits here: who leads, and what have I missed?"
    Ask {
        /// The sender's first slot not delivered.
        next: Slot,
        /// The sender waits for the end of every slot before this one.
        until: Slot,
    },
    /// "Who leads, and how far does its log go?", for reads. Promises nothing.
    ReadQ(QuestionName),
    /// The answer to a query of a reader.
    ReadA {
        /// The query that is answered.
        query: QuestionName,
        /// The sender's term.
        term: u64,
        /// If the sender leads that term: the first slot behind all that may hold a completed write.
        mark: Option<Slot>,
    },
    /// "I lost my promises, and begin this life: how far have you gone?"
    Rejoin {
        /// The life that begins.
        life: Life,
        /// The sender's first slot not delivered.
        next: Slot,
    },
    /// How far the sender has gone, for a member that begins a life: the floor is its term.
    RejoinA(RejoinAnswer<u64>),
}

/// A leader's entries.
#[derive(Clone, PartialEq, Debug)]
pub struct Append {
    /// The leader's term.
    pub term: u64,
    /// The slot of the first entry.
    pub from: Slot,
    /// The term of the slot before the first entry in the leader's log; `None` if that slot is decided and
    /// the leader does not know.
    pub term_before: Option<u64>,
    /// The entries, slot by slot; none for news of what is committed.
    pub entries: Vec<LogEntry>,
    /// Every slot before this one is committed.
    pub commit: Slot,
}

/// Where a follower's log is not the leader's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Behind {
    /// The leader's term.
    pub term: u64,
    /// The slot of the first entry in the message that did not fit.
    pub rejected: Slot,
    /// The slot from which entries may fit.
    pub hint: Slot,
    /// The sender's first slot not delivered.
    pub delivered: Slot,
}

/// What must survive a crash before a message that rests on it leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// The term, and who got this replica's vote in it.
    Vote {
        /// The term in which a vote counts.
        term: u64,
        /// Who got the vote; `None` if nobody did yet.
        voted_for: Option<MemberIndex>,
    },
    /// An entry of the log. Of several in one slot that of the latest `at` counts.
    Append {
        /// The slot of the entry.
        slot: Slot,
        /// The term of the leader under which it was written.
        at: u64,
        /// What was written in the slot.
        entry: LogEntry,
    },
    /// The log was cut: what is in this slot and behind it, and was written under a leader of an earlier
    /// term, is void. The last cut is enough: a later one behind it was made where entries had been
    /// written anew.
    Cut {
        /// The first slot cut off.
        from: Slot,
        /// The term of the leader that had it cut.
        at: u64,
    },
    /// The lives of members, as far as known.
    Lives {
        /// The lives of all members.
        lives: Lives,
        /// Whether this replica has not lost its promises, or has begun a new life since. If not, it appends
        /// nothing and votes for nobody.
        is_member: bool,
    },
}

/// Entries travel whole: there are no payloads beside them.
impl Carry for Message {}

/// Entries are written whole: there are no payloads beside them.
impl Carry for Record {}

impl quorate_core::Record for Record {
    fn slot(&self) -> Option<Slot> {
        match self {
            Record::Append { slot, .. } => Some(*slot),
            Record::Vote { .. } | Record::Cut { .. } | Record::Lives { .. } => None,
        }
    }

    fn scalar(&self) -> Option<u8> {
        match self {
            Record::Vote { .. } => Some(0),
            Record::Lives { .. } => Some(1),
            Record::Cut { .. } => Some(2),
            Record::Append { .. } => None,
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Record::Append { entry, .. } => entry.entry.as_ref(),
            _ => None,
        }
    }
}

impl Record {
    /// Whether this is about a vote.
    pub(super) fn is_vote(&self) -> bool {
        matches!(self, Record::Vote { .. })
    }

    /// Whether this is an entry of the log.
    pub(super) fn is_append(&self) -> bool {
        matches!(self, Record::Append { .. })
    }
}
