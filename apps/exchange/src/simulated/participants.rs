//! What participants ask, and what they wait for.

use super::Scenario;
use super::audit::name;
use crate::book::{ParticipantId, Price, Pricing, SelfTrade, Side, TimeInForce};
use crate::exchange::{Action, Request, SymbolId};
use fastrand::Rng;
use std::collections::BTreeMap;

/// How many requests of a participant wait for answers in a symbol: fewer than the exchange remembers.
const WAITING_MAX: u64 = 8;

/// What names a request.
pub(crate) type Name = (SymbolId, u16, u64);

/// A request without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) sent_ns: u64,
    pub(super) attempts: u16,
}

/// All participants together.
#[derive(Debug, Default)]
pub(crate) struct Participants {
    /// The number before the first one of a participant in a symbol.
    before: u64,
    numbers: BTreeMap<(SymbolId, u16), u64>,
    pub(crate) waiting: BTreeMap<Name, Waiting>,
    pub(crate) sent: u64,
}

impl Participants {
    /// Participants who number their requests from one on.
    pub(crate) fn from_number(first: u64) -> Self {
        Participants {
            before: first.saturating_sub(1),
            ..Participants::default()
        }
    }

    /// A new request, unless the participant that was drawn waits for too many answers.
    pub(crate) fn draw(
        &mut self,
        rng: &mut Rng,
        scenario: &Scenario,
        now_ns: u64,
    ) -> Option<Request> {
        let symbol = SymbolId(rng.u16(0..scenario.symbols.max(1)));
        let participant = rng.u16(0..scenario.participants.max(1));
        let of_one = (symbol, participant, 0)..=(symbol, participant, u64::MAX);
        let number = self.numbers.entry((symbol, participant));
        let number = number.or_insert(self.before);
        // What waits for longest bounds how old a number may come again.
        let oldest = self.waiting.range(of_one).next();
        if oldest.is_some_and(|(name, _)| *number - name.2 >= WAITING_MAX) {
            return None;
        }
        *number += 1;
        let request = Request {
            symbol,
            participant: ParticipantId(participant),
            number: *number,
            action: draw_action(rng, *number),
        };
        let waiting = Waiting {
            request,
            sent_ns: now_ns,
            attempts: 0,
        };
        self.waiting.insert(name(&request), waiting);
        self.sent += 1;
        Some(request)
    }
}

/// One request in ten cancels; orders are limited to within five ticks of the middle.
fn draw_action(rng: &mut Rng, number: u64) -> Action {
    let order = number.saturating_sub(rng.u64(1..5));
    let side = [Side::Buy, Side::Sell][rng.usize(0..2)];
    let price = Price(rng.u32(95..=105));
    let quantity = rng.u64(1..=10);
    match rng.u32(0..20) {
        0 | 1 => Action::Cancel(order),
        2 => Action::Reduce { order, by: 1 },
        3 => Action::Replace {
            order,
            price,
            quantity,
        },
        4 => Action::CancelAll,
        kind => Action::Enter {
            side,
            quantity,
            pricing: Pricing::Limit(price),
            time_in_force: match kind {
                5 => TimeInForce::ImmediateOrCancel,
                _ => TimeInForce::GoodTillCancel,
            },
            post_only: false,
            self_trade: SelfTrade::CancelOldest,
        },
    }
}
