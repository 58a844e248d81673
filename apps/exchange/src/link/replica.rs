//! What replicas say to gateways.

use super::frame;
use crate::book::{ParticipantId, Price, Side};
use crate::exchange::{Outcome, SYMBOLS_MAX, SymbolEvent, SymbolId};
use crate::fair::InboundUnfairness;
use crate::feed::{BookSnapshot, PACKET_MESSAGES_MAX};
use crate::wire::{Reader, WireError, Writer};

/// A message from a replica to a gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromReplica {
    /// Whether the replica leads: requests go to it from now on.
    Leads(bool),
    /// A request that the gateway sent is done.
    Answer(AnsweredRequest),
    /// Committed events, with the owners of orders; gateways tell these at once, and everybody at the time of release.
    Events {
        /// When gateways may show the events, in ns since the Unix epoch.
        release_ns: u64,
        /// At most [`PACKET_MESSAGES_MAX`] events.
        events: Vec<SymbolEvent>,
    },
    /// How far symbols are, and how fair the exchange was since the replica was started.
    Status {
        /// The last sequence of symbols.
        latest: Vec<(SymbolId, u64)>,
        /// What was executed out of the order of stamps.
        requests: RequestStatus,
    },
    /// The open orders of a symbol, where the events that were asked for are kept no more.
    Book {
        /// The sequence that was asked for.
        from: u64,
        /// The open orders, as of the last event.
        snapshot: BookSnapshot,
    },
    /// A participant's open orders in a symbol.
    Own {
        /// The symbol that was asked for.
        symbol: SymbolId,
        /// The participant that was asked for.
        participant: ParticipantId,
        /// The open orders: those that buy, then those that sell, each in the order in which they trade.
        orders: Vec<OwnOrder>,
    },
    /// The orders of a participant whose connection was lost are cancelled, or are not to be.
    Cancelled(ParticipantId),
    /// Asks for the time; the time here is in the answer.
    Clock(u64),
}

/// The answer of a replica to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnsweredRequest {
    /// The symbol of the request.
    pub symbol: SymbolId,
    /// The participant that asked.
    pub participant: ParticipantId,
    /// The number of the request.
    pub number: u64,
    /// Whether the request was carried out, and to what effect.
    pub outcome: Outcome,
    /// Whether it was done before, and this is what it came to then.
    pub is_repeated: bool,
}

/// An open order, as its owner sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnOrder {
    /// The owner's number for it.
    pub number: u64,
    /// Whether it buys or sells.
    pub side: Side,
    /// The price it waits at.
    pub price: Price,
    /// The lots that wait.
    pub open: u64,
}

/// How fair a replica found the order of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestStatus {
    /// Requests in the log that were stamped earlier than others before them.
    pub inbound: InboundUnfairness,
    /// Requests that came too late to the sequencer of the replica.
    pub late: u64,
    /// Requests whose stamps did not count, for their gateway's clock was wrong.
    pub quarantined: u64,
}

impl RequestStatus {
    pub(super) fn write(&self, out: &mut Writer) {
        let inbound = &self.inbound;
        for count in [
            inbound.requests,
            inbound.before_previous,
            inbound.before_any,
            inbound.before_previous_of_symbol,
            inbound.before_any_of_symbol,
            self.late,
            self.quarantined,
        ] {
            out.u64(count);
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(RequestStatus {
            inbound: InboundUnfairness {
                requests: from.u64()?,
                before_previous: from.u64()?,
                before_any: from.u64()?,
                before_previous_of_symbol: from.u64()?,
                before_any_of_symbol: from.u64()?,
            },
            late: from.u64()?,
            quarantined: from.u64()?,
        })
    }
}

impl FromReplica {
    /// The bytes of the frame.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        frame::framed(|out| match self {
            FromReplica::Leads(leads) => {
                out.u8(b'L');
                out.flag(*leads);
            }
            FromReplica::Answer(answered) => {
                out.u8(b'A');
                out.u16(answered.symbol.0);
                out.u16(answered.participant.0);
                out.u64(answered.number);
                answered.outcome.write(out);
                out.flag(answered.is_repeated);
            }
            FromReplica::Events { release_ns, events } => {
                out.u8(b'E');
                out.u64(*release_ns);
                out.length(events.len());
                events.iter().for_each(|event| event.write(out));
            }
            FromReplica::Status { latest, requests } => {
                out.u8(b'S');
                out.length(latest.len());
                for (symbol, sequence) in latest {
                    out.u16(symbol.0);
                    out.u64(*sequence);
                }
                requests.write(out);
            }
            FromReplica::Book { from, snapshot } => {
                out.u8(b'B');
                out.u64(*from);
                snapshot.write(out);
            }
            FromReplica::Own {
                symbol,
                participant,
                orders,
            } => {
                out.u8(b'W');
                out.u16(symbol.0);
                out.u16(participant.0);
                out.length(orders.len());
                for order in orders {
                    out.u64(order.number);
                    out.u8(order.side.code());
                    out.u32(order.price.0);
                    out.u64(order.open);
                }
            }
            FromReplica::Cancelled(participant) => {
                out.u8(b'X');
                out.u16(participant.0);
            }
            FromReplica::Clock(asked_ns) => {
                out.u8(b'C');
                out.u64(*asked_ns);
            }
        })
    }

    /// Takes the first frame out of what a connection has received; `None` where its end is still to come.
    ///
    /// # Errors
    /// Why it is none; the connection has to end.
    pub fn take(received: &mut Vec<u8>) -> Result<Option<FromReplica>, WireError> {
        frame::take(received, frame::FRAME_MAX, FromReplica::read)
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match from.u8()? {
            b'L' => FromReplica::Leads(from.flag("leads")?),
            b'A' => FromReplica::Answer(AnsweredRequest {
                symbol: SymbolId(from.u16()?),
                participant: ParticipantId(from.u16()?),
                number: from.u64()?,
                outcome: Outcome::read(from)?,
                is_repeated: from.flag("repeated")?,
            }),
            b'E' => {
                let release_ns = from.u64()?;
                let count = from.length(SymbolEvent::BYTES_MIN)?;
                if count > PACKET_MESSAGES_MAX {
                    return Err(WireError::Value("events"));
                }
                let mut events = Vec::new();
                for _ in 0..count {
                    events.push(SymbolEvent::read(from)?);
                }
                FromReplica::Events { release_ns, events }
            }
            b'S' => {
                let count = from.length(10)?;
                if count > SYMBOLS_MAX {
                    return Err(WireError::Value("symbols"));
                }
                let mut latest = Vec::new();
                for _ in 0..count {
                    latest.push((SymbolId(from.u16()?), from.u64()?));
                }
                FromReplica::Status {
                    latest,
                    requests: RequestStatus::read(from)?,
                }
            }
            b'B' => FromReplica::Book {
                from: from.u64()?,
                snapshot: BookSnapshot::read(from)?,
            },
            b'X' => FromReplica::Cancelled(ParticipantId(from.u16()?)),
            b'W' => {
                let (symbol, participant) = (SymbolId(from.u16()?), ParticipantId(from.u16()?));
                let mut orders = Vec::new();
                for _ in 0..from.length(21)? {
                    orders.push(OwnOrder {
                        number: from.u64()?,
                        side: Side::of_code(from.u8()?)?,
                        price: Price(from.u32()?),
                        open: from.u64()?,
                    });
                }
                FromReplica::Own {
                    symbol,
                    participant,
                    orders,
                }
            }
            b'C' => FromReplica::Clock(from.u64()?),
            _ => return Err(WireError::Value("kind of message")),
        })
    }
}
