//! Reports: what a participant hears of its orders, whichever of event and answer comes first.

use super::client::Client;
use super::codec::Message;
use super::kept::{Change, Name, Order, Pending};
use super::{tag, time};
use crate::book::{Ended, Price, Side};
use crate::entry::{Report, ReportKind};
use crate::exchange::{Action, Outcome, SymbolId};
use crate::fair::Now;
use std::fmt;

/// Types of reports (tag 150).
mod exec {
    pub(super) const NEW: &str = "0";
    pub(super) const CANCELLED: &str = "4";
    pub(super) const REPLACED: &str = "5";
    pub(super) const REFUSED: &str = "8";
    pub(super) const EXPIRED: &str = "C";
    pub(super) const RESTATED: &str = "D";
    pub(super) const TRADE: &str = "F";
    pub(super) const STATUS: &str = "I";
}

/// What a report says beside the order.
#[derive(Clone, Debug, Default)]
struct Told {
    exec_type: &'static str,
    /// Where it comes from, in the log: the same report has the same name wherever it is made.
    exec_id: String,
    /// The status of an order that is over; `None` where its lots say it.
    status: Option<&'static str>,
    /// How the order was called before.
    about: u64,
    /// How the request is called that this is about; 0 where it is about none.
    request: u64,
    trade: Option<(u64, Price)>,
    time_ns: u64,
    text: String,
}

/// Whether an event is of an order as it comes in, or of one that waited.
#[derive(Clone, Copy)]
struct At {
    symbol: SymbolId,
    sequence: u64,
    time_ns: u64,
}

impl Client {
    /// Learns of an event of a symbol that is about orders of this participant. Events come in order; one that came
    /// before is left out.
    pub fn handle_event(&mut self, now: Now, sequence: u64, reports: &[Report]) {
        let Some(symbol) = reports.first().map(|report| report.symbol) else {
            return;
        };
        let knows_one = reports
            .iter()
            .any(|report| self.kept.orders.contains_key(&(symbol, report.number)));
        if sequence <= self.reported(symbol) || !knows_one {
            return;
        }
        for report in reports {
            let name = (symbol, report.number);
            match report.kind {
                ReportKind::Executed {
                    time_ns,
                    price,
                    quantity,
                    was_resting,
                    ..
                } => {
                    let at = At {
                        symbol,
                        sequence,
                        time_ns,
                    };
                    self.executed(now, name, at, (quantity, price), was_resting);
                }
                ReportKind::Ended {
                    time_ns, open, why, ..
                } => {
                    let at = At {
                        symbol,
                        sequence,
                        time_ns,
                    };
                    self.ended(now, name, at, open, why);
                }
                ReportKind::Answered { .. } => {}
            }
        }
        self.change(Change::Reported(symbol, sequence));
    }

    /// Learns that events of a symbol up to this one are forgotten, and says so for each order that they may be about.
    pub fn handle_forgotten(&mut self, now: Now, symbol: SymbolId, sequence: u64) {
        let of_symbol = self.kept.orders.range((symbol, 0)..=(symbol, u64::MAX));
        let orders: Vec<(Name, Order)> = of_symbol.map(|(name, order)| (*name, *order)).collect();
        for (name, order) in orders {
            let told = Told {
                exec_type: exec::STATUS,
                exec_id: format!("{}.{sequence}.{}", symbol.0, name.1),
                time_ns: now.clock_ns,
                text: format!(
                    "this is from before the gateway was away for long: what happened up to event {sequence} is \
                     not known here"
                ),
                ..Told::default()
            };
            self.tell(now, name, &order, told);
        }
        self.change(Change::Reported(symbol, sequence));
    }

    fn executed(
        &mut self,
        now: Now,
        name: Name,
        at: At,
        (quantity, price): (u64, Price),
        was_resting: bool,
    ) {
        let Some(mut order) = self.kept.orders.get(&name).copied() else {
            return;
        };
        // An order that waited comes in again where it is replaced.
        let comes_again = !was_resting && order.is_accepted && order.due == 0;
        if comes_again
            && order.cancelled.is_some()
            && let Some((request, pending)) =
                self.pending_for(name, |action| matches!(action, Action::Replace { .. }))
            && let Action::Replace {
                price, quantity, ..
            } = pending.action
        {
            self.mark_told(request, pending);
            order = self.tell_replaced(now, request, name, order, (price, quantity));
        }
        self.accept(now, name, &mut order);
        if !was_resting {
            order.due -= quantity.cast_signed();
        }
        order.executed += quantity;
        order.money = order
            .money
            .saturating_add(quantity.saturating_mul(u64::from(price.0)));
        order.quantity = order.quantity.max(order.executed);
        self.change(Change::Order(name, order));
        let side = if order.side == Side::Buy { "b" } else { "s" };
        let told = Told {
            exec_type: exec::TRADE,
            exec_id: format!("{}.{}{side}", at.symbol.0, at.sequence),
            trade: Some((quantity, price)),
            time_ns: at.time_ns,
            ..Told::default()
        };
        self.tell(now, name, &order, told);
        self.settle(now, name);
    }

    fn ended(&mut self, now: Now, name: Name, at: At, open: u64, why: Ended) {
        let Some(mut order) = self.kept.orders.get(&name).copied() else {
            return;
        };
        self.accept(now, name, &mut order);
        let amended =
            |action: &Action| matches!(action, Action::Cancel(_) | Action::Replace { .. });
        let asked = self
            .pending_for(name, amended)
            .filter(|_| why == Ended::Cancelled);
        let exec_id = format!("{}.{}", at.symbol.0, at.sequence);
        if open > 0 {
            // The answer to a replacement says it.
            if open == order.open() || asked.is_some() {
                return;
            }
            order.quantity = order.executed + open;
            self.change(Change::Order(name, order));
            let told = Told {
                exec_type: exec::RESTATED,
                exec_id,
                time_ns: at.time_ns,
                text: reason(why).to_owned(),
                ..Told::default()
            };
            return self.tell(now, name, &order, told);
        }
        let mut request = order.cancelled_by;
        if request == 0
            && let Some((asked, pending)) = asked
        {
            self.mark_told(asked, pending);
            request = asked.1;
        }
        let is_expired = matches!(why, Ended::Expired | Ended::DayOver);
        let (exec_type, status) = match is_expired {
            true => (exec::EXPIRED, "C"),
            false => (exec::CANCELLED, "4"),
        };
        let about = if request == 0 { 0 } else { order.cl_ord_id };
        let told = Told {
            exec_type,
            exec_id,
            status: Some(status),
            about,
            request,
            time_ns: at.time_ns,
            text: reason(why).to_owned(),
            ..Told::default()
        };
        self.tell(now, name, &order, told);
        self.end(name);
    }

    /// Says that the exchange has an order, once.
    pub(super) fn accept(&mut self, now: Now, name: Name, order: &mut Order) {
        if !order.is_accepted {
            order.is_accepted = true;
            self.change(Change::Order(name, *order));
            let told = Told {
                exec_type: exec::NEW,
                exec_id: format!("{}.a{}", name.0.0, name.1),
                time_ns: now.clock_ns,
                ..Told::default()
            };
            self.tell(now, name, order, told);
        }
    }

    /// Ends an order whose lots have all traded or were cancelled as it came in, once all of that was told.
    pub(super) fn settle(&mut self, now: Now, name: Name) {
        let Some(order) = self.kept.orders.get(&name).copied() else {
            return;
        };
        let Some(cancelled) = order.cancelled.filter(|_| order.due <= 0) else {
            return;
        };
        self.repeated.remove(&name);
        if cancelled > 0 && cancelled >= order.open() {
            let told = Told {
                exec_type: exec::CANCELLED,
                exec_id: format!("{}.c{}", name.0.0, name.1),
                status: Some("4"),
                time_ns: now.clock_ns,
                text: "what did not trade at once is cancelled".to_owned(),
                ..Told::default()
            };
            self.tell(now, name, &order, told);
            self.end(name);
        } else if order.open() == 0 {
            self.end(name);
        }
    }

    fn end(&mut self, name: Name) {
        self.repeated.remove(&name);
        self.change(Change::OrderGone(name));
    }

    /// Learns that an order was replaced.
    pub(super) fn replaced(
        &mut self,
        now: Now,
        request: Name,
        pending: &Pending,
        outcome: Outcome,
    ) {
        let (
            Action::Replace {
                order,
                price,
                quantity,
            },
            Outcome::Entered(entered),
        ) = (pending.action, outcome)
        else {
            return;
        };
        let name = (request.0, order);
        let Some(mut found) = self.kept.orders.get(&name).copied() else {
            if !pending.is_told {
                self.tell_foreign_replaced(now, request, pending, entered.open);
            }
            return;
        };
        found.due += entered.executed.cast_signed();
        if pending.is_told {
            self.change(Change::Order(name, found));
        } else if entered.open == 0 && entered.executed == 0 {
            // A quantity that has traded already cancels the rest, which an event tells.
            found.cancelled_by = request.1;
            self.change(Change::Order(name, found));
        } else {
            self.tell_replaced(now, request, name, found, (price, quantity));
        }
        self.settle(now, name);
    }

    fn tell_replaced(
        &mut self,
        now: Now,
        request: Name,
        name: Name,
        order: Order,
        (price, quantity): (Price, u64),
    ) -> Order {
        let replaced = Order {
            cl_ord_id: request.1,
            limit: Some(price),
            quantity: quantity.max(order.executed),
            ..order
        };
        self.change(Change::Order(name, replaced));
        let told = Told {
            exec_type: exec::REPLACED,
            exec_id: format!("{}.a{}", request.0.0, request.1),
            about: order.cl_ord_id,
            request: request.1,
            time_ns: now.clock_ns,
            ..Told::default()
        };
        self.tell(now, name, &replaced, told);
        replaced
    }

    /// Says what orders came to that were entered before, and whose trades nobody told in time.
    pub(super) fn tell_repeated(&mut self, now: Now) {
        let due = self
            .repeated
            .iter()
            .filter(|(_, due_ns)| **due_ns <= now.steady_ns);
        let due: Vec<Name> = due.map(|(name, _)| *name).collect();
        for name in due {
            self.repeated.remove(&name);
            let Some(mut order) = self.kept.orders.get(&name).copied() else {
                continue;
            };
            order.executed += order.due.max(0).cast_unsigned();
            order.due = 0;
            self.change(Change::Order(name, order));
            let told = Told {
                exec_type: exec::STATUS,
                exec_id: format!("{}.i{}", name.0.0, name.1),
                time_ns: now.clock_ns,
                text: "the order was entered before: these are the lots that traded as it came in"
                    .to_owned(),
                ..Told::default()
            };
            self.tell(now, name, &order, told);
            self.settle(now, name);
        }
    }

    /// Says that an order was refused.
    pub(super) fn tell_refused(&mut self, now: Now, name: Name, order: &Order, why: &str) {
        let told = Told {
            exec_type: exec::REFUSED,
            exec_id: format!("{}.r{}", name.0.0, name.1),
            status: Some("8"),
            time_ns: now.clock_ns,
            text: why.to_owned(),
            ..Told::default()
        };
        self.tell(now, name, order, told);
    }

    /// Says that an order which was not entered in this session was cancelled.
    pub(super) fn tell_foreign_cancelled(&mut self, now: Now, request: Name, pending: &Pending) {
        let told = Told {
            exec_type: exec::CANCELLED,
            status: Some("4"),
            ..Told::default()
        };
        self.tell_foreign(now, request, pending, 0, told);
    }

    /// Says that an order which was not entered in this session was replaced, and has so many open lots.
    fn tell_foreign_replaced(&mut self, now: Now, request: Name, pending: &Pending, open: u64) {
        let told = Told {
            exec_type: exec::REPLACED,
            ..Told::default()
        };
        self.tell_foreign(now, request, pending, open, told);
    }

    fn tell_foreign(&mut self, now: Now, request: Name, pending: &Pending, open: u64, told: Told) {
        let told = Told {
            exec_id: format!("{}.a{}", request.0.0, request.1),
            about: pending.about,
            request: request.1,
            time_ns: now.clock_ns,
            text: "the order is not of this session: what it traded is not counted here".to_owned(),
            ..told
        };
        let foreign = Order {
            cl_ord_id: pending.about,
            side: pending.side,
            limit: None,
            quantity: open,
            executed: 0,
            money: 0,
            is_accepted: true,
            cancelled: Some(0),
            due: 0,
            cancelled_by: 0,
        };
        self.tell(now, (request.0, pending.about), &foreign, told);
    }

    /// The name of an order everywhere in the exchange: symbol, participant and the number that entered it.
    pub(super) fn order_id(&self, (symbol, number): Name) -> impl fmt::Display {
        format!("{}.{}.{number}", symbol.0, self.participant.0)
    }

    fn tell(&mut self, now: Now, name: Name, order: &Order, told: Told) {
        let cl_ord_id = if told.request == 0 {
            order.cl_ord_id
        } else {
            told.request
        };
        let mut report = Message::new(tag::EXECUTION_REPORT)
            .with(tag::ORDER_ID, self.order_id(name))
            .with(tag::CL_ORD_ID, cl_ord_id);
        if told.about != 0 {
            report.push(tag::ORIG_CL_ORD_ID, told.about);
        }
        let is_over = told.status.is_some();
        report.push(tag::EXEC_ID, told.exec_id);
        report.push(tag::EXEC_TYPE, told.exec_type);
        report.push(tag::ORD_STATUS, told.status.unwrap_or(order.status()));
        if told.exec_type == exec::REFUSED {
            report.push(tag::ORD_REJ_REASON, 99);
        }
        report.push(tag::SYMBOL, name.0.0);
        report.push(tag::SIDE, if order.side == Side::Buy { "1" } else { "2" });
        report.push(tag::ORDER_QTY, order.quantity);
        if let Some(limit) = order.limit {
            report.push(tag::PRICE, limit.0);
        }
        if let Some((quantity, price)) = told.trade {
            report.push(tag::LAST_QTY, quantity);
            report.push(tag::LAST_PX, price.0);
        }
        report.push(tag::LEAVES_QTY, if is_over { 0 } else { order.open() });
        report.push(tag::CUM_QTY, order.executed);
        report.push(tag::AVG_PX, order.mean_price());
        report.push(tag::TRANSACT_TIME, time::text(told.time_ns));
        if !told.text.is_empty() {
            report.push(tag::TEXT, told.text);
        }
        self.report(now, report);
    }

    /// The first request without an answer that is about an order, and that no event has told.
    fn pending_for(
        &self,
        (symbol, number): Name,
        is_it: impl Fn(&Action) -> bool,
    ) -> Option<(Name, Pending)> {
        let of_symbol = self.kept.pending.range((symbol, 0)..=(symbol, u64::MAX));
        let mut about = of_symbol.filter(|(_, pending)| match pending.action {
            Action::Cancel(order) | Action::Replace { order, .. } => {
                order == number && !pending.is_told && !pending.is_answered
            }
            _ => false,
        });
        let found = about.find(|(_, pending)| is_it(&pending.action));
        found.map(|(name, pending)| (*name, *pending))
    }

    fn mark_told(&mut self, request: Name, pending: Pending) {
        let is_told = true;
        self.change(Change::Pending(request, Pending { is_told, ..pending }));
    }
}

fn reason(why: Ended) -> &'static str {
    match why {
        Ended::Cancelled => "cancelled",
        Ended::Expired => "the time up to which it was good is over",
        Ended::DayOver => "the day of trading is over",
        Ended::SelfTrade => "it met another order of its participant",
        Ended::Disconnected => "a connection of its participant was lost",
        Ended::Replaced => "replaced",
    }
}
