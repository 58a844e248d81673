//! What a participant sends.

use super::Token;
use crate::book::ParticipantId;
use crate::exchange::{Action, Request, SymbolId};
use crate::wire::{Reader, WireError, Writer};

/// The letters of requests, by the codes of their actions.
const REQUESTS: [u8; 5] = *b"OXRUM";

/// A message from a participant to a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientMessage {
    /// Begins a session; nothing else counts before it.
    Login(ParticipantId, Token),
    /// Says that the participant is there.
    Heartbeat,
    /// Ends the session.
    Logout,
    /// Has something done.
    Request(OrderRequest),
}

/// A request in a session, whose participant is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderRequest {
    /// The symbol that is traded.
    pub symbol: SymbolId,
    /// The number among this participant's requests for the symbol.
    pub number: u64,
    /// What is to be done.
    pub action: Action,
}

impl OrderRequest {
    /// The request as the exchange takes it.
    #[must_use]
    pub fn of(self, participant: ParticipantId) -> Request {
        Request {
            symbol: self.symbol,
            participant,
            number: self.number,
            action: self.action,
        }
    }
}

impl ClientMessage {
    /// The most bytes of a message.
    pub const BYTES_MAX: usize = 40;

    /// The bytes of the message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            ClientMessage::Login(participant, token) => {
                out.u8(b'L');
                out.u16(participant.0);
                out.bytes.extend_from_slice(&token.to_bytes());
            }
            ClientMessage::Heartbeat => out.u8(b'H'),
            ClientMessage::Logout => out.u8(b'Q'),
            ClientMessage::Request(request) => {
                let code = usize::from(request.action.code());
                out.u8(REQUESTS.get(code).copied().unwrap_or_default());
                out.u16(request.symbol.0);
                out.u64(request.number);
                request.action.write_fields(&mut out);
            }
        }
        out.bytes
    }

    /// The message in some bytes.
    ///
    /// # Errors
    /// Why they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<ClientMessage, WireError> {
        Reader::whole(bytes, ClientMessage::read)
    }

    /// Takes the first message out of what a connection has received; `None` where its end is still to come.
    ///
    /// # Errors
    /// Why no message can ever begin so; the connection has to end.
    pub fn take(received: &mut Vec<u8>) -> Result<Option<ClientMessage>, WireError> {
        Reader::take(received, ClientMessage::read)
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match from.u8()? {
            b'L' => {
                let participant = ParticipantId(from.u16()?);
                ClientMessage::Login(participant, Token::of_bytes(from.array()?))
            }
            b'H' => ClientMessage::Heartbeat,
            b'Q' => ClientMessage::Logout,
            letter => {
                let code = REQUESTS.iter().position(|one| *one == letter);
                let code = code.ok_or(WireError::Value("kind of message"))? as u8;
                ClientMessage::Request(OrderRequest {
                    symbol: SymbolId(from.u16()?),
                    number: from.u64()?,
                    action: Action::read_fields(code, from)?,
                })
            }
        })
    }
}
