//! Orders in the shape of FIX 4.4: a subset of it, between a participant's engine and a gateway.
//!
//! [`Message`] is bytes to fields and back. A [`Client`] is what a gateway knows of a participant: the numbers of the
//! session, messages that may be asked for again, and the orders that were entered here. It has no sockets, no files
//! and no clock: it is told what comes and the time, and says what is to be sent, what is to be done, and which changes
//! are to be on the disk before that. `docs/reference/exchange-fix.md` lists the fields.

mod client;
mod codec;
mod journal;
mod kept;
mod reports;
mod requests;
mod session;
mod tag;
mod time;
mod translate;

pub use client::{Client, FixOutput};
pub use codec::{BODY_MAX, Defect, FIELDS_MAX, FrameError, Message};
pub use journal::{Journaled, header, read, record};
pub use session::{EXCHANGE, HEARTBEAT_SECONDS, LogonWish, refusal};

#[cfg(test)]
mod tests;
