//! The form of commands and results in the log, around those of the state machine.

use crate::state_machine::{ClientId, RequestId};
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, Wire, WireError};

/// A command in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Envelope {
    /// A command that is sent once.
    Once(Bytes),
    /// The beginning of a client.
    Open,
    /// A command that may be sent again, and is applied at most once.
    Request(RequestId, Bytes),
}

impl Wire for Envelope {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Envelope::Once(body) => {
                out.u8(0);
                out.bytes(body);
            }
            Envelope::Open => out.u8(1),
            Envelope::Request(id, body) => {
                out.u8(2);
                out.varint(id.client.0);
                out.varint(id.number);
                out.bytes(body);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Envelope::Once(input.bytes()?),
            1 => Envelope::Open,
            2 => {
                let client = ClientId(input.varint()?);
                let number = input.varint()?;
                Envelope::Request(RequestId { client, number }, input.bytes()?)
            }
            tag => return Err(WireError::Tag("envelope", tag)),
        })
    }
}

/// What a command in the log comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The state machine's reply.
    Reply(Bytes),
    /// The client has this name.
    Opened(ClientId),
    /// The client is not known any more; nothing was done.
    Forgotten,
    /// A later request of the same client was applied before; nothing was done.
    Overtaken,
    /// Nothing was done, for this reason.
    Refused(String),
    /// The command was carried out, and its reply has no form in bytes, for this reason.
    Unreplied(String),
}

impl Wire for Outcome {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Outcome::Reply(body) => {
                out.u8(0);
                out.bytes(body);
            }
            Outcome::Opened(client) => {
                out.u8(1);
                out.varint(client.0);
            }
            Outcome::Forgotten => out.u8(2),
            Outcome::Overtaken => out.u8(3),
            Outcome::Refused(why) => {
                out.u8(4);
                out.string(why);
            }
            Outcome::Unreplied(why) => {
                out.u8(5);
                out.string(why);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            0 => Outcome::Reply(input.bytes()?),
            1 => Outcome::Opened(ClientId(input.varint()?)),
            2 => Outcome::Forgotten,
            3 => Outcome::Overtaken,
            4 => Outcome::Refused(input.string()?),
            5 => Outcome::Unreplied(input.string()?),
            tag => return Err(WireError::Tag("outcome", tag)),
        })
    }
}
