//! Where requests come in: each is stamped once, and sent again under its stamp until it is answered.

use super::Now;
use crate::book::ParticipantId;
use crate::exchange::{GatewayId, Request, Stamp, SymbolId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How far a stamp may be ahead of a gateway's clock, in ns.
pub const FUTURE_MAX_NS: u64 = 1_000_000;

/// A request, and when and where it was first received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StampedRequest {
    /// The moment and the gateway of its first receipt.
    pub stamp: Stamp,
    /// The request of a participant.
    pub request: Request,
}

/// What names a request: its participant numbers it in its symbol.
pub(super) type RequestKey = (SymbolId, ParticipantId, u64);

pub(super) fn key(request: &Request) -> RequestKey {
    (request.symbol, request.participant, request.number)
}

/// Why a gateway does not take a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GatewayRefusal {
    /// As many requests wait for their answer as may; nothing was done.
    Full,
    /// As many requests of this participant wait as one's may; nothing was done, and the others have room.
    Share,
    /// The stamp is ahead of this gateway's clock.
    FutureStamp,
}

impl fmt::Display for GatewayRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GatewayRefusal::Full => "the gateway has too many requests under way; try again",
            GatewayRefusal::Share => {
                "too many requests of this participant are under way; try again"
            }
            GatewayRefusal::FutureStamp => "the request was stamped in the future",
        })
    }
}

impl std::error::Error for GatewayRefusal {}

/// A request without an answer.
#[derive(Clone, Copy, Debug)]
struct Pending {
    stamped: StampedRequest,
    resend_ns: u64,
}

/// How many requests may wait for their answer at a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatewayLimits {
    /// The most of all participants together.
    pub all: usize,
    /// The most of one participant: whoever sends more than is answered leaves room for the others.
    pub each: usize,
}

/// The way in of the participants at one gateway.
#[derive(Debug)]
pub struct Gateway {
    id: GatewayId,
    /// The time after which a request is sent again.
    resend_after_ns: u64,
    limits: GatewayLimits,
    pending: BTreeMap<RequestKey, Pending>,
    /// How many of them are each participant's.
    pending_of: BTreeMap<ParticipantId, usize>,
    /// When requests are sent again, by the steady clock.
    resends: BTreeSet<(u64, RequestKey)>,
    /// The highest time of a stamp: later ones are never before earlier ones.
    last_ns: u64,
}

impl Gateway {
    /// A gateway that lets so many requests wait for answers at a time.
    #[must_use]
    pub fn new(id: GatewayId, resend_after_ns: u64, limits: GatewayLimits) -> Gateway {
        Gateway {
            id,
            resend_after_ns,
            limits,
            pending: BTreeMap::new(),
            pending_of: BTreeMap::new(),
            resends: BTreeSet::new(),
            last_ns: 0,
        }
    }

    /// Takes a request of a participant, and returns what goes to the exchange. One that comes again before it is
    /// answered keeps its stamp.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn handle_request(
        &mut self,
        now: Now,
        request: Request,
    ) -> Result<StampedRequest, GatewayRefusal> {
        self.last_ns = self.last_ns.max(now.clock_ns);
        let stamp = Stamp {
            time_ns: self.last_ns,
            gateway: self.id,
        };
        self.take(now, StampedRequest { stamp, request })
    }

    /// Takes a request that another gateway stamped and could not deliver. Participants bring no stamps.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn handle_stamped(
        &mut self,
        now: Now,
        stamped: StampedRequest,
    ) -> Result<StampedRequest, GatewayRefusal> {
        if stamped.stamp.time_ns > now.clock_ns.saturating_add(FUTURE_MAX_NS) {
            return Err(GatewayRefusal::FutureStamp);
        }
        // The sequencer takes stamps of the gateway at the other end of the link alone.
        let gateway = self.id;
        let stamp = Stamp {
            gateway,
            ..stamped.stamp
        };
        self.take(now, StampedRequest { stamp, ..stamped })
    }

    /// Learns that a request was answered, by whoever; says whether it waited for that.
    pub fn handle_answer(
        &mut self,
        symbol: SymbolId,
        participant: ParticipantId,
        number: u64,
    ) -> bool {
        let key = (symbol, participant, number);
        let pending = self.pending.remove(&key);
        if let Some(pending) = pending {
            self.resends.remove(&(pending.resend_ns, key));
            self.forget_one_of(participant);
        }
        pending.is_some()
    }

    /// All requests that wait for an answer, in the order of their stamps.
    #[must_use]
    pub fn unanswered(&self) -> Vec<StampedRequest> {
        let pending = self.pending.values();
        let mut stamped: Vec<_> = pending.map(|pending| pending.stamped).collect();
        stamped.sort_by_key(|one| (one.stamp, key(&one.request)));
        stamped
    }

    /// A request to send again, if one is due.
    pub fn poll_resend(&mut self, now: Now) -> Option<StampedRequest> {
        let (due_ns, key) = *self.resends.first()?;
        if due_ns > now.steady_ns {
            return None;
        }
        let pending = *self.pending.get(&key)?;
        self.arm(key, pending.stamped, now);
        Some(pending.stamped)
    }

    /// When the next request is to be sent again, by the steady clock.
    #[must_use]
    pub fn next_resend_ns(&self) -> Option<u64> {
        self.resends.first().map(|(due_ns, _)| *due_ns)
    }

    /// How many requests wait for their answer.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    fn take(
        &mut self,
        now: Now,
        stamped: StampedRequest,
    ) -> Result<StampedRequest, GatewayRefusal> {
        let key = key(&stamped.request);
        let known = self.pending.get(&key).map(|pending| pending.stamped);
        if known.is_none() {
            self.count_one_of(stamped.request.participant)?;
        }
        let stamped = known.unwrap_or(stamped);
        self.arm(key, stamped, now);
        Ok(stamped)
    }

    fn count_one_of(&mut self, participant: ParticipantId) -> Result<(), GatewayRefusal> {
        if self.pending.len() >= self.limits.all {
            return Err(GatewayRefusal::Full);
        }
        let count = self.pending_of.get(&participant).copied().unwrap_or(0);
        if count >= self.limits.each {
            return Err(GatewayRefusal::Share);
        }
        self.pending_of.insert(participant, count + 1);
        Ok(())
    }

    fn forget_one_of(&mut self, participant: ParticipantId) {
        if let Some(count) = self.pending_of.get_mut(&participant) {
            *count -= 1;
            if *count == 0 {
                self.pending_of.remove(&participant);
            }
        }
    }

    fn arm(&mut self, key: RequestKey, stamped: StampedRequest, now: Now) {
        let resend_ns = now.steady_ns.saturating_add(self.resend_after_ns);
        let pending = Pending { stamped, resend_ns };
        if let Some(before) = self.pending.insert(key, pending) {
            self.resends.remove(&(before.resend_ns, key));
        }
        self.resends.insert((resend_ns, key));
    }
}
