//! Connections whose handshake is not done: so many at once, and a flood of them keeps no peer out.
//!
//! Whoever comes finds room: beyond the bound another one gives way, the oldest of those from the address that has the most.
//! The handshake of a peer takes a few round trips, and a peer that had to give way comes again.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Handshakes at once.
pub(crate) const PENDING_MAX: usize = 64;

/// All handshakes of one port that are not done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending(Arc<Mutex<VecDeque<Handshake>>>);

#[derive(Debug)]
struct Handshake {
    source: Source,
    /// Tells it to end.
    gives_way: Arc<Notify>,
}

/// Where connections come from. One host can have all IPv6 addresses of a network of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Source {
    V4(u32),
    V6(u64),
}

impl Source {
    fn of(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(address) => Source::V4(address.to_bits()),
            IpAddr::V6(address) => Source::V6((address.to_bits() >> 64) as u64),
        }
    }
}

impl Pending {
    /// Begins a handshake with somebody at this address; it ends when the place is dropped.
    pub(crate) fn begin(&self, from: IpAddr) -> PendingSlot {
        let handshake = Handshake {
            source: Source::of(from),
            gives_way: Arc::default(),
        };
        let place = PendingSlot {
            gives_way: Arc::clone(&handshake.gives_way),
            pending: self.clone(),
        };
        let mut all = self.all();
        if all.len() >= PENDING_MAX
            && let Some(most) = most_frequent(&all)
            && let Some(at) = all.iter().position(|other| other.source == most)
            && let Some(other) = all.remove(at)
        {
            other.gives_way.notify_one();
        }
        all.push_back(handshake);
        place
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Handshake>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn most_frequent(all: &VecDeque<Handshake>) -> Option<Source> {
    let mut counts: BTreeMap<Source, usize> = BTreeMap::new();
    for handshake in all {
        *counts.entry(handshake.source).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(source, _)| source)
}

/// One handshake's place among those that are not done.
#[derive(Debug)]
pub(crate) struct PendingSlot {
    gives_way: Arc<Notify>,
    pending: Pending,
}

impl PendingSlot {
    /// Waits until the handshake has to give way to another.
    pub(crate) async fn gives_way(&self) {
        self.gives_way.notified().await;
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        let mut all = self.pending.all();
        all.retain(|other| !Arc::ptr_eq(&other.gives_way, &self.gives_way));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Duration, timeout};

    async fn gave_way(place: &PendingSlot) -> bool {
        timeout(Duration::ZERO, place.gives_way()).await.is_ok()
    }

    /// Scenario: a flood from one host, with a handshake from another before it and two behind it.
    #[tokio::test]
    async fn those_from_the_address_with_the_most_give_way_the_oldest_first() {
        let pending = Pending::default();
        let [peer, flood] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
        let early = pending.begin(peer);
        let strangers: Vec<PendingSlot> = (1..PENDING_MAX).map(|_| pending.begin(flood)).collect();
        let late = [peer, peer].map(|address| pending.begin(address));
        for (at, stranger) in strangers.iter().enumerate() {
            assert_eq!(gave_way(stranger).await, at < 2, "{at}");
        }
        for place in [&early, &late[0], &late[1]] {
            assert!(!gave_way(place).await);
        }
        assert_eq!(pending.all().len(), PENDING_MAX);
        drop((early, strangers, late));
        assert_eq!(pending.all().len(), 0);
    }

    #[test]
    fn a_host_is_one_source_by_whichever_of_its_addresses_it_comes() {
        let source = |address: &str| Source::of(address.parse().unwrap());
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
    }
}
