//! What is said between a gateway and those who follow the feed.

use super::frame;
use super::replica::RequestStatus;
use crate::exchange::SymbolId;
use crate::feed::{BookSnapshot, Packet};
use crate::wire::{Reader, WireError};

/// What a subscriber asks of a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeedRequest {
    /// Wants the messages of a symbol from a sequence on. It is sent the open orders first where the gateway no longer
    /// keeps these messages, or where the sequence is 0.
    Subscribe {
        /// The symbol to follow.
        symbol: SymbolId,
        /// The sequence of the first message.
        from: u64,
    },
    /// Wants to know how the gateway is.
    Status,
}

/// What a gateway tells a subscriber.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FeedFrame {
    /// Messages that may be seen. The first packet has none, and says how far each symbol is.
    Packet(Packet),
    /// The open orders of a symbol, after which its messages go on.
    Book(BookSnapshot),
    /// How the gateway is.
    Status(GatewayStatus),
}

/// How a gateway is, and what it was told by the leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GatewayStatus {
    /// The place of the leader among the replicas that the gateway knows, from 1; 0 where none leads.
    pub leader: u16,
    /// The messages that the gateway has shown.
    pub shown: u64,
    /// Messages among these that it had after their time.
    pub late: u64,
    /// Requests that wait for their answer.
    pub pending: u64,
    /// How fair the leader found the order of the log.
    pub requests: RequestStatus,
}

impl FeedRequest {
    /// The bytes of the frame.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::framed(|out| match *self {
            FeedRequest::Subscribe { symbol, from } => {
                out.u8(b'F');
                out.u16(symbol.0);
                out.u64(from);
            }
            FeedRequest::Status => out.u8(b'S'),
        })
    }

    /// Takes the first frame out of what a connection has received; `None` where its end is still to come.
    ///
    /// # Errors
    /// Why it is none; the connection has to end.
    pub fn take(received: &mut Vec<u8>) -> Result<Option<FeedRequest>, WireError> {
        frame::take(received, frame::REQUEST_MAX, |from| {
            Ok(match from.u8()? {
                b'F' => FeedRequest::Subscribe {
                    symbol: SymbolId(from.u16()?),
                    from: from.u64()?,
                },
                b'S' => FeedRequest::Status,
                _ => return Err(WireError::Value("kind of message")),
            })
        })
    }
}

impl FeedFrame {
    /// The bytes of the frame.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::framed(|out| match self {
            FeedFrame::Packet(packet) => {
                out.u8(b'P');
                packet.write(out);
            }
            FeedFrame::Book(snapshot) => {
                out.u8(b'B');
                snapshot.write(out);
            }
            FeedFrame::Status(status) => {
                out.u8(b'S');
                out.u16(status.leader);
                out.u64(status.shown);
                out.u64(status.late);
                out.u64(status.pending);
                status.requests.write(out);
            }
        })
    }

    /// Takes the first frame out of what a connection has received; `None` where its end is still to come.
    ///
    /// # Errors
    /// Why it is none; the connection has to end.
    pub fn take(received: &mut Vec<u8>) -> Result<Option<FeedFrame>, WireError> {
        frame::take(received, frame::FRAME_MAX, |from: &mut Reader<'_>| {
            Ok(match from.u8()? {
                b'P' => FeedFrame::Packet(Packet::read(from)?),
                b'B' => FeedFrame::Book(BookSnapshot::read(from)?),
                b'S' => FeedFrame::Status(GatewayStatus {
                    leader: from.u16()?,
                    shown: from.u64()?,
                    late: from.u64()?,
                    pending: from.u64()?,
                    requests: RequestStatus::read(from)?,
                }),
                _ => return Err(WireError::Value("kind of message")),
            })
        })
    }
}
