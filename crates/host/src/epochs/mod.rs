//! How a group gets from one epoch to the next: the rules, as values in and values out.
//!
//! An epoch ends where a valid [`Reconfigure`] is applied, and the next one begins with the slot
//! behind it. This module decides; the host performs: it applies orders through [`GroupState::apply`],
//! keeps what is decided in a [`Window`], and feeds a [`Succession`], whose outputs say when the
//! machine of an epoch is started and stopped, what members tell each other, and when a replica
//! that left may delete its data.
//!
//! # Words
//!
//! Of an epoch `e` that was sealed at slot `s`, and the epoch `e + 1` behind it:
//!
//! - *sealed*: a valid reconfiguration was applied at `s`. What `e` decided behind `s` is void.
//! - *holds*: a member of `e + 1` has the state through `s` durably. Before that it does not vote.
//! - *opened*: `f' + 1` members of `e + 1` hold, where `f'` of them may fail. Whatever was
//!   acknowledged in `e` survives from there on without the members of `e`.
//! - *settled*: the same is true of the bytes of payloads ([`payload_safety`]).
//! - *leaver*: a replica that some epoch lists, and the newest does not.
//!
//! All of these are stable: once true, anybody may repeat them.

mod alarms;
mod change;
mod edit;
mod leader;
mod note;
pub mod payload_safety;
pub mod precheck;
mod rule;
mod state;
mod succession;
#[cfg(test)]
mod tests;
mod window;

pub use alarms::{Alarm, AlarmChange, AlarmKind, Alarms, Scope};
pub use change::{Configuration, Expect, Face, Order, Reconfigure};
pub use edit::{Edit, EditError};
pub use leader::NamedLeader;
pub use note::{ANY_EPOCH, Known, Note, Record};
pub use rule::{Invalid, judge};
pub use state::{Effect, GroupState};
pub use succession::{Input, Output, Standing, Succession};
pub use window::Window;
