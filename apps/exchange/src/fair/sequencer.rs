//! In front of the log: requests are held until a delay after their stamps, and go in the order of these.

use super::Now;
use super::gateway::{RequestKey, StampedRequest, key};
use crate::exchange::{GatewayId, Stamp, SymbolId};
use std::collections::{BTreeMap, BTreeSet};

/// How a sequencer orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencerOptions {
    /// The time from a request's stamp to its release, equal for all gateways.
    pub delay_ns: u64,
    /// How far ahead a stamp may be, and how long a request is held at most whatever the clock does.
    pub far_bound_ns: u64,
    /// How many requests may be held.
    pub most: usize,
}

impl Default for SequencerOptions {
    fn default() -> Self {
        SequencerOptions {
            delay_ns: 200_000,
            far_bound_ns: 2_000_000,
            most: 65_536,
        }
    }
}

/// What became of a request as it came to the sequencer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The request is held until its time.
    Held,
    /// The request's time had passed, and nothing of its symbol that was stamped later is gone: it goes at once, in
    /// order.
    Overdue,
    /// Something of its symbol that was stamped later is gone already: it goes at once, out of order.
    Late,
    /// The stamp was far ahead of the clock, and is now the time of its arrival.
    Future,
    /// The gateway's clock is wrong, and the stamp is now the time of the request's arrival.
    Quarantined,
    /// A copy of it is held already: the first one counts.
    Known,
    /// The stamp is of another gateway than the one the request came from: it is refused.
    Forged,
    /// Too many requests are held: it is refused.
    Full,
}

impl Arrival {
    /// Whether the request came after its time; `None` where its stamp does not tell.
    #[must_use]
    pub fn is_late(self) -> Option<bool> {
        match self {
            Arrival::Held => Some(false),
            Arrival::Overdue | Arrival::Late => Some(true),
            Arrival::Future
            | Arrival::Quarantined
            | Arrival::Known
            | Arrival::Forged
            | Arrival::Full => None,
        }
    }
}

/// How many requests came to each [`Arrival`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequencerStats {
    /// Requests that were held until their time.
    pub held: u64,
    /// Requests that came after their time, and in order.
    pub overdue: u64,
    /// Requests that something stamped later was released before.
    pub late: u64,
    /// Requests with a stamp far ahead of the clock.
    pub future: u64,
    /// Requests of gateways whose clocks are wrong.
    pub quarantined: u64,
    /// Copies of requests that were held.
    pub known: u64,
    /// Requests with the stamp of another gateway.
    pub forged: u64,
    /// Requests for which there was no room.
    pub full: u64,
}

impl SequencerStats {
    /// Counts what another sequencer has counted.
    pub fn add(&mut self, other: &SequencerStats) {
        self.held += other.held;
        self.overdue += other.overdue;
        self.late += other.late;
        self.future += other.future;
        self.quarantined += other.quarantined;
        self.known += other.known;
        self.forged += other.forged;
        self.full += other.full;
    }
}

/// The place of a request among those that are held. The time is that of its stamp, unless it is late.
type Place = (u64, Stamp, RequestKey);

/// Holds requests at the leader, and releases them in the order of their stamps.
///
/// It is in memory alone: what it holds when the leader dies comes again from the gateways, under the same stamps.
#[derive(Debug)]
pub struct Sequencer {
    options: SequencerOptions,
    held: BTreeMap<Place, StampedRequest>,
    places: BTreeMap<RequestKey, (Place, u64)>,
    /// What is held by when it came, on the steady clock.
    arrivals: BTreeSet<(u64, Place)>,
    /// For each symbol, the highest time that was released.
    released: BTreeMap<SymbolId, u64>,
    quarantined: BTreeSet<GatewayId>,
    stats: SequencerStats,
}

impl Sequencer {
    /// A sequencer that holds nothing yet.
    #[must_use]
    pub fn new(options: SequencerOptions) -> Sequencer {
        Sequencer {
            options,
            held: BTreeMap::new(),
            places: BTreeMap::new(),
            arrivals: BTreeSet::new(),
            released: BTreeMap::new(),
            quarantined: BTreeSet::new(),
            stats: SequencerStats::default(),
        }
    }

    /// Sets the delay from now on. The order of stamps is kept.
    pub fn set_delay(&mut self, delay_ns: u64) {
        self.options.delay_ns = delay_ns;
    }

    /// Says whether a gateway's clock is wrong, so that the times of arrival take the place of its stamps.
    pub fn set_quarantined(&mut self, gateway: GatewayId, is_quarantined: bool) {
        match is_quarantined {
            true => self.quarantined.insert(gateway),
            false => self.quarantined.remove(&gateway),
        };
    }

    /// Learns that a request of this symbol and stamp is in the log: another leader released it.
    pub fn handle_applied(&mut self, symbol: SymbolId, stamp: Stamp) {
        let released = self.released.entry(symbol).or_default();
        *released = stamp.time_ns.max(*released);
    }

    /// Takes a request that came over the link of a gateway.
    pub fn handle_request(
        &mut self,
        now: Now,
        link: GatewayId,
        stamped: StampedRequest,
    ) -> Arrival {
        let arrival = self.judge(now, link, &stamped);
        let stats = &mut self.stats;
        *match arrival {
            Arrival::Held => &mut stats.held,
            Arrival::Overdue => &mut stats.overdue,
            Arrival::Late => &mut stats.late,
            Arrival::Future => &mut stats.future,
            Arrival::Quarantined => &mut stats.quarantined,
            Arrival::Known => &mut stats.known,
            Arrival::Forged => &mut stats.forged,
            Arrival::Full => &mut stats.full,
        } += 1;
        match arrival {
            Arrival::Held | Arrival::Overdue => self.hold(now, stamped.stamp.time_ns, stamped),
            Arrival::Late => {
                let last = self.last_released(stamped.request.symbol);
                self.hold(now, last.saturating_add(1), stamped);
            }
            Arrival::Future | Arrival::Quarantined => {
                let time_ns = now.clock_ns;
                let stamp = Stamp {
                    time_ns,
                    ..stamped.stamp
                };
                self.hold(now, time_ns, StampedRequest { stamp, ..stamped });
            }
            Arrival::Known | Arrival::Forged | Arrival::Full => {}
        }
        arrival
    }

    /// The next request for the log, if one may go.
    pub fn poll(&mut self, now: Now) -> Option<StampedRequest> {
        let (place, _) = self.held.first_key_value()?;
        let is_due = place.0.saturating_add(self.options.delay_ns) <= now.clock_ns;
        let oldest = self.arrivals.first().map_or(u64::MAX, |(at, _)| *at);
        let is_held_long = oldest.saturating_add(self.options.far_bound_ns) <= now.steady_ns;
        if !is_due && !is_held_long {
            return None;
        }
        let (place, stamped) = self.held.pop_first()?;
        if let Some((_, arrived_ns)) = self.places.remove(&place.2) {
            self.arrivals.remove(&(arrived_ns, place));
        }
        let released = self.released.entry(stamped.request.symbol).or_default();
        *released = place.0.max(*released);
        Some(stamped)
    }

    /// How long it takes until the next request may go, if the clock runs on as it does.
    #[must_use]
    pub fn next_release_in_ns(&self, now: Now) -> Option<u64> {
        let (place, _) = self.held.first_key_value()?;
        let due = place.0.saturating_add(self.options.delay_ns);
        let (oldest, _) = self.arrivals.first()?;
        let long = oldest.saturating_add(self.options.far_bound_ns);
        let by_clock = due.saturating_sub(now.clock_ns);
        Some(by_clock.min(long.saturating_sub(now.steady_ns)))
    }

    /// How many requests are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// How many requests came, by what became of them.
    #[must_use]
    pub fn stats(&self) -> SequencerStats {
        self.stats
    }

    fn judge(&self, now: Now, link: GatewayId, stamped: &StampedRequest) -> Arrival {
        let stamp = stamped.stamp;
        if stamp.gateway != link {
            return Arrival::Forged;
        }
        if self.places.contains_key(&key(&stamped.request)) {
            return Arrival::Known;
        }
        if self.held.len() >= self.options.most {
            return Arrival::Full;
        }
        if self.quarantined.contains(&link) {
            return Arrival::Quarantined;
        }
        if stamp.time_ns > now.clock_ns.saturating_add(self.options.far_bound_ns) {
            return Arrival::Future;
        }
        if stamp.time_ns < self.last_released(stamped.request.symbol) {
            return Arrival::Late;
        }
        match stamp.time_ns.saturating_add(self.options.delay_ns) < now.clock_ns {
            true => Arrival::Overdue,
            false => Arrival::Held,
        }
    }

    fn last_released(&self, symbol: SymbolId) -> u64 {
        self.released.get(&symbol).copied().unwrap_or_default()
    }

    fn hold(&mut self, now: Now, time_ns: u64, stamped: StampedRequest) {
        let key = key(&stamped.request);
        let place = (time_ns, stamped.stamp, key);
        self.places.insert(key, (place, now.steady_ns));
        self.arrivals.insert((now.steady_ns, place));
        self.held.insert(place, stamped);
    }
}
