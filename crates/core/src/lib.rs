//! The contract between Quorate's rings.
//!
//! Everything here is plain data and arithmetic: no clock, no randomness, no I/O. A protocol
//! (ring one) implements [`Machine`]; the host (ring two) drives it; an application implements
//! [`Application`].
//!
//! The vocabulary is the field's, one word per thing: a *command* is what a client wants applied,
//! an *entry* is a batch of commands in the log, a *slot* is a log position, and an entry is
//! *appended*, *decided*, *committed* and *applied*, in that order.

mod application;
mod carried;
mod coin;
mod command;
mod command_properties;
mod entry;
mod epoch;
mod ids;
mod intervals;
mod introspect;
mod machine;
mod members;
mod out;
pub mod pace;
mod payload;
mod quorum;
mod step;
mod time;
mod wire;

pub use application::{Admission, Application, At, Countdown};
pub use carried::{carried, hollow_share};
pub use coin::coin;
pub use command::{Class, Command, Principal, RequestId};
pub use command_properties::{CommandProperties, Join, Touches};
pub use entry::{ENTRY_BYTES_MAX, Entry, EntryBuilder};
pub use epoch::{Catalogue, Chain, ChainError, Durability, Epoch, Member, Numbers, Seat, Unfit};
pub use ids::{Boot, ClientId, ClusterId, EntryId, Group, Incarnation, Lsn, ReplicaId, Slot};
pub use intervals::EntrySet;
pub use introspect::Introspect;
pub use machine::{Attachment, Base, Carry, Machine, PayloadRule, Plain, Record};
pub use members::{MemberIndex, MemberSet, Members};
pub use out::Out;
pub use payload::{PAYLOAD_BYTES_MAX, Payload, PayloadId, Share};
pub use quorum::{majority, reached};
pub use step::{Event, Input, Outcome, Output, Past, Peers, Refusal};
pub use time::{Due, MICROS, MILLIS, Now, SECONDS};
pub use wire::{Decoder, Encoder, Wire, WireError, Written};
