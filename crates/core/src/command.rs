//! Commands: what clients and hosts want applied.

use crate::ids::ClientId;
use crate::payload::Payload;
use crate::wire::{Decoder, Encoder, Wire, WireError};
use bytes::Bytes;

/// Names one request of one client, for at-most-once execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RequestId {
    /// The client that asks.
    pub client: ClientId,
    /// Counts that client's requests, from 1.
    pub seq: u64,
}

impl Wire for RequestId {
    fn encode(&self, out: &mut Encoder) {
        out.u64(self.client.0);
        out.varint(self.seq);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(RequestId {
            client: ClientId(input.u64()?),
            seq: input.varint()?,
        })
    }
}

/// Who asked, so that rights are checked where a command is applied. 0 is the operator of a
/// cluster without authentication.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Principal(pub u32);

/// What a command is to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Applied by the application.
    Write,
    /// A linearizable read. Never in an entry: the machine answers with the slot it may be read at.
    Read,
    /// Opens the session of `id.client`. The body names the session's owner, whose earlier
    /// sessions it ends.
    OpenSession,
    /// Ends the session of `id.client`: its later commands are refused, never executed.
    EndSession,
    /// About the group itself: the host applies it, not the application. It may end the epoch, so it
    /// is alone in its entry ([`crate::Entry::is_order`]).
    Order,
}

impl Wire for Class {
    fn encode(&self, out: &mut Encoder) {
        out.u8(match self {
            Class::Write => 0,
            Class::Read => 1,
            Class::OpenSession => 2,
            Class::EndSession => 3,
            Class::Order => ORDER,
        });
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Class::of_tag(input.u8()?)
    }
}

impl Class {
    fn of_tag(tag: u8) -> Result<Self, WireError> {
        Ok(match tag {
            0 => Class::Write,
            1 => Class::Read,
            2 => Class::OpenSession,
            3 => Class::EndSession,
            ORDER => Class::Order,
            tag => return Err(WireError::Tag("class", tag)),
        })
    }
}

/// What a client wants applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The request that this is; one id is executed at most once.
    pub id: RequestId,
    /// The client has its answers to every sequence number up to this one, and what they answer is decided:
    /// their results may go, and none of them is executed any more.
    pub acked: u64,
    /// What kind of command.
    pub class: Class,
    /// The principal that asked.
    pub principal: Principal,
    /// The application's own encoding: of all of it, or of all but the payloads.
    pub body: Bytes,
    /// The bulky parts that are kept apart. Only a write has any.
    pub payloads: Vec<Payload>,
}

/// In the place of a class: a write with payloads.
const WRITE_APART: u8 = 4;
/// The class of an order.
const ORDER: u8 = 5;

impl Command {
    /// An upper bound of the encoded size, in bytes.
    #[must_use]
    pub fn encoded_len_max(&self) -> usize {
        48 + self.body.len() + 24 * self.payloads.len()
    }

    /// Bytes of its payloads.
    #[must_use]
    pub fn bulk_len(&self) -> u64 {
        self.payloads.iter().map(|part| u64::from(part.len)).sum()
    }
}

impl Wire for Command {
    fn encode(&self, out: &mut Encoder) {
        self.id.encode(out);
        out.varint(self.acked);
        if self.payloads.is_empty() {
            self.class.encode(out);
        } else {
            debug_assert_eq!(self.class, Class::Write);
            out.u8(WRITE_APART);
            out.varint(self.payloads.len() as u64);
            self.payloads.iter().for_each(|payload| payload.encode(out));
        }
        out.varint(u64::from(self.principal.0));
        out.bytes(&self.body);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (id, acked) = (RequestId::decode(input)?, input.varint()?);
        let mut payloads = Vec::new();
        let class = match input.u8()? {
            WRITE_APART => {
                for _ in 0..input.count(Payload::BYTES_MIN)? {
                    payloads.push(Payload::decode(input)?);
                }
                Class::Write
            }
            tag => Class::of_tag(tag)?,
        };
        Ok(Command {
            id,
            acked,
            class,
            principal: Principal(
                u32::try_from(input.varint()?).map_err(|_| WireError::Range("principal"))?,
            ),
            body: input.bytes()?,
            payloads,
        })
    }
}
