//! What is on its way between replicas.

use quorate_core::{Entry, Plain, Slot};
use std::fmt;

/// Something on its way from one replica to another.
pub struct Packet<M: Plain> {
    /// The number of the packet, in the order packets were sent.
    pub number: u64,
    /// The index of the sender.
    pub from: usize,
    /// The index of the receiver.
    pub to: usize,
    /// When it arrives, in ns of [`Cluster::now_ns`](crate::Cluster::now_ns), where that is used.
    pub due_ns: u64,
    /// The content of the packet.
    pub body: Body<M>,
}

/// What a packet says.
pub enum Body<M: Plain> {
    /// A message of a machine, as it was sent.
    Message(M::Message),
    /// Host to host: a request for the decided log from a slot on.
    Fetch(Slot),
    /// Host to host: a stretch of the decided log, and its first slot.
    Log(Slot, Vec<Option<Entry>>),
}

impl<M: Plain> Packet<M> {
    /// The message of a machine, if it is one.
    #[must_use]
    pub fn message(&self) -> Option<&M::Message> {
        match &self.body {
            Body::Message(message) => Some(message),
            Body::Fetch(_) | Body::Log(..) => None,
        }
    }
}

impl<M: Plain> Clone for Packet<M> {
    fn clone(&self) -> Self {
        Packet {
            body: self.body.clone(),
            ..*self
        }
    }
}

impl<M: Plain> Clone for Body<M> {
    fn clone(&self) -> Self {
        match self {
            Body::Message(message) => Body::Message(message.clone()),
            Body::Fetch(slot) => Body::Fetch(*slot),
            Body::Log(slot, entries) => Body::Log(*slot, entries.clone()),
        }
    }
}

impl<M: Plain> fmt::Debug for Packet<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packet {
            number,
            from,
            to,
            body,
            ..
        } = self;
        write!(f, "#{number} {from}->{to} {body:?}")
    }
}

impl<M: Plain> fmt::Debug for Body<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Message(message) => write!(f, "{message:?}"),
            Body::Fetch(slot) => write!(f, "fetch from {slot:?}"),
            Body::Log(slot, entries) => write!(f, "log from {slot:?}, {} slots", entries.len()),
        }
    }
}
