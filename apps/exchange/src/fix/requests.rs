//! Requests: from a message to the exchange, and what the exchange answers.

use super::client::{Client, FixOutput};
use super::codec::Message;
use super::kept::{Change, Name, Order, Pending};
use super::translate::{Amendment, Entry, Wrong, amendment, entry};
use super::{tag, time};
use crate::book::{Refusal, Side};
use crate::entry::OrderRequest;
use crate::exchange::{Action, Outcome, REMEMBERED_REQUESTS, Refused};
use crate::fair::Now;
use crate::link::AnsweredRequest;

/// The most requests of a participant that wait for answers.
pub(super) const PENDING_MAX: usize = 1024;
/// The most orders of a participant that are followed.
pub(super) const ORDERS_MAX: usize = 16_384;
/// How long trades of an order are waited for that was entered before, in ns.
const REPEATED_NS: u64 = 1_000_000_000;

/// Reasons of a reject that is not the session's (tag 380).
const UNSUPPORTED: u32 = 3;
const NOT_NOW: u32 = 4;

impl Client {
    /// Takes a message that is not the session's.
    pub(super) fn handle_request(&mut self, now: Now, message: &Message) {
        let read = match message.kind.as_str() {
            tag::NEW_ORDER => entry(message).map(|entry| self.enter(now, message, &entry)),
            tag::CANCEL | tag::REPLACE => {
                amendment(message).map(|amendment| self.amend(now, message, &amendment))
            }
            kind => {
                let why = format!("messages of type {kind} are not taken here");
                return self.refuse(now, message, UNSUPPORTED, &why);
            }
        };
        if let Err(Wrong { reason, tag, why }) = read {
            self.reject(now, message, reason, Some(tag), &why);
        }
    }

    fn enter(&mut self, now: Now, message: &Message, entry: &Entry) {
        let name = (entry.symbol, entry.cl_ord_id);
        let order = Order {
            cl_ord_id: entry.cl_ord_id,
            side: entry.side,
            limit: entry.limit,
            quantity: entry.quantity,
            executed: 0,
            money: 0,
            is_accepted: false,
            cancelled: None,
            due: 0,
            cancelled_by: 0,
        };
        if self.is_known(name) {
            return self.tell_refused(now, name, &order, "ClOrdID (11) is in use in this symbol");
        }
        if self.kept.orders.len() >= ORDERS_MAX {
            let why = format!("{ORDERS_MAX} orders are open in this session: cancel some");
            return self.refuse(now, message, NOT_NOW, &why);
        }
        if self.is_full(now, message) {
            return;
        }
        self.change(Change::Order(name, order));
        self.wait(name, entry.action(), entry.side, 0);
    }

    fn amend(&mut self, now: Now, message: &Message, amendment: &Amendment) {
        let name = (amendment.symbol, amendment.cl_ord_id);
        if self.is_known(name) {
            let why = "ClOrdID (11) is in use in this symbol";
            return self.tell_not_amended(
                now,
                name,
                amendment.about,
                amendment.terms.is_some(),
                why,
            );
        }
        if self.is_full(now, message) {
            return;
        }
        // An order of another session has the number that entered it.
        let about = (amendment.symbol, amendment.about);
        let order = self.order_of(about).unwrap_or(amendment.about);
        let action = amendment.action(order);
        self.wait(name, action, amendment.side, amendment.about);
    }

    /// Whether a name is that of an open order, or of a request without an answer.
    fn is_known(&self, name: Name) -> bool {
        self.kept.pending.contains_key(&name) || self.order_of(name).is_some()
    }

    /// The number of the request that entered the order of this name: its last one, or one that it is to have.
    fn order_of(&self, (symbol, cl_ord_id): Name) -> Option<u64> {
        let pending = self.kept.pending.get(&(symbol, cl_ord_id));
        if let Some(pending) = pending.filter(|pending| !pending.is_answered) {
            match pending.action {
                Action::Enter { .. } => return Some(cl_ord_id),
                Action::Replace { order, .. } => return Some(order),
                _ => {}
            }
        }
        let named = |order: &Order| order.cl_ord_id == cl_ord_id;
        if self
            .kept
            .orders
            .get(&(symbol, cl_ord_id))
            .is_some_and(named)
        {
            return Some(cl_ord_id);
        }
        let of_symbol = self.kept.orders.range((symbol, 0)..=(symbol, u64::MAX));
        let mut found = of_symbol.filter(|(_, order)| named(order));
        found.next().map(|((_, number), _)| *number)
    }

    fn is_full(&mut self, now: Now, message: &Message) -> bool {
        let is_full = self.kept.pending.len() >= PENDING_MAX;
        if is_full {
            let why = format!("{PENDING_MAX} requests wait for answers: try again");
            self.refuse(now, message, NOT_NOW, &why);
        }
        is_full
    }

    fn wait(&mut self, name: Name, action: Action, side: Side, about: u64) {
        let pending = Pending {
            action,
            side,
            about,
            is_told: false,
            is_answered: false,
        };
        self.change(Change::Pending(name, pending));
        self.submit_waiting();
    }

    /// Hands waiting requests to the exchange, the lowest numbers first. From the first one without an answer on these
    /// are no more of a symbol than the exchange remembers, so that each can be asked for again.
    pub(super) fn submit_waiting(&mut self) {
        let mut symbol = None;
        let mut of_symbol = 0;
        for (name, pending) in &self.kept.pending {
            if symbol != Some(name.0) {
                (symbol, of_symbol) = (Some(name.0), 0);
            }
            of_symbol += 1;
            if of_symbol <= REMEMBERED_REQUESTS
                && !pending.is_answered
                && self.under_way.insert(*name)
            {
                self.outputs.push_back(FixOutput::Submit(OrderRequest {
                    symbol: name.0,
                    number: name.1,
                    action: pending.action,
                }));
            }
        }
    }

    /// Learns that a request could not be handed on, for too many are under way: it is tried again at the next tick.
    pub fn handle_not_taken(&mut self, request: &OrderRequest) {
        self.under_way.remove(&(request.symbol, request.number));
    }

    /// Learns what a request came to, whoever made it.
    pub fn handle_answer(&mut self, now: Now, answered: &AnsweredRequest) {
        let name = (answered.symbol, answered.number);
        let pending = self.kept.pending.get(&name).copied();
        let Some(pending) = pending.filter(|pending| !pending.is_answered) else {
            return;
        };
        self.under_way.remove(&name);
        self.forget(name, pending);
        match pending.action {
            Action::Enter { .. } => self.entered(now, name, answered),
            Action::Cancel(order) => self.cancelled(now, name, order, &pending, answered.outcome),
            Action::Replace { .. } => match answered.outcome {
                Outcome::Refused(why) => {
                    self.tell_not_amended(now, name, pending.about, true, &why.to_string());
                }
                outcome => self.replaced(now, name, &pending, outcome),
            },
            Action::Reduce { .. } | Action::CancelAll => {}
        }
        self.submit_waiting();
    }

    /// Forgets an answered request, and answered ones that waited for it; it waits for those before it.
    fn forget(&mut self, name: Name, pending: Pending) {
        let of_symbol = (name.0, 0)..=(name.0, u64::MAX);
        let is_answered = true;
        let answered = Pending {
            is_answered,
            ..pending
        };
        self.kept.pending.insert(name, answered);
        let first = self.kept.pending.range(of_symbol.clone()).next();
        if first.is_some_and(|(first, _)| *first != name) {
            return self.change(Change::Pending(name, answered));
        }
        let answered = self.kept.pending.range(of_symbol);
        let answered = answered.take_while(|(_, pending)| pending.is_answered);
        let answered: Vec<Name> = answered.map(|(name, _)| *name).collect();
        for name in answered {
            self.change(Change::PendingGone(name));
        }
    }

    fn entered(&mut self, now: Now, name: Name, answered: &AnsweredRequest) {
        let Some(mut order) = self.kept.orders.get(&name).copied() else {
            return;
        };
        match answered.outcome {
            Outcome::Entered(entered) => {
                self.accept(now, name, &mut order);
                order.cancelled = Some(entered.cancelled);
                order.due += entered.executed.cast_signed();
                self.change(Change::Order(name, order));
                if answered.is_repeated && order.due > 0 {
                    self.repeated
                        .insert(name, now.steady_ns.saturating_add(REPEATED_NS));
                }
                self.settle(now, name);
            }
            other => {
                let why = match other {
                    Outcome::Refused(why) => why.to_string(),
                    _ => "ClOrdID (11) was that of another request in this symbol".to_owned(),
                };
                self.tell_refused(now, name, &order, &why);
                self.change(Change::OrderGone(name));
            }
        }
    }

    fn cancelled(&mut self, now: Now, name: Name, order: u64, pending: &Pending, outcome: Outcome) {
        let named = (name.0, order);
        let found = self.kept.orders.get(&named).copied();
        match (outcome, found) {
            (Outcome::Refused(why), _) => {
                self.tell_not_amended(now, name, pending.about, false, &why.to_string());
            }
            // The event came first.
            _ if pending.is_told => {}
            // The event is still to come, and says what was open.
            (_, Some(found)) => {
                let cancelled_by = name.1;
                self.change(Change::Order(
                    named,
                    Order {
                        cancelled_by,
                        ..found
                    },
                ));
            }
            (_, None) => self.tell_foreign_cancelled(now, name, pending),
        }
    }

    /// Sends a reject that is not the session's.
    fn refuse(&mut self, now: Now, message: &Message, reason: u32, why: &str) {
        let mut reject = Message::new(tag::BUSINESS_REJECT);
        reject.push(
            tag::REF_SEQ_NUM,
            message.get(tag::MSG_SEQ_NUM).unwrap_or("0"),
        );
        reject.push(tag::REF_MSG_TYPE, &message.kind);
        reject.push(tag::BUSINESS_REASON, reason);
        reject.push(tag::TEXT, why);
        self.report(now, reject);
    }

    /// Says that a request to cancel or to replace came to nothing.
    fn tell_not_amended(&mut self, now: Now, name: Name, about: u64, replaces: bool, why: &str) {
        let order = self.order_of((name.0, about));
        let known = order.and_then(|order| self.kept.orders.get(&(name.0, order)));
        let is_unknown = why == Refused::Book(Refusal::Unknown).to_string();
        let reject = Message::new(tag::CANCEL_REJECT)
            .with(
                tag::ORDER_ID,
                self.order_id((name.0, order.unwrap_or(about))),
            )
            .with(tag::CL_ORD_ID, name.1)
            .with(tag::ORIG_CL_ORD_ID, about)
            .with(tag::ORD_STATUS, known.map_or("8", Order::status))
            .with(tag::CXL_REJ_RESPONSE_TO, if replaces { "2" } else { "1" })
            .with(tag::CXL_REJ_REASON, if is_unknown { "1" } else { "99" })
            .with(tag::TRANSACT_TIME, time::text(now.clock_ns))
            .with(tag::TEXT, why);
        self.report(now, reject);
    }
}
