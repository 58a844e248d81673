//! Commands, replies and outcomes as bytes, of which each field has its place.

use super::command::{
    Action, Command, GatewayId, Outcome, Refused, Reply, Request, Stamp, SymbolEvent, SymbolId,
};
use crate::book::{
    BookRules, Entered, Event, ParticipantId, Phase, Price, Pricing, Refusal, SelfTrade, Side,
    TimeInForce,
};
use crate::wire::{Reader, WireError, Writer};
use quorate::{Bytes, FormatError, Message};

impl Message for Command {
    fn to_bytes(&self) -> Result<Bytes, FormatError> {
        let mut out = Writer::default();
        self.write(&mut out);
        Ok(Bytes::from(out.bytes))
    }

    fn from_bytes(bytes: &Bytes) -> Result<Self, FormatError> {
        whole(bytes, Command::read)
    }
}

impl Message for Reply {
    fn to_bytes(&self) -> Result<Bytes, FormatError> {
        let mut out = Writer::default();
        self.outcome.write(&mut out);
        out.flag(self.is_repeated);
        out.flag(self.stamp.is_some());
        if let Some(stamp) = self.stamp {
            stamp.write(&mut out);
        }
        out.length(self.events.len());
        for one in &self.events {
            one.write(&mut out);
        }
        Ok(Bytes::from(out.bytes))
    }

    fn from_bytes(bytes: &Bytes) -> Result<Self, FormatError> {
        whole(bytes, |from| {
            let outcome = Outcome::read(from)?;
            let is_repeated = from.flag("repeated")?;
            let stamp = match from.flag("stamped")? {
                true => Some(Stamp::read(from)?),
                false => None,
            };
            let mut events = Vec::new();
            for _ in 0..from.length(SymbolEvent::BYTES_MIN)? {
                events.push(SymbolEvent::read(from)?);
            }
            Ok(Reply {
                outcome,
                is_repeated,
                stamp,
                events,
            })
        })
    }
}

fn whole<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<T, FormatError> {
    Reader::whole(bytes, read).map_err(FormatError::new)
}

impl SymbolEvent {
    /// The fewest bytes of an event with its symbol.
    pub(crate) const BYTES_MIN: usize = 10 + Event::BYTES_MIN;

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u16(self.symbol.0);
        out.u64(self.time_ns);
        self.event.write(out);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(SymbolEvent {
            symbol: SymbolId(from.u16()?),
            time_ns: from.u64()?,
            event: Event::read(from)?,
        })
    }
}

impl Command {
    pub(crate) fn write(&self, out: &mut Writer) {
        match self {
            Command::AddSymbol { symbol, rules } => {
                out.u8(0);
                out.u16(symbol.0);
                rules.write(out);
            }
            Command::SetParticipant {
                participant,
                cancels_on_disconnect,
            } => {
                out.u8(1);
                out.u16(participant.0);
                out.flag(*cancels_on_disconnect);
            }
            Command::Request(request) => {
                out.u8(2);
                request.write(out);
            }
            Command::Order(stamp, request) => {
                out.u8(7);
                stamp.write(out);
                request.write(out);
            }
            Command::Disconnected(participant) => {
                out.u8(3);
                out.u16(participant.0);
            }
            Command::SetPhase(symbol, phase) => {
                out.u8(4);
                out.u16(symbol.0);
                out.u8(phase.code());
            }
            Command::EndDay(symbol) => {
                out.u8(5);
                out.u16(symbol.0);
            }
            Command::Expire(symbol) => {
                out.u8(6);
                out.u16(symbol.0);
            }
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match from.u8()? {
            0 => Command::AddSymbol {
                symbol: SymbolId(from.u16()?),
                rules: BookRules::read(from)?,
            },
            1 => Command::SetParticipant {
                participant: ParticipantId(from.u16()?),
                cancels_on_disconnect: from.flag("cancels on disconnect")?,
            },
            2 => Command::Request(Request::read(from)?),
            3 => Command::Disconnected(ParticipantId(from.u16()?)),
            4 => Command::SetPhase(SymbolId(from.u16()?), Phase::of_code(from.u8()?)?),
            5 => Command::EndDay(SymbolId(from.u16()?)),
            6 => Command::Expire(SymbolId(from.u16()?)),
            7 => Command::Order(Stamp::read(from)?, Request::read(from)?),
            _ => return Err(WireError::Value("kind of command")),
        })
    }
}

impl Stamp {
    pub(crate) fn write(self, out: &mut Writer) {
        out.u64(self.time_ns);
        out.u16(self.gateway.0);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Stamp {
            time_ns: from.u64()?,
            gateway: GatewayId(from.u16()?),
        })
    }
}

impl Request {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u16(self.symbol.0);
        out.u16(self.participant.0);
        out.u64(self.number);
        out.u8(self.action.code());
        self.action.write_fields(out);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Request {
            symbol: SymbolId(from.u16()?),
            participant: ParticipantId(from.u16()?),
            number: from.u64()?,
            action: Action::read_fields(from.u8()?, from)?,
        })
    }
}

impl Action {
    /// The byte that stands for this kind of action in commands.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Action::Enter { .. } => 0,
            Action::Cancel(_) => 1,
            Action::Reduce { .. } => 2,
            Action::Replace { .. } => 3,
            Action::CancelAll => 4,
        }
    }

    pub(crate) fn write_fields(&self, out: &mut Writer) {
        match *self {
            Action::Enter {
                side,
                quantity,
                pricing,
                time_in_force,
                post_only,
                self_trade,
            } => {
                out.u8(side.code());
                out.u64(quantity);
                pricing.write(out);
                time_in_force.write(out);
                out.flag(post_only);
                out.u8(self_trade.code());
            }
            Action::Cancel(order) => out.u64(order),
            Action::Reduce { order, by } => {
                out.u64(order);
                out.u64(by);
            }
            Action::Replace {
                order,
                price,
                quantity,
            } => {
                out.u64(order);
                out.u32(price.0);
                out.u64(quantity);
            }
            Action::CancelAll => {}
        }
    }

    pub(crate) fn read_fields(code: u8, from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match code {
            0 => Action::Enter {
                side: Side::of_code(from.u8()?)?,
                quantity: from.u64()?,
                pricing: Pricing::read(from)?,
                time_in_force: TimeInForce::read(from)?,
                post_only: from.flag("post-only")?,
                self_trade: SelfTrade::of_code(from.u8()?)?,
            },
            1 => Action::Cancel(from.u64()?),
            2 => Action::Reduce {
                order: from.u64()?,
                by: from.u64()?,
            },
            3 => Action::Replace {
                order: from.u64()?,
                price: Price(from.u32()?),
                quantity: from.u64()?,
            },
            4 => Action::CancelAll,
            _ => return Err(WireError::Value("action")),
        })
    }
}

impl Outcome {
    pub(crate) fn write(&self, out: &mut Writer) {
        match self {
            Outcome::Done => out.u8(0),
            Outcome::Entered(entered) => {
                out.u8(1);
                entered.write(out);
            }
            Outcome::Open(lots) => {
                out.u8(2);
                out.u64(*lots);
            }
            Outcome::Cancelled(orders) => {
                out.u8(3);
                out.u32(*orders);
            }
            Outcome::Refused(refused) => {
                out.u8(4);
                refused.write(out);
            }
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match from.u8()? {
            0 => Outcome::Done,
            1 => Outcome::Entered(Entered::read(from)?),
            2 => Outcome::Open(from.u64()?),
            3 => Outcome::Cancelled(from.u32()?),
            4 => Outcome::Refused(Refused::read(from)?),
            _ => return Err(WireError::Value("outcome")),
        })
    }
}

impl Refused {
    /// The reasons that are not the book's, by their codes from 1.
    const OWN: [Refused; 6] = [
        Refused::UnknownSymbol,
        Refused::UnknownParticipant,
        Refused::KnownSymbol,
        Refused::Rules,
        Refused::TooManySymbols,
        Refused::OldRequest,
    ];

    fn write(&self, out: &mut Writer) {
        match self {
            Refused::Book(refusal) => {
                out.u8(0);
                out.u8(refusal.code());
            }
            own => {
                let place = Refused::OWN.iter().position(|one| one == own);
                out.u8(place.map_or(u8::MAX, |place| place as u8 + 1));
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        match from.u8()? {
            0 => Refusal::of_code(from.u8()?).map(Refused::Book),
            code => {
                let own = Refused::OWN.get(usize::from(code) - 1);
                own.copied().ok_or(WireError::Value("refusal"))
            }
        }
    }
}
