//! Requests that the log was asked for and that have no reply yet.

use crate::book::ParticipantId;
use crate::exchange::{Request, SymbolId};
use std::collections::BTreeSet;

/// How many requests are under way at a time.
const UNDER_WAY_MAX: usize = 16_384;

/// The requests that are under way to the log: none goes twice, and there are so many at most.
#[derive(Debug, Default)]
pub(super) struct Submitted {
    requests: BTreeSet<(SymbolId, ParticipantId, u64)>,
    /// How many are under way, with those that are forgotten.
    count: usize,
}

fn key(request: &Request) -> (SymbolId, ParticipantId, u64) {
    (request.symbol, request.participant, request.number)
}

impl Submitted {
    /// Whether another request may go.
    pub(super) fn has_room(&self) -> bool {
        self.count < UNDER_WAY_MAX
    }

    /// Whether a request is under way: what comes again meanwhile would go to the log twice.
    pub(super) fn holds(&self, request: &Request) -> bool {
        self.requests.contains(&key(request))
    }

    pub(super) fn begin(&mut self, request: &Request) {
        self.count += 1;
        self.requests.insert(key(request));
    }

    /// Learns that a request has a reply, or will have none.
    pub(super) fn end(&mut self, request: &Request) {
        self.count -= 1;
        self.requests.remove(&key(request));
    }

    /// Lets all requests come again. They count until they end.
    pub(super) fn forget(&mut self) {
        self.requests.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Action;

    fn request(number: u64) -> Request {
        Request {
            symbol: SymbolId(1),
            participant: ParticipantId(2),
            number,
            action: Action::CancelAll,
        }
    }

    /// Scenario: the log stands still, and gateways send everything again.
    #[test]
    fn what_comes_again_is_under_way_once_and_there_is_a_bound() {
        let mut submitted = Submitted::default();
        let mut number = 0;
        while submitted.has_room() {
            number += 1;
            assert!(!submitted.holds(&request(number)));
            submitted.begin(&request(number));
            assert!(submitted.holds(&request(number)));
        }
        assert_eq!(number, UNDER_WAY_MAX as u64);
        submitted.forget();
        assert!(!submitted.has_room() && !submitted.holds(&request(1)));
        submitted.end(&request(1));
        assert!(submitted.has_room());
    }
}
