//! What replicas say of fragments, what they write down of them, and what they wait for. What they say of
//! slots is in the words of Weak-MVC.

use super::life::Life;
use crate::rabia::weak_mvc;
use crate::registry::{Gist, LayerValue};
use crate::shared::lives::{self, Lives};
use quorate_core::{Attachment, Carry, Entry, EntryId, MemberIndex, Slot};
use std::fmt;

/// What replicas say to each other.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// Of slots. A Candidate is a batch here, for what it carries is the manifest: an entry without its
    /// payloads.
    Mvc(weak_mvc::Message),
    /// A manifest with the receiver's segment, or the question whether that is there. Promises nothing.
    Spread(Spread),
    /// "My segment is on my disk, and I keep it", or "I have none".
    SegAck(SegAck),
    /// "Of what I spread in earlier lives, only this may still be ordered."
    Roster {
        /// The sender's life.
        life: Life,
        /// The sender's first slot not delivered: what is decided before is not listed.
        next: Slot,
        /// The values of earlier lives that may still be ordered.
        open: Vec<EntryId>,
    },
    /// "I have let go of everything else."
    RosterAck {
        /// The life of the roster.
        life: Life,
    },
    /// "I lost my disk: of which undecided values have you segments?"
    Lost {
        /// The number that the loss would have, and the start of the process that found it.
        loss: lives::Life,
        /// Counts the sender's questions.
        number: u64,
    },
    /// One of the answers to such a question: each names a segment, unless there are none.
    Undecided(Undecided),
}

/// A manifest with the receiver's segment, or the question whether the segment is there.
#[derive(Clone, PartialEq, Debug)]
pub struct Spread {
    /// The manifest of the value.
    pub manifest: Manifest,
    /// Counts what made the sender ask anew; the answer repeats the number.
    pub round: u64,
    /// Whether the segment goes along.
    pub is_attached: bool,
}

/// Whether the sender has its segment of an entry on its disk, and keeps it.
#[derive(Clone, PartialEq, Debug)]
pub struct SegAck {
    /// The name of the entry.
    pub id: EntryId,
    /// The code under which the entry is cut.
    pub code: u8,
    /// The life of the origin in which it spread the entry, as in the question.
    pub life: Life,
    /// The number of the question.
    pub round: u64,
    /// Whether the segment is there.
    pub is_here: bool,
    /// The losses of disks that the sender knows of.
    pub losses: Lives,
}

/// One answer to the question of a member that lost its disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Undecided {
    /// The losses that the sender has noted, the receiver's among them.
    pub losses: Lives,
    /// The number of the question.
    pub number: u64,
    /// How many answers to the question have a manifest.
    pub count: u64,
    /// The sender's first slot not delivered: what is decided before is no answer.
    pub next: Slot,
    /// A manifest of which the sender has its segment.
    pub manifest: Option<Manifest>,
}

/// An entry without its payloads, and how those were spread. The names and digests of the payloads are
/// in its commands.
#[derive(Clone, PartialEq, Debug)]
pub struct Manifest {
    /// The entry, without its payloads.
    pub entry: Entry,
    /// `k`: how many segments rebuild the payloads.
    pub code: u8,
    /// The life of the origin in which it spread the entry.
    pub life: Life,
}

/// What must survive a crash before a message that rests on it leaves.
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// Of slots, and batches that are ordered whole.
    Mvc(weak_mvc::Record),
    /// A manifest. The last record of an entry says all.
    Manifest {
        /// The manifest as it came, or was made.
        manifest: Manifest,
        /// Whether the own segment is with the manifest.
        is_held: bool,
        /// The candidate bit: the entry may be proposed. An entry whose manifest merely came with a segment
        /// must not be.
        is_candidate: bool,
    },
    /// The present life, before anything is spread in it.
    Life {
        /// The present life. Of values that were spread before its loss this replica does not know what it
        /// announced.
        life: Life,
    },
    /// The last roster of a member: what it leaves out is refused for good.
    Roster {
        /// The member whose roster it is.
        member: MemberIndex,
        /// The member's life.
        life: Life,
        /// Whoever has not applied what is before this slot does not heed it.
        next: Slot,
        /// The values of earlier lives that may still be ordered.
        open: Vec<EntryId>,
    },
    /// A member lost its disk, before it is told what else there is to know.
    Loss {
        /// The member that lost its disk.
        member: MemberIndex,
        /// The number of the loss, and the start that found it.
        loss: lives::Life,
    },
}

/// What a replica waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// What Weak-MVC waits for.
    Mvc(weak_mvc::Timer),
    /// Something said of segments went unanswered for a while.
    Spread,
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Timer::Mvc(timer) => timer.fmt(f),
            Timer::Spread => f.write_str("Spread"),
        }
    }
}

impl Carry for Message {
    fn attachment(&self) -> Option<Attachment<'_>> {
        match self {
            Message::Spread(Spread {
                manifest,
                is_attached: true,
                ..
            }) => manifest.attachment(),
            _ => None,
        }
    }

    fn entry_mut(&mut self) -> Option<&mut Entry> {
        match self {
            Message::Spread(Spread {
                manifest,
                is_attached: true,
                ..
            }) if manifest.has_bulk() => Some(&mut manifest.entry),
            _ => None,
        }
    }
}

impl Carry for Record {
    fn attachment(&self) -> Option<Attachment<'_>> {
        match self {
            Record::Manifest {
                manifest,
                is_held: true,
                ..
            } => manifest.attachment(),
            _ => None,
        }
    }

    fn entry_mut(&mut self) -> Option<&mut Entry> {
        match self {
            Record::Manifest {
                manifest,
                is_held: true,
                ..
            } if manifest.has_bulk() => Some(&mut manifest.entry),
            _ => None,
        }
    }
}

impl quorate_core::Record for Record {
    fn slot(&self) -> Option<Slot> {
        match self {
            Record::Mvc(record) => record.slot(),
            _ => None,
        }
    }

    fn entry(&self) -> Option<&Entry> {
        match self {
            Record::Mvc(record) => record.entry(),
            Record::Manifest { manifest, .. } => Some(&manifest.entry),
            _ => None,
        }
    }

    fn drop_attachment(&mut self) {
        if let Record::Manifest { is_held, .. } = self {
            *is_held = false;
        }
    }

    fn scalar(&self) -> Option<u8> {
        match self {
            Record::Mvc(record) => record.scalar(),
            Record::Manifest { .. } => None,
            Record::Life { .. } => Some(LIFE),
            Record::Roster { member, .. } => Some(ROSTERS + member.position() as u8),
            Record::Loss { member, .. } => Some(LOSSES + member.position() as u8),
        }
    }
}

/// Numbers of scalars: those of Weak-MVC are below, and members are fewer than 64.
const LIFE: u8 = 16;
const ROSTERS: u8 = 64;
const LOSSES: u8 = 128;

impl Manifest {
    pub(super) fn has_bulk(&self) -> bool {
        self.entry.bulk_len() > 0
    }

    fn attachment(&self) -> Option<Attachment<'_>> {
        let (entry, code) = (&self.entry, self.code);
        self.has_bulk().then_some(Attachment { entry, code })
    }

    /// Whether the segment of a receiver came along.
    pub(super) fn has_segment(&self) -> bool {
        let share = self.entry.share();
        share.is_some_and(|share| share.code == self.code)
    }

    /// The manifest with nothing at hand of its payloads.
    pub(super) fn bare(&self) -> Manifest {
        Manifest {
            entry: self.entry.clone().with_share(None),
            ..*self
        }
    }

    /// Bytes of one segment.
    pub(super) fn segment_len(&self) -> u64 {
        self.entry.bulk_len().div_ceil(u64::from(self.code.max(1)))
    }
}

/// What later steps of a slot depend on, for a search layer by layer.
pub(super) fn gist(record: &Record) -> Option<Gist> {
    match record {
        Record::Mvc(record) => weak_mvc::gist(record),
        _ => None,
    }
}

/// The value of one step.
pub(super) fn value_at(record: &Record, index: usize) -> Option<LayerValue> {
    match record {
        Record::Mvc(record) => weak_mvc::value_at(record, index),
        _ => None,
    }
}
