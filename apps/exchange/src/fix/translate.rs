//! Requests of participants as the exchange takes them.

use super::codec::{Message, digits};
use super::session::reason;
use super::{tag, time};
use crate::book::{Price, Pricing, SelfTrade, Side, TimeInForce};
use crate::exchange::{Action, SymbolId};

/// What is wrong with a request: a reason of a reject (tag 373), the tag, and words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wrong {
    pub(super) reason: u32,
    pub(super) tag: u32,
    pub(super) why: String,
}

/// A request about an order that was entered before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Amendment {
    pub(super) symbol: SymbolId,
    pub(super) cl_ord_id: u64,
    /// How the request calls the order.
    pub(super) about: u64,
    pub(super) side: Side,
    /// The new price and quantity; `None` where the order is to be cancelled.
    pub(super) terms: Option<(Price, u64)>,
}

/// A new order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) symbol: SymbolId,
    pub(super) cl_ord_id: u64,
    pub(super) side: Side,
    pub(super) quantity: u64,
    pub(super) limit: Option<Price>,
    time_in_force: TimeInForce,
    post_only: bool,
}

impl Entry {
    pub(super) fn action(&self) -> Action {
        Action::Enter {
            side: self.side,
            quantity: self.quantity,
            pricing: self.limit.map_or(Pricing::Market, Pricing::Limit),
            time_in_force: self.time_in_force,
            post_only: self.post_only,
            self_trade: SelfTrade::CancelOldest,
        }
    }
}

impl Amendment {
    /// The action, where the order was entered under this number.
    pub(super) fn action(&self, order: u64) -> Action {
        match self.terms {
            None => Action::Cancel(order),
            Some((price, quantity)) => Action::Replace {
                order,
                price,
                quantity,
            },
        }
    }
}

/// Reads a new order (D).
pub(super) fn entry(message: &Message) -> Result<Entry, Wrong> {
    need(message, tag::TRANSACT_TIME)?;
    let symbol = symbol(message)?;
    let limit = match need(message, tag::ORD_TYPE)? {
        "1" => None,
        "2" => Some(price(message)?),
        _ => return wrong(tag::ORD_TYPE, "OrdType (40) is 1 (market) or 2 (limit)"),
    };
    Ok(Entry {
        symbol,
        cl_ord_id: name(message, tag::CL_ORD_ID)?,
        side: side(message)?,
        quantity: quantity(message)?,
        limit,
        time_in_force: time_in_force(message, limit.is_none())?,
        post_only: post_only(message)?,
    })
}

/// Reads a request to cancel (F) or to replace (G).
pub(super) fn amendment(message: &Message) -> Result<Amendment, Wrong> {
    need(message, tag::TRANSACT_TIME)?;
    let terms = match message.kind == tag::REPLACE {
        false => None,
        true if need(message, tag::ORD_TYPE)? != "2" => {
            return wrong(
                tag::ORD_TYPE,
                "OrdType (40) of a replaced order is 2 (limit)",
            );
        }
        true => Some((price(message)?, quantity(message)?)),
    };
    Ok(Amendment {
        symbol: symbol(message)?,
        cl_ord_id: name(message, tag::CL_ORD_ID)?,
        about: name(message, tag::ORIG_CL_ORD_ID)?,
        side: side(message)?,
        terms,
    })
}

fn wrong<T>(tag: u32, why: &str) -> Result<T, Wrong> {
    Err(Wrong {
        reason: reason::VALUE,
        tag,
        why: why.to_owned(),
    })
}

fn need(message: &Message, tag: u32) -> Result<&str, Wrong> {
    message.get(tag).ok_or_else(|| Wrong {
        reason: reason::MISSING,
        tag,
        why: format!("tag {tag} is missing"),
    })
}

/// A number that is written in one way alone, so that it comes back as it was.
fn name(message: &Message, tag: u32) -> Result<u64, Wrong> {
    let text = need(message, tag)?;
    let number = digits(text).filter(|number| *number > 0 && number.to_string() == text);
    let why = "ClOrdID (11) and OrigClOrdID (41) are numbers from 1 that rise in each symbol";
    number.map_or_else(|| wrong(tag, why), Ok)
}

fn symbol(message: &Message) -> Result<SymbolId, Wrong> {
    let number = digits(need(message, tag::SYMBOL)?);
    let number = number.and_then(|number| u16::try_from(number).ok());
    let why = "Symbol (55) is the number of a symbol";
    number.map_or_else(|| wrong(tag::SYMBOL, why), |number| Ok(SymbolId(number)))
}

fn side(message: &Message) -> Result<Side, Wrong> {
    match need(message, tag::SIDE)? {
        "1" => Ok(Side::Buy),
        "2" => Ok(Side::Sell),
        _ => wrong(tag::SIDE, "Side (54) is 1 (buy) or 2 (sell)"),
    }
}

/// A whole number, with zeros alone behind a point if there is one.
fn whole(text: &str) -> Option<u64> {
    let (number, part) = text.split_once('.').unwrap_or((text, "0"));
    digits(number).filter(|_| part.bytes().all(|byte| byte == b'0'))
}

fn quantity(message: &Message) -> Result<u64, Wrong> {
    let lots = whole(need(message, tag::ORDER_QTY)?);
    lots.map_or_else(
        || wrong(tag::ORDER_QTY, "OrderQty (38) is a whole number of lots"),
        Ok,
    )
}

fn price(message: &Message) -> Result<Price, Wrong> {
    let ticks = whole(need(message, tag::PRICE)?);
    let ticks = ticks
        .and_then(|ticks| u32::try_from(ticks).ok())
        .filter(|ticks| *ticks > 0);
    let why = "Price (44) is a whole number of ticks from 1";
    ticks.map_or_else(|| wrong(tag::PRICE, why), |ticks| Ok(Price(ticks)))
}

/// An order at any price never waits: where nothing is said, what does not trade at once is cancelled.
fn time_in_force(message: &Message, is_market: bool) -> Result<TimeInForce, Wrong> {
    Ok(match message.get(tag::TIME_IN_FORCE) {
        None if is_market => TimeInForce::ImmediateOrCancel,
        None | Some("0") => TimeInForce::Day,
        Some("1") => TimeInForce::GoodTillCancel,
        Some("3") => TimeInForce::ImmediateOrCancel,
        Some("4") => TimeInForce::FillOrKill,
        Some("6") => {
            let until = time::parse(need(message, tag::EXPIRE_TIME)?);
            let why = "ExpireTime (126) is no time as YYYYMMDD-HH:MM:SS.sss";
            return until.map_or_else(
                || wrong(tag::EXPIRE_TIME, why),
                |until| Ok(TimeInForce::GoodTillTime(until)),
            );
        }
        Some(_) => return wrong(tag::TIME_IN_FORCE, "TimeInForce (59) is 0, 1, 3, 4 or 6"),
    })
}

fn post_only(message: &Message) -> Result<bool, Wrong> {
    match message.get(tag::EXEC_INST) {
        None => Ok(false),
        Some("6") => Ok(true),
        Some(_) => wrong(
            tag::EXEC_INST,
            "ExecInst (18) is 6 (trade only as the order that waits), or not there",
        ),
    }
}
