//! The contract of a protocol: atomic broadcast with fixed membership, as a pure state machine.
//!
//! The host calls [`Machine::step`] with one [`Input`] at a time and performs the [`Output`]s it
//! finds in [`Out`], in order. Three rules make every protocol simpler:
//!
//! - **Writing before speaking is the default spelling.** [`Out::send`] waits until every record
//!   persisted before it is durable. [`Out::send_early`] is the visible exception, for messages
//!   that promise nothing. [`Out::note`] is for hints: no message waits for it and no flush
//!   happens for it.
//! - **Loss is normal.** Links drop, duplicate, reorder and reset; retransmission lives in the
//!   machine, on timers.
//! - **Bulk is attached, not carried.** Commands may have payloads; an entry in a message or record
//!   says what they are, and [`Carry::attachment`] that they, or a fragment of each, go along. The
//!   host adds, codes, stores and checks the bytes. A message arrives with its attachment or not at
//!   all.
//! - **The decided log is the host's.** It keeps, serves and fetches delivered entries whatever
//!   the protocol; machines exchange only what is undecided.

use crate::entry::Entry;
use crate::ids::{EntryId, Slot};
use crate::introspect::Introspect;
use crate::out::Out;
use crate::step::{Input, Past};
use crate::time::Now;
use crate::wire::{Decoder, Wire, WireError, Written};
use std::fmt::Debug;

/// One protocol, as seen from the host: a replica of one epoch of one group.
///
/// Implementations know no clock, randomness, file, socket or thread. They are cloned and
/// fingerprinted so that they can be model-checked as they ship.
pub trait Machine: Introspect + Clone + Sized {
    /// What replicas say to each other.
    type Message: Carry + Clone + Debug;
    /// What must survive a crash.
    type Record: Record + Clone + Debug;
    /// What can be waited for; arming a timer that is armed moves it.
    type Timer: Copy + Ord + Debug;
    /// The machine's part of a snapshot: a function of the decided prefix.
    type Base: Base;
    /// The epoch's parameters, and the replica's own id and boot.
    type Config: Clone + Debug;

    /// Takes a message from the front of `input`, as the machines of the named protocol write it.
    ///
    /// # Errors
    /// [`WireError`], whatever the bytes are.
    fn message(protocol: &str, input: &mut Decoder) -> Result<Self::Message, WireError>;

    /// Takes a record from the front of `input`, as the machines of the named protocol write it.
    ///
    /// # Errors
    /// [`WireError`], whatever the bytes are.
    fn record(protocol: &str, input: &mut Decoder) -> Result<Self::Record, WireError>;

    /// Starts a machine from what its past left.
    fn recover(config: &Self::Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self;

    /// Takes one input and says what follows from it.
    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>);

    /// Back-pressure: how many more commands it will take now.
    fn room(&self) -> usize;

    /// Whether it orders commands in its present role: a machine that lost its promises may first
    /// have to learn which ones.
    fn is_serving(&self) -> bool {
        true
    }

    /// How many slots from the first that is not delivered on it may make records about, at most.
    /// The host then knows when records that were lost cannot matter any more. `None` for no bound.
    fn reach(config: &Self::Config) -> Option<u64> {
        let _ = config;
        None
    }

    /// The values that the machine is given as payloads; `None` for a protocol that orders everything whole.
    fn payloads(config: &Self::Config) -> Option<PayloadRule> {
        let _ = config;
        None
    }

    /// The entry that a record was written behind or together with, attachment and all: if that never
    /// came to the disk, the record was never said either, and the host leaves both out.
    fn rests_on(config: &Self::Config, record: &Self::Record) -> Option<EntryId> {
        let _ = (config, record);
        None
    }
}

/// A machine of one protocol, whose words can be read by themselves.
pub trait Plain: Machine<Message: Wire, Record: Wire> {}

impl<M: Machine<Message: Wire, Record: Wire>> Plain for M {}

/// Bulk that goes with a message or a record: the payloads of an entry, of each the fragment of the
/// replica that receives the message or writes the record.
#[derive(Clone, Copy, Debug)]
pub struct Attachment<'a> {
    /// The entry of the payloads.
    pub entry: &'a Entry,
    /// How many fragments rebuild a payload; 1 for all of it. A sender must have all of it at hand
    /// ([`Entry::share`]), or exactly what it attaches.
    pub code: u8,
}

/// What may have payloads with it. One that is received has its share at hand in its entry.
pub trait Carry: Written {
    /// What goes along. Only of an entry with payloads.
    fn attachment(&self) -> Option<Attachment<'_>> {
        None
    }

    /// Whether what goes along is the receiver's own fragment, for it to keep.
    fn is_to_keep(&self) -> bool {
        self.attachment().is_some()
    }

    /// The entry whose payloads go along.
    fn entry_mut(&mut self) -> Option<&mut Entry> {
        None
    }
}

/// What a protocol makes of long values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PayloadRule {
    /// Values of so many bytes or more are payloads.
    pub min: usize,
    /// How many fragments rebuild a payload that was ordered while all was well; with 1 all members
    /// have the whole.
    pub code: u8,
}

/// A record of a machine, as far as the host must understand it.
pub trait Record: Carry {
    /// The slot it is about: the host drops it once that slot is decided in its own log. `None`
    /// for what concerns all slots (scalars), kept until released.
    fn slot(&self) -> Option<Slot>;

    /// For a record of which only the latest counts, a number that such records share: the host
    /// may drop all but the last of them.
    fn scalar(&self) -> Option<u8> {
        None
    }

    /// The host lost, or never stored, what was attached: the record stands without it.
    fn drop_attachment(&mut self) {}

    /// The entry whose bytes it carries: the host finds them here when the entry is decided, so
    /// that they are written once.
    fn entry(&self) -> Option<&Entry> {
        None
    }
}

/// The machine's part of the state after a decided prefix.
pub trait Base: Wire + Clone + Default + PartialEq + Debug {
    /// Moves past one decided slot; `None` for a no-op. Called in slot order without gaps.
    fn advance(&mut self, slot: Slot, entry: Option<&Entry>);

    /// Whether an entry was decided in the prefix. A machine that does not keep track says no: then
    /// the host carries entries on for which it never saw a decision.
    fn contains(&self, entry: EntryId) -> bool {
        let _ = entry;
        false
    }
}
