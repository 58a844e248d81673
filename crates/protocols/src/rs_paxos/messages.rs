//! What replicas say, what they write down, and what they wait for.

use super::fragments::Fragments;
use crate::shared::ballot::Ballot;
use crate::shared::lives::{Life, Lives};
use crate::shared::rejoin::RejoinAnswer;
use quorate_core::{Attachment, Boot, Carry, Entry, EntryId, Slot};

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// An entry for the leader to propose, from the replica that formed it or from one it reaches
    /// the leader through; its payloads go along whole. Promises nothing.
    Forward {
        /// The entry, with its payloads.
        entry: Entry,
    },
    /// "Would you follow me?" Changes nothing at who hears it.
    PreVote {
        /// The asker's start of the process, so that answers to its former lives are no answers.
        boot: Boot,
        /// Counts the asker's campaigns.
        campaign: u64,
        /// The asker's first slot not delivered.
        next: Slot,
    },
    /// "I would follow you, for I hear of no leader."
    PreVoteOk {
        /// The asker's start of the process.
        boot: Boot,
        /// The number of the asker's campaign.
        campaign: u64,
        /// The highest ballot the sender has promised.
        promised: Ballot,
    },
    /// Phase 1(a), for every slot from one on.
    Prepare {
        /// The ballot of the candidate.
        ballot: Ballot,
        /// The candidate's first slot not delivered.
        from: Slot,
    },
    /// Phase 1(b), or a part of it.
    Promise(Promise),
    /// A higher ballot was promised than the one that somebody still uses.
    Nack {
        /// The ballot that is over.
        ballot: Ballot,
        /// The higher ballot that was promised.
        promised: Ballot,
    },
    /// Phase 2(a). Promises nothing.
    Accept(Accept),
    /// Phase 2(b): the value of this ballot is on the sender's disk, with its fragment under this
    /// code.
    Accepted {
        /// The leader's ballot.
        ballot: Ballot,
        /// The slot of the value.
        slot: Slot,
        /// `X`: any so many fragments rebuild the value.
        code: u8,
        /// The lives the sender knows of.
        lives: Lives,
    },
    /// The sender was asked to accept a value of which it has no fragment under this code.
    Lacks {
        /// The leader's ballot.
        ballot: Ballot,
        /// The slot of the value.
        slot: Slot,
        /// `X`: any so many fragments rebuild the value.
        code: u8,
    },
    /// A large value ahead of its slot, with the receiver's fragment or to ask whether it is there.
    /// Promises nothing.
    Spread {
        /// The entry that holds the value.
        entry: Entry,
        /// `X`: any so many fragments rebuild its payloads.
        code: u8,
        /// Whether the receiver's fragment goes along.
        is_attached: bool,
    },
    /// Whether the sender has a fragment of a value that is spread. Promises nothing: the fragment may be
    /// forgotten again.
    Has {
        /// The name of the entry.
        entry: EntryId,
        /// `X`: any so many fragments rebuild the payloads.
        code: u8,
        /// Whether the fragment is here.
        is_here: bool,
    },
    /// What is chosen (the paper's commit notice).
    Commit {
        /// The ballot of the leader that counted.
        ballot: Ballot,
        /// The slots in which that leader's own values are chosen.
        claim: Claim,
        /// The names of values chosen in earlier ballots, in the slots that end where the claim
        /// begins: whoever has accepted a value of that name has the chosen one.
        earlier: Vec<Option<EntryId>>,
    },
    /// "Something waits here: who leads, and what have I missed?"
    Ask {
        /// The sender's first slot not delivered.
        next: Slot,
        /// The sender waits for the end of every slot before this one.
        until: Slot,
    },
    /// "Whom do you follow?", for reads. Promises nothing.
    ReadQ {
        /// The asker's start of the process.
        boot: Boot,
        /// Counts the asker's queries.
        number: u64,
        /// The asker leads, and would lead under a lease.
        wants_lease: bool,
    },
    /// "I follow this ballot", for reads.
    ReadA {
        /// The asker's start of the process.
        boot: Boot,
        /// The number of the asker's query.
        number: u64,
        /// The leader that the sender follows.
        answer: Lead,
    },
    /// "I lost my promises, and begin this life: how far have you gone?"
    Rejoin {
        /// The life that begins.
        life: Life,
        /// The sender's first slot not delivered.
        next: Slot,
    },
    /// How far the sender has gone, for a member that begins a life: the floor is the highest ballot that it
    /// has promised.
    RejoinA(RejoinAnswer<Ballot>),
}

/// The leader that a member follows, for reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lead {
    /// The highest ballot the member has promised.
    pub promised: Ballot,
    /// If the member leads that ballot: the first slot behind all that may hold a completed write.
    pub mark: Option<Slot>,
    /// Whether the member leads that ballot under a lease: nobody else need confirm it.
    pub is_leased: bool,
    /// Whether the member grants the asker a lease.
    pub is_granted: bool,
}

/// Phase 2(a) of one slot.
#[derive(Clone, PartialEq, Debug)]
pub struct Accept {
    /// The leader's ballot.
    pub ballot: Ballot,
    /// The slot of the value.
    pub slot: Slot,
    /// The value; `None` is the no-op.
    pub value: Option<Entry>,
    /// `X`: any so many fragments rebuild the value. 1 for one without payloads.
    pub code: u8,
    /// Whether the receiver's fragment goes along. If not, the receiver should have it.
    pub is_attached: bool,
    /// What the leader knows to be chosen.
    pub claim: Claim,
}

/// The slots in which a leader's own values are chosen: those from `since` to before `upto`. A
/// slot before `since` may have been decided without this leader, which does not know for what:
/// an accept of its ballot there proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Claim {
    /// The first slot claimed.
    pub since: Slot,
    /// The first slot behind the slots claimed; every slot before it is decided.
    pub upto: Slot,
}

/// A part of a promise: all that its sender has accepted in a range of slots. The promise counts
/// once the ranges of its parts reach from the candidate's first slot to the end of all slots.
#[derive(Clone, PartialEq, Debug)]
pub struct Promise {
    /// The ballot promised.
    pub ballot: Ballot,
    /// The sender's first slot not delivered: those before are decided, whatever it says of them.
    pub next: Slot,
    /// The first slot of the range.
    pub from: Slot,
    /// The first slot behind the range; `None` for the last part.
    pub until: Option<Slot>,
    /// What was accepted in the range, by slot.
    pub votes: Vec<SlotVote>,
    /// The lives the sender knows of.
    pub lives: Lives,
}

/// What an acceptor has accepted in a slot.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotVote {
    /// The slot voted in.
    pub slot: Slot,
    /// The last ballot the acceptor accepted in.
    pub ballot: Ballot,
    /// The value; `None` is the no-op.
    pub value: Option<Entry>,
    /// What the acceptor holds of the value.
    pub fragments: Fragments,
}

/// What must survive a crash before a message that rests on it leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// No lower ballot is accepted or promised any more.
    Promise {
        /// The ballot that is promised.
        ballot: Ballot,
    },
    /// An own ballot, before it is used: no lower one is accepted or promised any more, and no later life
    /// uses this one again.
    Candidacy {
        /// The own ballot.
        ballot: Ballot,
    },
    /// A value accepted in a slot, with the own fragment of it. If it is the one accepted there
    /// before, the fragments written then remain.
    Accept {
        /// The slot of the value.
        slot: Slot,
        /// The ballot of the accept, promised with it.
        ballot: Ballot,
        /// The value; `None` is the no-op.
        value: Option<Entry>,
        /// `X`: any so many fragments rebuild the value. 1 for one without payloads.
        code: u8,
        /// Whether the fragment is there.
        is_held: bool,
    },
    /// The value accepted there before was accepted again, under a code of which the fragment was
    /// written.
    Again {
        /// The slot of the value.
        slot: Slot,
        /// The ballot of the accept, promised with it.
        ballot: Ballot,
    },
    /// The lives of members, as far as known.
    Lives {
        /// The lives of all members.
        lives: Lives,
        /// Whether this replica has not lost its promises, or has begun a new life since. If not,
        /// it accepts nothing and promises nothing.
        is_member: bool,
    },
}

impl Accept {
    /// Whether the receiver's fragment came along, if there is any.
    pub(super) fn is_here(&self) -> bool {
        let share = self.value.as_ref().and_then(|entry| entry.share());
        let is_with_it = share.is_some_and(|share| share.code == self.code);
        !has_bulk(self.value.as_ref()) || self.is_attached && is_with_it
    }
}

/// Whether a value has payloads, of which fragments are kept.
pub(super) fn has_bulk(value: Option<&Entry>) -> bool {
    value.is_some_and(|entry| entry.bulk_len() > 0)
}

impl Carry for Message {
    fn attachment(&self) -> Option<Attachment<'_>> {
        let (entry, code) = match self {
            Message::Forward { entry } => (entry, 1),
            Message::Spread {
                entry,
                code,
                is_attached: true,
            } => (entry, *code),
            Message::Accept(accept) if accept.is_attached => (accept.value.as_ref()?, accept.code),
            _ => return None,
        };
        (entry.bulk_len() > 0).then_some(Attachment { entry, code })
    }

    /// What is forwarded is to be proposed, under a code that the leader chooses.
    fn is_to_keep(&self) -> bool {
        !matches!(self, Message::Forward { .. }) && self.attachment().is_some()
    }

    fn entry_mut(&mut self) -> Option<&mut Entry> {
        let entry = match self {
            Message::Forward { entry } => Some(entry),
            Message::Spread {
                entry,
                is_attached: true,
                ..
            } => Some(entry),
            Message::Accept(accept) if accept.is_attached => accept.value.as_mut(),
            _ => None,
        };
        entry.filter(|entry| entry.bulk_len() > 0)
    }
}

impl Carry for Record {
    fn attachment(&self) -> Option<Attachment<'_>> {
        match self {
            Record::Accept {
                value: Some(entry),
                code,
                is_held: true,
                ..
            } if entry.bulk_len() > 0 => Some(Attachment { entry, code: *code }),
            _ => None,
        }
    }

    fn entry_mut(&mut self) -> Option<&mut Entry> {
        match self {
            Record::Accept {
                value: Some(entry),
                is_held: true,
                ..
            } if entry.bulk_len() > 0 => Some(entry),
            _ => None,
        }
    }
}

impl quorate_core::Record for Record {
    fn slot(&self) -> Option<Slot> {
        match self {
            Record::Accept { slot, .. } | Record::Again { slot, .. } => Some(*slot),
            Record::Promise { .. } | Record::Candidacy { .. } | Record::Lives { .. } => None,
        }
    }

    fn drop_attachment(&mut self) {
        if let Record::Accept { is_held, .. } = self {
            *is_held = false;
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Record::Accept { value, .. } => value.as_ref(),
            _ => None,
        }
    }

    fn scalar(&self) -> Option<u8> {
        match self {
            Record::Promise { .. } | Record::Candidacy { .. } => Some(0),
            Record::Lives { .. } => Some(1),
            Record::Accept { .. } | Record::Again { .. } => None,
        }
    }
}

impl Record {
    /// Whether this is a promise to another replica.
    pub(crate) fn is_promise(&self) -> bool {
        matches!(self, Record::Promise { .. })
    }

    /// Whether this is an own ballot.
    pub(crate) fn is_candidacy(&self) -> bool {
        matches!(self, Record::Candidacy { .. })
    }

    /// Whether this is something accepted.
    pub(crate) fn is_accept(&self) -> bool {
        matches!(self, Record::Accept { .. } | Record::Again { .. })
    }
}
