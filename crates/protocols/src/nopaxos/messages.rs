//! What replicas say, what they write down, and what they wait for.

use crate::shared::question::QuestionName;
use bytes::Bytes;
use quorate_core::{Carry, Entry, EntryId, Slot};

/// What a slot of the log holds; `None` is a no-op, in the place of a message that the leader has not got.
pub type Value = Option<Entry>;

/// A view: who leads (by `lead`), and whose stamps count (by `session`).
///
/// Invariant: at a replica neither number ever falls. Views that have started are ordered, each covers those before:
/// a majority has left the earlier one for good. So of those the derived order is the right one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View {
    /// Says who leads: the member in this place, counted around.
    pub lead: u64,
    /// Says who is the sequencer: the member in this place, counted around.
    pub session: u64,
}

impl View {
    /// The view in which an epoch begins. The leader is not the sequencer, so that one crash takes one of them.
    pub const FIRST: View = View {
        lead: 0,
        session: 1,
    };

    /// The least view that covers both.
    #[must_use]
    pub fn join(self, other: View) -> View {
        View {
            lead: self.lead.max(other.lead),
            session: self.session.max(other.session),
        }
    }

    /// Whether neither number is below the other view's.
    #[must_use]
    pub fn covers(self, other: View) -> bool {
        self.join(other) == self
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v{}/{}", self.lead, self.session)
    }
}

/// A replica has an entry in a slot of its log, durably.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reply {
    /// The view of the log.
    pub view: View,
    /// The slot of the entry.
    pub slot: Slot,
    /// The entry that is replied to.
    pub id: EntryId,
    /// What its commands came to; said by the leader alone.
    pub results: Option<Vec<Bytes>>,
}

/// What a replica takes along into a view change.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewChange {
    /// The view to come.
    pub view: View,
    /// The last view that the sender took part in.
    pub last_normal: View,
    /// The slot of stamp number 0 in the session of that view.
    pub stamps_from: Slot,
    /// The first slot that the sender has not delivered.
    pub first: Slot,
    /// The sender's log from there on.
    pub log: Vec<Value>,
}

/// The log with which a view starts; to one who was late, the leader's log as it is now.
#[derive(Clone, PartialEq, Debug)]
pub struct StartView {
    /// The view that starts.
    pub view: View,
    /// The slot of stamp number 0 in the session of this view.
    pub stamps_from: Slot,
    /// The first slot that the leader has not delivered.
    pub first: Slot,
    /// The leader's log from there on.
    pub log: Vec<Value>,
}

/// How the leader's log looks up to before a slot.
#[derive(Clone, PartialEq, Debug)]
pub struct Sync {
    /// The view of the log.
    pub view: View,
    /// The first slot that is spoken of; all before are decided.
    pub from: Slot,
    /// The first slot that is not spoken of.
    pub upto: Slot,
    /// Slots that hold no-ops, ascending. All others hold what was stamped.
    pub noops: Vec<Slot>,
}

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// Gateway to sequencer: stamp this and pass it on to all. Promises nothing.
    Stamp {
        /// The session in which a stamp is wanted.
        session: u64,
        /// The entry to stamp.
        entry: Entry,
    },
    /// A stamped entry, from the sequencer, or from a leader to one who missed it. Promises nothing.
    Marked {
        /// The session of the stamp.
        session: u64,
        /// The number of the stamp; they count from 0 in each session.
        number: u64,
        /// The entry that is stamped.
        entry: Entry,
    },
    /// Replica to gateway: what the sender has durably in its log.
    Reply(Reply),
    /// Follower to leader: what was stamped for these slots?
    Lookup {
        /// The view of the log.
        view: View,
        /// The first slot missing.
        from: Slot,
        /// The first slot behind what is missing.
        until: Slot,
    },
    /// Leader to followers: these slots hold no-ops, whatever was stamped for them.
    Gap {
        /// The view of the log.
        view: View,
        /// The first slot without an entry.
        from: Slot,
        /// The first slot behind those.
        until: Slot,
    },
    /// The sender has the no-ops of a gap, durably.
    GapA {
        /// The view of the log.
        view: View,
        /// The first slot behind the gap.
        until: Slot,
    },
    /// The sender is in this view, or on the way to it: come along.
    ViewChangeReq(View),
    /// To the leader of a view to come: what the sender has.
    ViewChange(ViewChange),
    /// From the leader of a view: the view starts with this log.
    StartView(StartView),
    /// Leader to followers: make your logs like mine.
    Sync(Sync),
    /// The sender's log is the leader's up to before this slot, durably.
    SyncA {
        /// The view of the log.
        view: View,
        /// The first slot not covered.
        upto: Slot,
    },
    /// Leader to all: every slot before this one is decided.
    Synced {
        /// The view in which that was found.
        view: View,
        /// The first slot not covered.
        upto: Slot,
    },
    /// Follower to leader: "what have I missed?" Promises nothing.
    Ask(View),
    /// "Which view is it, and how long is the leader's log?", for reads. Promises nothing.
    ReadQ(QuestionName),
    /// The answer to a query of a reader, of one that takes part in a view.
    ReadA {
        /// The query that is answered.
        query: QuestionName,
        /// The view of the sender.
        view: View,
        /// The sender's first slot not delivered.
        delivered: Slot,
        /// Of the leader, the first slot behind its log.
        end: Option<Slot>,
    },
}

/// What must survive a crash before a message that rests on it leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// A slot of the log. Those count that are of the last view their writer took part in, and of two of one view
    /// the no-op.
    Place {
        /// The view of the log.
        view: View,
        /// The slot that is filled.
        slot: Slot,
        /// What the slot holds.
        value: Value,
    },
    /// A slot of the log with an entry that has, or had, an earlier one, too. The host does not look into it: it drops
    /// what it takes for records of decided entries, and this slot is still to be decided then.
    Again {
        /// The view of the log.
        view: View,
        /// The slot that is filled.
        slot: Slot,
        /// The entry that the slot holds.
        entry: Entry,
    },
    /// Nothing is promised in earlier views any more. The last one counts.
    View {
        /// The view, or the one to come.
        view: View,
        /// The last view that its writer took part in: the same, unless the view has yet to start here.
        last_normal: View,
        /// The slot of stamp number 0 in the session of `last_normal`.
        stamps_from: Slot,
    },
    /// Promises were lost: nothing of what earlier starts wrote counts, and no later start takes part.
    Lost,
}

impl Record {
    /// Whether this is a no-op in the log.
    pub(super) fn is_noop(&self) -> bool {
        matches!(self, Record::Place { value: None, .. })
    }

    /// Whether this is about a view.
    pub(super) fn is_view(&self) -> bool {
        matches!(self, Record::View { .. })
    }
}

/// Entries travel whole: there are no payloads beside them.
impl Carry for Message {}

impl quorate_core::Record for Record {
    fn scalar(&self) -> Option<u8> {
        match self {
            Record::View { .. } => Some(0),
            Record::Lost => Some(1),
            Record::Place { .. } | Record::Again { .. } => None,
        }
    }

    fn slot(&self) -> Option<Slot> {
        match self {
            Record::Place { slot, .. } | Record::Again { slot, .. } => Some(*slot),
            Record::View { .. } | Record::Lost => None,
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Record::Place { value, .. } => value.as_ref(),
            _ => None,
        }
    }
}

/// Entries are written whole: there are no payloads beside them.
impl Carry for Record {}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// Something said here went unanswered for a while.
    Retry,
    /// A stamp that is missing may only be late.
    Gap,
    /// The leader's log has something that the followers were not told to compare.
    Sync,
    /// The leader, or whoever is to lead, was silent for long, or nothing came of what it said.
    Leader,
    /// Own entries were not stamped for long.
    Sequencer,
    /// Slots decided elsewhere have not become known here for a while.
    CatchUp,
    /// Requests have waited as long as they should.
    Patience,
}
