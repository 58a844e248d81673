//! What gateways say to replicas.

use super::frame;
use crate::book::ParticipantId;
use crate::exchange::{Command, GatewayId, SymbolId};
use crate::fair::StampedRequest;
use crate::wire::{Reader, WireError};

/// A message from a gateway to a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToReplica {
    /// The gateway at this end; the first message of a link.
    Hello(GatewayId),
    /// A request for the log. A replica that does not lead leaves it alone.
    Order(StampedRequest),
    /// The answer to a question for the time.
    Clock {
        /// The time in the question, by the replica's clock.
        asked_ns: u64,
        /// When the question came, by the gateway's clock.
        received_ns: u64,
        /// When the answer was sent, by the gateway's clock.
        answered_ns: u64,
    },
    /// Asks for the events of a symbol from a sequence on.
    Fetch {
        /// The symbol that something is missing of.
        symbol: SymbolId,
        /// The sequence of the first event that is missing.
        from: u64,
    },
    /// Asks for a participant's open orders in a symbol.
    Own(SymbolId, ParticipantId),
    /// A participant's connection was lost: its orders are to be cancelled, if it is treated so.
    Lost(ParticipantId),
}

impl ToReplica {
    /// The bytes of the frame.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::framed(|out| match *self {
            ToReplica::Hello(gateway) => {
                out.u8(b'G');
                out.u16(gateway.0);
            }
            ToReplica::Order(StampedRequest { stamp, request }) => {
                out.u8(b'O');
                Command::Order(stamp, request).write(out);
            }
            ToReplica::Clock {
                asked_ns,
                received_ns,
                answered_ns,
            } => {
                out.u8(b'C');
                out.u64(asked_ns);
                out.u64(received_ns);
                out.u64(answered_ns);
            }
            ToReplica::Fetch { symbol, from } => {
                out.u8(b'F');
                out.u16(symbol.0);
                out.u64(from);
            }
            ToReplica::Lost(participant) => {
                out.u8(b'X');
                out.u16(participant.0);
            }
            ToReplica::Own(symbol, participant) => {
                out.u8(b'W');
                out.u16(symbol.0);
                out.u16(participant.0);
            }
        })
    }

    /// Takes the first frame out of what a connection has received; `None` where its end is still to come.
    ///
    /// # Errors
    /// Why it is none; the connection has to end.
    pub fn take(received: &mut Vec<u8>) -> Result<Option<ToReplica>, WireError> {
        frame::take(received, frame::REQUEST_MAX, ToReplica::read)
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match from.u8()? {
            b'G' => ToReplica::Hello(GatewayId(from.u16()?)),
            b'O' => match Command::read(from)? {
                Command::Order(stamp, request) => {
                    ToReplica::Order(StampedRequest { stamp, request })
                }
                _ => return Err(WireError::Value("command of a gateway")),
            },
            b'C' => ToReplica::Clock {
                asked_ns: from.u64()?,
                received_ns: from.u64()?,
                answered_ns: from.u64()?,
            },
            b'F' => ToReplica::Fetch {
                symbol: SymbolId(from.u16()?),
                from: from.u64()?,
            },
            b'X' => ToReplica::Lost(ParticipantId(from.u16()?)),
            b'W' => ToReplica::Own(SymbolId(from.u16()?), ParticipantId(from.u16()?)),
            _ => return Err(WireError::Value("kind of message")),
        })
    }
}
