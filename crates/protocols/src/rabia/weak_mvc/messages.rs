//! What replicas say, what they write down, what they wait for, and what the log implies.

use super::config::WINDOW_MAX;
use super::trail::{Mode, Step, Trail};
use crate::registry::{Gist, LayerValue};
use crate::shared::question::QuestionName;
use quorate_core::{Boot, Carry, Entry, EntryId, Slot};

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// A request (Algorithm 1, line 9), offered by its origin or given to who needs it. Promises
    /// nothing.
    Batch {
        /// The entry that holds the batch.
        entry: Entry,
    },
    /// "I lack these batches, and every slot from this one on."
    Need {
        /// The sender's first slot not delivered.
        from: Slot,
        /// The names of the batches.
        ids: Vec<EntryId>,
    },
    /// "I hold these": their origin need not send them again. Promises nothing.
    Have {
        /// The names of the batches.
        ids: Vec<EntryId>,
    },
    /// Proposal, State and vote of Algorithm 2 in one.
    Slot(SlotMessage),
    /// Proposals of NULL by a sender that has said nothing else in those slots.
    Nulls(Nulls),
    /// The outcome of a slot, for one that asked before its log could tell it.
    Decided {
        /// The slot that is decided.
        slot: Slot,
        /// The request that the slot is decided for; `None` is NULL.
        value: Option<EntryId>,
    },
    /// "I lost my promises, and lack every slot from this one on: how far have you gone?"
    Recover {
        /// The asker's start of the process.
        boot: Boot,
        /// The asker's first slot not delivered.
        from: Slot,
    },
    /// How far the sender has gone, for a member that lost its promises. Promises nothing.
    RecoverA {
        /// The asker's start of the process.
        boot: Boot,
        /// The first slot behind all that the sender may have begun.
        started: Slot,
    },
    /// "Run the slots before this one": a recovering replica waits for their end. Promises nothing.
    Nudge {
        /// The first slot not needed.
        until: Slot,
        /// The sender's first slot not delivered.
        from: Slot,
    },
    /// "Where does what you know of end?", for reads. Promises nothing.
    ReadQ(QuestionName),
    /// The sender's mark, for reads: every slot before it may hold a completed write.
    ReadA {
        /// Of the asker's query.
        query: QuestionName,
        /// The first slot behind all in which the sender proposed a request or knows one decided.
        mark: Slot,
    },
}

/// Short for one [`SlotMessage`] with proposal NULL and an empty trail per slot, and taken for
/// exactly that. It names every slot: "NULL wherever I have said nothing" would be wrong, since
/// what said otherwise may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nulls {
    /// The slot of the first bit.
    pub base: Slot,
    /// The slots, by their distance from the first.
    pub bits: Bits,
    /// The sender asks for the receiver's history, or for the outcomes.
    pub want: bool,
    /// The sender has more of its own than it has proposed.
    pub more: bool,
}

/// A set of slots of one window, by their distance from its first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bits(pub(super) [u64; BIT_WORDS]);

const BIT_WORDS: usize = WINDOW_MAX / 64;

impl Bits {
    pub(crate) fn insert(&mut self, offset: usize) {
        self.0[offset / 64] |= 1 << (offset % 64);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; BIT_WORDS]
    }

    /// The distances, ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let words = self.0.into_iter().enumerate();
        words.flat_map(|(index, word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(index * 64 + bit)
            })
        })
    }
}

impl Nulls {
    /// The messages it stands for.
    pub(crate) fn spelled_out(&self, mode: Mode) -> impl Iterator<Item = SlotMessage> {
        let Nulls {
            base,
            bits,
            want,
            more,
        } = *self;
        bits.iter().map(move |offset| SlotMessage {
            slot: Slot(base.0.saturating_add(offset as u64)),
            prop: None,
            trail: Trail::new(mode),
            q: None,
            want,
            more,
        })
    }
}

/// The sender's whole history in one slot. Cumulative, so any copy repairs the loss of all
/// earlier ones, and counting by sender makes duplicates harmless.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotMessage {
    /// The slot spoken of.
    pub slot: Slot,
    /// The sender's proposal; `None` is NULL.
    pub prop: Option<EntryId>,
    /// The sender's values in the binary stage.
    pub trail: Trail,
    /// The request that has the slot if anyone has, as far as the sender knows. Every message
    /// with a 1 in its trail names it, so that who decides 1 knows what it decided.
    pub q: Option<EntryId>,
    /// The sender asks for the receiver's history, or for the outcome.
    pub want: bool,
    /// The sender has more of its own than it has offered.
    pub more: bool,
}

/// What must survive a crash before a message that contains it leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// A batch, before it is proposed here.
    Batch {
        /// The entry that holds the batch.
        entry: Entry,
    },
    /// All of the replica's own values in one slot; the latest record of a slot counts.
    Own {
        /// The slot spoken of.
        slot: Slot,
        /// The proposal; `None` is NULL.
        prop: Option<EntryId>,
        /// The values in the binary stage.
        trail: Trail,
        /// The request that has the slot if anyone has, as far as known.
        q: Option<EntryId>,
    },
    /// NULL may be proposed in every slot before this one without a record of its own. A replica
    /// that restarts proposes NULL and nothing else in those of them it has no record of.
    Reserve {
        /// The first slot not covered.
        until: Slot,
    },
    /// The replica lost its promises, and votes in no slot before this one; `None` until that is
    /// known. The last such record counts.
    Floor {
        /// The first slot it may vote in.
        slot: Option<Slot>,
    },
}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// Something said here went unanswered for a while.
    Retransmit,
    /// A batch named by a peer has not come from its origin.
    Need,
    /// A peer is far ahead, and was for a while.
    CatchUp,
    /// The first vote of this slot has waited long enough for a faster decision.
    Hold(Slot),
    /// The proposal of this slot has waited long enough for a batch named by peers.
    Adopt(Slot),
    /// A step of this slot has waited long enough for more values than it needs.
    Grace(Slot),
    /// This batch is old enough for a slot to be started for it.
    Thaw(EntryId),
    /// Whoever is in time for the slot of the probe has been heard by now.
    Probe,
}

impl quorate_core::Record for Record {
    fn slot(&self) -> Option<Slot> {
        match self {
            Record::Batch { .. } | Record::Floor { .. } => None,
            Record::Own { slot, .. } => Some(*slot),
            // Once the last slot it covers is decided, it covers none.
            Record::Reserve { until } => Some(Slot(until.0.saturating_sub(1))),
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Record::Batch { entry } => Some(entry),
            Record::Own { .. } | Record::Reserve { .. } | Record::Floor { .. } => None,
        }
    }

    fn scalar(&self) -> Option<u8> {
        matches!(self, Record::Floor { .. }).then_some(0)
    }
}

impl Record {
    /// Whether this is a proposal without any value of the binary stage.
    pub(crate) fn is_proposal(&self) -> bool {
        matches!(self, Record::Own { trail, .. } if trail.is_empty())
    }

    /// Whether it covers proposals of NULL.
    pub(crate) fn is_reserve(&self) -> bool {
        matches!(self, Record::Reserve { .. })
    }

    /// Whether the last thing it records is a State.
    pub(crate) fn ends_with_state(&self) -> bool {
        matches!(self, Record::Own { trail, .. } if matches!(trail.last_step(), Some(Step::State(_))))
    }

    /// Whether the last thing it records is a vote.
    pub(crate) fn ends_with_vote(&self) -> bool {
        matches!(self, Record::Own { trail, .. } if matches!(trail.last_step(), Some(Step::Vote(_))))
    }
}

/// What later steps of a slot depend on besides the last values: the proposal and the request known,
/// which messages carry on. Older values act through decisions only.
pub(crate) fn gist(record: &Record) -> Option<Gist> {
    let (prop, trail, request) = match record {
        Record::Own { prop, trail, q, .. } => (*prop, *trail, *q),
        // It stands for a proposal of NULL.
        Record::Reserve { .. } => (None, Trail::default(), None),
        Record::Batch { .. } | Record::Floor { .. } => return None,
    };
    Some(Gist {
        prop,
        request,
        layer: trail.len(),
    })
}

/// The value of one step. The coin had a say in a State that follows a vote.
pub(crate) fn value_at(record: &Record, index: usize) -> Option<LayerValue> {
    let Record::Own { trail, .. } = record else {
        return None;
    };
    let is_tossed = matches!(trail.mode().step(index), Step::State(phase) if phase > 1);
    let value = trail.get(index)? as u8;
    Some(LayerValue { value, is_tossed })
}

impl SlotMessage {
    /// What is wrong with this message whoever sent it, if anything.
    pub(crate) fn flaw(&self, mode: Mode) -> Option<&'static str> {
        if self.trail.mode() != mode {
            Some("a trail of the other mode")
        } else if !self.trail.is_well_formed() {
            Some("a State that is neither 0 nor 1")
        } else if self.q.is_none() && self.trail.iter().any(|v| v == super::trail::Value::One) {
            Some("a 1 without its request")
        } else {
            None
        }
    }
}

impl Carry for Message {}

impl Carry for Record {}
