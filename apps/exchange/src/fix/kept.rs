//! What is kept of a participant: every change of it is one value, which is applied here and written to a journal.

use super::codec::Message;
use crate::book::{Price, Side};
use crate::exchange::{Action, SymbolId};
use crate::wire::{Reader, WireError, Writer};
use std::collections::BTreeMap;

/// How many messages are kept to be sent again.
pub(super) const SENT_MAX: usize = 4096;

/// What a participant calls a request, and the order that it entered.
pub(super) type Name = (SymbolId, u64);

/// A message that may be asked for again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SentMessage {
    pub(super) time_ns: u64,
    /// Type and fields behind the header.
    pub(super) message: Message,
}

/// An order that was entered in this session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Order {
    /// The participant's name for it: of the request that entered it, or of the last one that replaced it.
    pub(super) cl_ord_id: u64,
    pub(super) side: Side,
    /// The limit of its price; `None` for an order at any price.
    pub(super) limit: Option<Price>,
    /// The lots that it is for, with those that traded.
    pub(super) quantity: u64,
    /// The lots that were reported to have traded.
    pub(super) executed: u64,
    /// The sum of prices times lots of what was reported.
    pub(super) money: u64,
    /// Whether the participant was told that the exchange has it.
    pub(super) is_accepted: bool,
    /// The lots that were cancelled as it came in; `None` before the exchange has answered.
    pub(super) cancelled: Option<u64>,
    /// The lots that answers said to have traded at once, less those that events said so: these are still to be told.
    pub(super) due: i64,
    /// The request that cancels it by the exchange's answer, where the event is still to come; 0 where none does.
    pub(super) cancelled_by: u64,
}

/// A request without an answer, or with an earlier one that has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pending {
    pub(super) action: Action,
    /// The side that the request said.
    pub(super) side: Side,
    /// How the request called the order that it is about; 0 where it enters one.
    pub(super) about: u64,
    /// Whether an event has told already what the answer will say.
    pub(super) is_told: bool,
    /// Whether it is answered, and waits for those before it: the exchange remembers only so many requests.
    pub(super) is_answered: bool,
}

/// One change of what is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// Both numbers of messages begin anew.
    Reset,
    /// The number that the next message from the participant has.
    Expected(u64),
    /// A message went out under the next number; one of the session alone is never sent again.
    Sent(Option<SentMessage>),
    Order(Name, Order),
    OrderGone(Name),
    Pending(Name, Pending),
    PendingGone(Name),
    /// The sequence of the last event of a symbol that was reported.
    Reported(SymbolId, u64),
    /// Whether the participant is logged on.
    Online(bool),
}

/// All that is kept of a participant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Kept {
    /// The number of the next message from the participant.
    pub(super) next_in: u64,
    /// The number of the next message to the participant.
    pub(super) next_out: u64,
    pub(super) sent: BTreeMap<u64, SentMessage>,
    pub(super) orders: BTreeMap<Name, Order>,
    pub(super) pending: BTreeMap<Name, Pending>,
    pub(super) reported: BTreeMap<SymbolId, u64>,
    pub(super) is_online: bool,
}

impl Default for Kept {
    fn default() -> Self {
        Kept {
            next_in: 1,
            next_out: 1,
            sent: BTreeMap::new(),
            orders: BTreeMap::new(),
            pending: BTreeMap::new(),
            reported: BTreeMap::new(),
            is_online: false,
        }
    }
}

impl Kept {
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Reset => {
                (self.next_in, self.next_out) = (1, 1);
                self.sent.clear();
            }
            Change::Expected(next) => self.next_in = next,
            Change::Sent(sent) => {
                if let Some(sent) = sent {
                    self.sent.insert(self.next_out, sent);
                    if self.sent.len() > SENT_MAX {
                        self.sent.pop_first();
                    }
                }
                self.next_out += 1;
            }
            Change::Order(name, order) => {
                self.orders.insert(name, order);
            }
            Change::OrderGone(name) => {
                self.orders.remove(&name);
            }
            Change::Pending(name, pending) => {
                self.pending.insert(name, pending);
            }
            Change::PendingGone(name) => {
                self.pending.remove(&name);
            }
            Change::Reported(symbol, sequence) => {
                self.reported.insert(symbol, sequence);
            }
            Change::Online(is_online) => self.is_online = is_online,
        }
    }

    /// Changes that make the same of nothing.
    pub(super) fn as_changes(&self) -> Vec<Change> {
        let mut changes = vec![Change::Expected(self.next_in)];
        let first = self
            .sent
            .first_key_value()
            .map_or(self.next_out, |(first, _)| *first);
        // Numbers before the first message that is kept.
        changes.extend((1..first).map(|_| Change::Sent(None)));
        let sent = (first..self.next_out).map(|number| self.sent.get(&number).cloned());
        changes.extend(sent.map(Change::Sent));
        let orders = self.orders.iter();
        changes.extend(orders.map(|(name, order)| Change::Order(*name, *order)));
        let pending = self.pending.iter();
        changes.extend(pending.map(|(name, pending)| Change::Pending(*name, *pending)));
        let reported = self.reported.iter();
        changes.extend(reported.map(|(symbol, sequence)| Change::Reported(*symbol, *sequence)));
        changes.push(Change::Online(self.is_online));
        changes
    }
}

fn write_name(out: &mut Writer, (symbol, number): Name) {
    out.u16(symbol.0);
    out.u64(number);
}

fn read_name(from: &mut Reader<'_>) -> Result<Name, WireError> {
    Ok((SymbolId(from.u16()?), from.u64()?))
}

impl Order {
    pub(super) fn open(&self) -> u64 {
        self.quantity.saturating_sub(self.executed)
    }

    /// The status that follows from the lots (tag 39).
    pub(super) fn status(&self) -> &'static str {
        match (self.executed, self.open()) {
            (0, _) => "0",
            (_, 0) => "2",
            _ => "1",
        }
    }

    /// The mean price of what traded, with four digits where it is no whole number.
    pub(super) fn mean_price(&self) -> String {
        let of = u128::from(self.executed.max(1));
        let scaled = u128::from(self.money) * 10_000 / of;
        match scaled % 10_000 {
            0 => (scaled / 10_000).to_string(),
            part => format!("{}.{part:04}", scaled / 10_000),
        }
    }
}

impl Order {
    fn write(&self, out: &mut Writer) {
        out.u64(self.cl_ord_id);
        out.u8(self.side.code());
        // No price is 0.
        out.u32(self.limit.map_or(0, |limit| limit.0));
        for number in [self.quantity, self.executed, self.money] {
            out.u64(number);
        }
        out.flag(self.is_accepted);
        out.flag(self.cancelled.is_some());
        let due = self.due.cast_unsigned();
        for number in [self.cancelled.unwrap_or(0), due, self.cancelled_by] {
            out.u64(number);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Order, WireError> {
        let (cl_ord_id, side) = (from.u64()?, Side::of_code(from.u8()?)?);
        let limit = Some(Price(from.u32()?)).filter(|limit| limit.0 > 0);
        let (quantity, executed, money) = (from.u64()?, from.u64()?, from.u64()?);
        let is_accepted = from.flag("accepted")?;
        let is_answered = from.flag("answered")?;
        let cancelled = from.u64()?;
        Ok(Order {
            cl_ord_id,
            side,
            limit,
            quantity,
            executed,
            money,
            is_accepted,
            cancelled: is_answered.then_some(cancelled),
            due: from.u64()?.cast_signed(),
            cancelled_by: from.u64()?,
        })
    }
}

impl Change {
    pub(super) fn write(&self, out: &mut Writer) {
        match self {
            Change::Reset => out.u8(b'Z'),
            Change::Expected(next) => {
                out.u8(b'I');
                out.u64(*next);
            }
            Change::Sent(None) => out.u8(b'S'),
            Change::Sent(Some(sent)) => {
                out.u8(b'M');
                out.u64(sent.time_ns);
                let bytes = sent.message.to_bytes();
                out.length(bytes.len());
                out.bytes.extend(bytes);
            }
            Change::Order(name, order) => {
                out.u8(b'O');
                write_name(out, *name);
                order.write(out);
            }
            Change::OrderGone(name) => {
                out.u8(b'G');
                write_name(out, *name);
            }
            Change::Pending(name, pending) => {
                out.u8(b'P');
                write_name(out, *name);
                out.u8(pending.side.code());
                out.u64(pending.about);
                out.flag(pending.is_told);
                out.flag(pending.is_answered);
                out.u8(pending.action.code());
                pending.action.write_fields(out);
            }
            Change::PendingGone(name) => {
                out.u8(b'A');
                write_name(out, *name);
            }
            Change::Reported(symbol, sequence) => {
                out.u8(b'R');
                out.u16(symbol.0);
                out.u64(*sequence);
            }
            Change::Online(is_online) => {
                out.u8(b'L');
                out.flag(*is_online);
            }
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Change, WireError> {
        Ok(match from.u8()? {
            b'Z' => Change::Reset,
            b'I' => Change::Expected(from.u64()?),
            b'S' => Change::Sent(None),
            b'M' => {
                let time_ns = from.u64()?;
                let length = from.length(1)?;
                let mut bytes = from.slice(length)?.to_vec();
                let message = Message::take(&mut bytes).ok().flatten();
                let message = message.ok_or(WireError::Value("message"))?;
                Change::Sent(Some(SentMessage { time_ns, message }))
            }
            b'O' => Change::Order(read_name(from)?, Order::read(from)?),
            b'G' => Change::OrderGone(read_name(from)?),
            b'P' => {
                let name = read_name(from)?;
                let side = Side::of_code(from.u8()?)?;
                let (about, is_told) = (from.u64()?, from.flag("told")?);
                let is_answered = from.flag("answered")?;
                let action = Action::read_fields(from.u8()?, from)?;
                let pending = Pending {
                    action,
                    side,
                    about,
                    is_told,
                    is_answered,
                };
                Change::Pending(name, pending)
            }
            b'A' => Change::PendingGone(read_name(from)?),
            b'R' => Change::Reported(SymbolId(from.u16()?), from.u64()?),
            b'L' => Change::Online(from.flag("online")?),
            _ => return Err(WireError::Value("kind of change")),
        })
    }
}
