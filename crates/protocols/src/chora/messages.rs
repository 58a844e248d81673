//! What replicas say, what they write down, and what they wait for.

use super::log::Position;
use super::pattern::ViewInit;
use crate::shared::lives::{Life, Lives};
use crate::shared::question::QuestionName;
use crate::shared::rejoin::RejoinAnswer;
use quorate_core::{Boot, Carry, Entry, MemberIndex, Slot};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// Ranges in a NACK, at most.
pub(super) const RANGES_MAX: usize = 16;
/// Entries in a RECOVER, at most.
pub(super) const RECOVER_MAX: usize = 1024;

/// What a slot holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Nothing: its owner skipped it.
    Noop,
    /// A batch of commands.
    Entry(Entry),
    /// VIEW-INIT of a view.
    Init(Arc<ViewInit>),
}

/// An entry of the log.
#[derive(Clone, PartialEq, Debug)]
pub struct Logged {
    /// The slot of the entry.
    pub slot: Slot,
    /// The view in which it was proposed: slot and view determine the value (J1).
    pub eview: u64,
    /// What the slot holds.
    pub value: Value,
}

/// PROPOSE or SKIP of one proposer: its slots from `skip_from` to before `slot` hold nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    /// The first slot spoken of.
    pub skip_from: Slot,
    /// The slot of the value, or the first slot not spoken of.
    pub slot: Slot,
    /// What `slot` holds; `None` for a SKIP.
    pub value: Option<Value>,
}

/// What is at the head of every pulse. Ends are exclusive: the first slot behind.
#[derive(Clone, PartialEq, Debug)]
pub struct Header {
    /// The sender's view.
    pub view: u64,
    /// `view_base + 1`, if the sender knows it.
    pub start: Option<Slot>,
    /// The sender's round, for advice.
    pub round: u64,
    /// The length of its rounds in ns, for advice; 0 in responsive mode.
    pub pace_ns: u64,
    /// When it was said, on the sender's own clock in ns, for advice.
    pub sent_ns: u64,
    /// The end of what the sender has verified and made durable.
    pub ack: Slot,
    /// The end of what it knows to be committed in this view.
    pub commit: Slot,
    /// The end of what it has heard proposed.
    pub latest: Slot,
    /// "Say the same of yourself."
    pub asks: bool,
    /// The lives the sender knows of.
    pub lives: Lives,
}

/// One datagram: a header, and what there is to say besides.
#[derive(Clone, PartialEq, Debug)]
pub struct Pulse {
    /// Acknowledgement and commit index.
    pub header: Header,
    /// PROPOSE or SKIP.
    pub proposal: Option<Proposal>,
    /// NACK: slots the sender lacks, from one to before another.
    pub nack: Vec<Range<Slot>>,
    /// RECOVER: entries the receiver lacks.
    pub recover: Vec<Logged>,
}

/// Why a view is to be changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// Nothing moves in the view.
    Stalled,
    /// The asker owns slots, has started again, and does not know what it proposed.
    Restarted,
    /// Other members should propose.
    Planned,
}

/// "Would you follow me into a new view?"
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreVc {
    /// The asker's start of the process.
    pub boot: Boot,
    /// Counts the asker's campaigns.
    pub campaign: u64,
    /// How far the asker's log goes.
    pub position: Position,
    /// The asker's first slot not committed.
    pub next: Slot,
    /// Why the replica asks.
    pub reason: Reason,
}

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// The normal case.
    Pulse(Box<Pulse>),
    /// An entry for a proposer, from the replica that formed it or through another. Promises nothing.
    Forward {
        /// The entry to propose.
        entry: Entry,
    },
    /// PRE-VC: "would you follow me into a new view?" Changes nothing at who hears it.
    PreVc(PreVc),
    /// PRE-VC-OK: the sender would follow.
    PreVcOk {
        /// The asker's start of the process.
        boot: Boot,
        /// The number of the asker's campaign.
        campaign: u64,
        /// The sender's view.
        view: u64,
    },
    /// VCR, the view-change request.
    Vcr {
        /// The new view.
        view: u64,
        /// How far the candidate's log goes.
        position: Position,
        /// The member for whose sake it is asked for: it is to propose alone.
        only: Option<MemberIndex>,
    },
    /// VOTE: the sender's vote in a view.
    Vote {
        /// The view it is about.
        view: u64,
        /// The lives the sender knows of.
        lives: Lives,
    },
    /// "How far does your log go?", for reads. Promises nothing.
    ReadQ(QuestionName),
    /// The answer to a question.
    ReadA {
        /// Of the asker's query.
        query: QuestionName,
        /// The first slot behind the sender's log.
        end: Slot,
    },
    /// "I lost my promises, and begin this life: how far have you gone?"
    Rejoin {
        /// The life that begins.
        life: Life,
        /// The sender's first slot not committed.
        next: Slot,
    },
    /// How far the sender has gone, for a member that begins a life: the floor is its view.
    RejoinA(RejoinAnswer<u64>),
}

/// What must survive a crash before a message that rests on it leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// The view, and the member voted for in it.
    View {
        /// The view it is about.
        view: u64,
        /// The vote; without one it was given away or never asked for.
        voted: Option<MemberIndex>,
    },
    /// An entry was appended to the main log, in place of whatever was in its slot and behind it.
    Append(Logged),
    /// The lives known.
    Lives {
        /// Of all members.
        lives: Lives,
        /// Whether this replica has not lost its promises, or has begun a new life since.
        is_member: bool,
        /// The replica proposes in no view up to this one, for a former life may have.
        mute: Option<u64>,
    },
}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// Something is missing, or was not answered, for a moment (`T_gap`).
    Gap,
    /// Nothing moved for long (`T_stall`, `T_vc`).
    Stall,
    /// The next round begins.
    Round,
    /// A proposer that was left out may be taken back (`T_rejoin`).
    Plan,
    /// Requests have waited as long as they should.
    Patience,
}

impl Value {
    /// The entry of commands, if it is one.
    pub(super) fn entry(&self) -> Option<&Entry> {
        match self {
            Value::Entry(entry) => Some(entry),
            Value::Noop | Value::Init(_) => None,
        }
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, to: &mut H) {
        match self {
            Value::Noop => 0.hash(to),
            Value::Entry(entry) => (1, entry.id).hash(to),
            Value::Init(init) => (2, init).hash(to),
        }
    }
}

impl Hash for Logged {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.slot, self.eview, &self.value).hash(to);
    }
}

impl Carry for Message {}

impl Carry for Record {}

impl quorate_core::Record for Record {
    fn slot(&self) -> Option<Slot> {
        match self {
            Record::Append(logged) => Some(logged.slot),
            Record::View { .. } | Record::Lives { .. } => None,
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Record::Append(logged) => logged.value.entry(),
            Record::View { .. } | Record::Lives { .. } => None,
        }
    }

    fn scalar(&self) -> Option<u8> {
        match self {
            Record::View { .. } => Some(0),
            Record::Lives { .. } => Some(1),
            Record::Append(_) => None,
        }
    }
}

impl Record {
    /// Whether this is a view or a vote.
    pub(super) fn is_view(&self) -> bool {
        matches!(self, Record::View { .. })
    }

    /// Whether this is part of the log.
    pub(super) fn is_append(&self) -> bool {
        matches!(self, Record::Append(_))
    }
}
