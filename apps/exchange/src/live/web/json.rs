//! What the page is told, as JSON.

use crate::book::{Ended, Entered, Side};
use crate::entry::{Report, ReportKind};
use crate::exchange::{Outcome, SymbolId};
use crate::feed::{FollowedBook, MarketKind, MarketMessage};
use crate::link::{GatewayStatus, OwnOrder};
use std::fmt::Write as _;

/// How many levels of each side are shown.
const LEVELS: usize = 10;

/// What a page shows of a symbol.
pub(crate) struct View<'a> {
    /// The book of the symbol.
    pub(crate) book: &'a FollowedBook,
    /// What was shown since the page was told last.
    pub(crate) news: Vec<&'a MarketMessage>,
    /// How many symbols there are.
    pub(crate) symbols: usize,
    /// How the gateway is.
    pub(crate) status: GatewayStatus,
}

fn list(entries: impl Iterator<Item = String>) -> String {
    format!("[{}]", entries.collect::<Vec<_>>().join(","))
}

fn word(side: Side) -> &'static str {
    match side {
        Side::Buy => "\"buy\"",
        Side::Sell => "\"sell\"",
    }
}

/// A text in quotes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for one in text.chars() {
        match one {
            '"' | '\\' => quoted.extend(['\\', one]),
            ' '..='~' => quoted.push(one),
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    // Writing to a string cannot fail.
                    let _ = write!(quoted, "\\u{unit:04x}");
                }
            }
        }
    }
    quoted + "\""
}

/// A symbol and the gateway, as they are.
pub(crate) fn view_text(symbol: SymbolId, view: &View<'_>) -> String {
    let levels = |side| {
        let levels = view.book.levels(side).take(LEVELS);
        list(levels.map(|one| format!("[{},{},{}]", one.price.0, one.quantity, one.orders)))
    };
    let trades = view.news.iter().filter_map(|message| match message.kind {
        MarketKind::Traded {
            price,
            quantity,
            incoming_side,
            ..
        } => Some(format!(
            "[{},{quantity},{},{}]",
            price.0,
            word(incoming_side),
            message.time_ns / 1_000_000
        )),
        _ => None,
    });
    let (status, requests) = (&view.status, &view.status.requests);
    format!(
        "{{\"view\":{{\"symbol\":{},\"symbols\":{},\"sequence\":{},\"phase\":{},\"bids\":{},\"asks\":{},\"trades\":{},\
         \"status\":{{\"leader\":{},\"shown\":{},\"late\":{},\"pending\":{},\"requests\":{},\"overtaken\":{},\
         \"overtaken_of_symbol\":{},\"quarantined\":{}}}}}}}",
        symbol.0,
        view.symbols,
        view.book.sequence(),
        quoted(&format!("{:?}", view.book.phase()).to_lowercase()),
        levels(Side::Buy),
        levels(Side::Sell),
        list(trades),
        status.leader,
        status.shown,
        status.late,
        status.pending,
        requests.inbound.requests,
        requests.inbound.before_any,
        requests.inbound.before_any_of_symbol,
        requests.quarantined
    )
}

/// A participant's open orders in a symbol.
pub(crate) fn orders_text(symbol: SymbolId, orders: &[OwnOrder]) -> String {
    let orders = orders.iter().map(|one| {
        let side = word(one.side);
        format!("[{},{side},{},{}]", one.number, one.price.0, one.open)
    });
    format!(
        "{{\"orders\":{{\"symbol\":{},\"list\":{}}}}}",
        symbol.0,
        list(orders)
    )
}

/// What a participant is told, in words.
pub(crate) fn report_text(report: &Report) -> String {
    let what = match report.kind {
        ReportKind::Answered { outcome, .. } => answer(&outcome),
        ReportKind::Executed {
            price, quantity, ..
        } => format!("{quantity} traded at {}", price.0),
        ReportKind::Ended { open, why, .. } => format!("{open} are open: {}", reason(why)),
    };
    let what = format!("symbol {}, {}: {what}", report.symbol.0, report.number);
    format!("{{\"report\":{}}}", quoted(&what))
}

/// Something that is said of a session.
pub(crate) fn notice_text(what: &impl ToString) -> String {
    format!("{{\"report\":{}}}", quoted(&what.to_string()))
}

fn answer(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::Entered(Entered {
            executed,
            open,
            cancelled,
            ..
        }) => format!("accepted: {executed} traded, {open} wait, {cancelled} cancelled"),
        Outcome::Open(open) => format!("done, {open} wait"),
        Outcome::Cancelled(count) => format!("{count} orders cancelled"),
        Outcome::Refused(why) => format!("refused: {why}"),
    }
}

fn reason(why: Ended) -> &'static str {
    match why {
        Ended::Cancelled => "cancelled",
        Ended::Expired => "its time is over",
        Ended::DayOver => "the day is over",
        Ended::SelfTrade => "it met an order of your own",
        Ended::Disconnected => "your connection is gone",
        Ended::Replaced => "replaced",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        assert_eq!(
            quoted("a \"b\" \\ \n\u{1f600}"),
            r#""a \"b\" \\ \u000a\ud83d\ude00""#
        );
    }
}
