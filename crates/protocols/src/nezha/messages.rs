//! What replicas say, what they write down, and what they wait for.

use super::digest::{Footprint, Sums};
use super::wire::NUMBER_MAX;
use crate::shared::question::QuestionName;
use bytes::Bytes;
use quorate_core::{Carry, Entry, EntryId, Slot};
use std::hash::{Hash, Hasher};

/// A request without its deadline. It never changes: what is sent again has the same.
#[derive(Clone, PartialEq, Debug)]
pub struct Body {
    /// The entry of commands.
    pub entry: Entry,
    /// What they touch.
    pub footprint: Footprint,
}

/// One name has one time, but not in all the runs that a search goes through.
impl Hash for Body {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.entry.id, self.entry.stamp_ns).hash(to);
    }
}

/// An entry and its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Placed {
    /// The entry it is about.
    pub id: EntryId,
    /// The deadline of the entry, ns since the Unix epoch.
    pub deadline: u64,
}

/// What a replica tells a gateway of an entry.
#[derive(Clone, PartialEq, Debug)]
pub struct FastReply {
    /// The sender's view.
    pub view: u64,
    /// The entry that is replied to.
    pub id: EntryId,
    /// Of all that conflicts with it.
    pub digest: u128,
    /// How long requests of this gateway take to the sender, estimated, ns; 0 if it cannot say.
    pub owd: u64,
    /// Of the leader, what came of it.
    pub outcome: Option<Outcome>,
}

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// Gateway to all: order this by that deadline. Promises nothing.
    Request {
        /// The request without its deadline.
        body: Body,
        /// When it was sent, by the gateway's clock.
        sent: u64,
        /// By when everybody should have it.
        deadline: u64,
    },
    /// To the gateway: it is in the sender's log, or unsynced beside it, behind exactly what the
    /// digest says.
    FastReply(FastReply),
    /// The sender has the leader's log of this view up to before a slot (slow-reply and log-status).
    Synced {
        /// The view it is about.
        view: u64,
        /// The first slot it does not have.
        upto: Slot,
        /// As in a fast reply.
        owd: u64,
    },
    /// Leader to followers: what its log holds. Also a sign of life.
    LogMod(LogMod),
    /// Follower to leader: what does the log hold from here on?
    Fetch {
        /// The view it is about.
        view: u64,
        /// The first slot it does not have.
        from: Slot,
        /// Whether it lacks the sums of the view.
        wants_sums: bool,
    },
    /// Who has these?
    FetchBodies {
        /// The entries it is about.
        ids: Vec<EntryId>,
    },
    /// Here they are.
    Bodies {
        /// As many as fit.
        bodies: Vec<Body>,
    },
    /// Let us go to this view.
    VcReq {
        /// The view to go to.
        view: u64,
        /// What the sender knows of crashes.
        cv: Vec<u64>,
    },
    /// To the leader of a view to come: all that the sender has promised.
    Vc(Vc),
    /// From the leader of a view: its log. The sender starts it, or somebody was late or asked.
    StartView(StartView),
    /// Gateway to all: how far is your log?
    ReadQ(QuestionName),
    /// The answer to a question about reads.
    ReadA {
        /// Of the question.
        query: QuestionName,
        /// The view it is about.
        view: u64,
        /// Of its leader, the first slot behind its log.
        end: Option<Slot>,
    },
    /// The sender lost its promises. What is known of crashes?
    CvReq {
        /// Of this life.
        nonce: u64,
    },
    /// The answer of a replica in normal operation.
    CvRep {
        /// As in the question.
        nonce: u64,
        /// What the sender knows of crashes.
        cv: Vec<u64>,
    },
    /// The sender begins a new life, the last one counts no more. Which view is it?
    RecReq {
        /// Of this life.
        nonce: u64,
        /// With the sender's new count.
        cv: Vec<u64>,
    },
    /// The answer of a replica in normal operation.
    RecRep {
        /// As in the question.
        nonce: u64,
        /// The view of the sender.
        view: u64,
        /// What the sender knows of crashes.
        cv: Vec<u64>,
    },
    /// To a leader: what is the log?
    StateReq {
        /// Of this life.
        nonce: u64,
        /// The least view that will do.
        view: u64,
        /// What the sender knows.
        cv: Vec<u64>,
    },
}

/// What came of an entry at the leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The place of the entry in the leader's log of this view (log-id).
    pub slot: Slot,
    /// The deadline it got: later ones should be above.
    pub deadline: u64,
    /// The results of its commands.
    pub results: Vec<Bytes>,
}

/// Part of a leader's log.
#[derive(Clone, PartialEq, Debug)]
pub struct LogMod {
    /// Of this view.
    pub view: u64,
    /// The slot of the first entry.
    pub first: Slot,
    /// The entries it is about.
    pub entries: Vec<Placed>,
    /// Everything before is committed.
    pub cp: Slot,
    /// What the leader knows of crashes.
    pub cv: Vec<u64>,
    /// The sums at the end of these entries, for who asked.
    pub sums: Option<Sums>,
}

/// What a replica takes along into a view change.
#[derive(Clone, PartialEq, Debug)]
pub struct Vc {
    /// To this view.
    pub view: u64,
    /// The last view in which it was in normal operation.
    pub lnv: u64,
    /// The first slot it has not delivered.
    pub first: Slot,
    /// The synced log of the sender from there on.
    pub log: Vec<Placed>,
    /// What the sender has unsynced.
    pub un: Vec<Placed>,
    /// What the sender knows of crashes.
    pub cv: Vec<u64>,
}

/// The log of a view.
#[derive(Clone, PartialEq, Debug)]
pub struct StartView {
    /// The view that starts.
    pub view: u64,
    /// Of the life that asked; 0 for all.
    pub nonce: u64,
    /// The first slot of the log; those before are decided.
    pub first: Slot,
    /// The leader's log now.
    pub log: Vec<Placed>,
    /// The sums of the leader now.
    pub sums: Sums,
    /// Everything before is committed.
    pub cp: Slot,
    /// What the leader knows of crashes.
    pub cv: Vec<u64>,
}

/// The view of an entry that is written down for its bytes alone. None gets there.
pub(super) const NO_VIEW: u64 = NUMBER_MAX;

/// What must survive a crash before a message that rests on it leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// An entry in the synced log, or in the leader's.
    Append {
        /// Of this view.
        view: u64,
        /// The slot of the entry.
        slot: Slot,
        /// By which deadline.
        deadline: u64,
        /// The entry it is about.
        body: Body,
    },
    /// The place of an entry in the log, whose bytes were written before.
    Sync {
        /// Of this view.
        view: u64,
        /// The slot of the entry.
        slot: Slot,
        /// The entry and its deadline.
        placed: Placed,
    },
    /// An unsynced entry: a fast reply rests on it.
    Unsynced {
        /// Of this view, or of none (`NO_VIEW`): then nothing rests on it, and another record says where it is.
        view: u64,
        /// By which deadline.
        deadline: u64,
        /// The entry it is about.
        body: Body,
    },
    /// Nothing is promised in earlier views any more.
    View {
        /// The view it is about.
        view: u64,
    },
    /// The log with which normal operation began in a view. The bytes were written before.
    Start {
        /// The view it is about.
        view: u64,
        /// The first slot of the log; those before are decided.
        first: Slot,
        /// The log from `first` on.
        log: Vec<Placed>,
    },
    /// What is known of crashes.
    Life {
        /// How often each member lost its promises.
        cv: Vec<u64>,
        /// This replica has, and has not made up for it.
        is_recovering: bool,
    },
}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// The first deadline in the early buffer.
    Release,
    /// Own requests went without an answer for a while.
    Retry,
    /// What the leader should have said did not come.
    Poll,
    /// What the leader placed was to be written with something else, and nothing else came.
    Sync,
    /// Followers did not say that they are synchronised.
    Resend,
    /// The leader was silent for long.
    Suspect,
    /// A view change, or a rejoin, takes its time: say it again.
    Change,
    /// The view change takes too long: go to the next view.
    GiveUp,
    /// A question about reads went without an answer.
    Reads,
}

impl Timer {
    /// All of them, in order.
    pub(super) const ALL: [Timer; 9] = [
        Timer::Release,
        Timer::Retry,
        Timer::Poll,
        Timer::Sync,
        Timer::Resend,
        Timer::Suspect,
        Timer::Change,
        Timer::GiveUp,
        Timer::Reads,
    ];
}

impl Carry for Message {}

impl Carry for Record {}

impl quorate_core::Record for Record {
    fn slot(&self) -> Option<Slot> {
        match self {
            Record::Sync { slot, .. } => Some(*slot),
            // Its bytes outlive the slot where that goes to another entry.
            Record::Append { .. } | Record::Unsynced { .. } => None,
            Record::View { .. } | Record::Start { .. } | Record::Life { .. } => None,
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Record::Append { body, .. } | Record::Unsynced { body, .. } => Some(&body.entry),
            _ => None,
        }
    }

    fn scalar(&self) -> Option<u8> {
        match self {
            Record::View { .. } => Some(0),
            Record::Start { .. } => Some(1),
            Record::Life { .. } => Some(2),
            _ => None,
        }
    }
}
