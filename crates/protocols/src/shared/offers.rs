//! Own entries on their way to a leader, and through it to a slot.

use crate::shared::decided::DecidedSet;
use crate::shared::under_way::is_long;
use quorate_core::pace::{ACK_NS_MAX, Pace};
use quorate_core::{Entry, EntryId};
use std::hash::{Hash, Hasher};

/// An own entry that is not delivered yet.
#[derive(Clone, Debug)]
struct Offer {
    entry: Entry,
    /// Whether it was sent since the last retransmission timer.
    is_fresh: bool,
    /// When it was given to this leader, on the own clock in ns.
    since_ns: u64,
    /// When it is with the leader, and what that makes of it is here.
    until_ns: u64,
}

/// Own entries that are not delivered yet, in the order they were formed.
#[derive(Clone, Default, Debug)]
pub(crate) struct Offers {
    offers: Vec<Offer>,
    /// How long long entries take from here until they are delivered.
    pace: Pace,
}

impl Hash for Offers {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for offer in &self.offers {
            (offer.entry.id, offer.is_fresh).hash(to);
        }
    }
}

impl Offers {
    /// How many entries are under way.
    pub(crate) fn len(&self) -> usize {
        self.offers.len()
    }

    /// Whether no entry is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.offers.is_empty()
    }

    /// The entries under way.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.offers.iter().map(|offer| &offer.entry)
    }

    /// How long a leader may take with a long entry, beyond the time that it is under way, in ns.
    pub(crate) fn patience_ns(&self) -> u64 {
        self.pace.patience_ns()
    }

    /// A new entry was given to the leader, if there is one; by `until_ns` what comes of it is here.
    pub(crate) fn push(&mut self, entry: Entry, now_ns: u64, until_ns: u64) {
        self.offers.push(Offer {
            entry,
            is_fresh: true,
            since_ns: now_ns,
            until_ns,
        });
    }

    /// Begins anew: every entry is to be given to a new leader. `give` does so, and says until when what
    /// comes of it is here.
    pub(crate) fn give_all(&mut self, now_ns: u64, mut give: impl FnMut(&Entry) -> u64) {
        for offer in &mut self.offers {
            offer.is_fresh = true;
            offer.since_ns = now_ns;
            offer.until_ns = give(&offer.entry);
        }
    }

    /// A retransmission timer came due: the entries that were not sent since the last one, and had their time.
    pub(crate) fn take_stale(&mut self, now_ns: u64) -> Vec<Entry> {
        let mut stale = Vec::new();
        for offer in &mut self.offers {
            let is_fresh = std::mem::take(&mut offer.is_fresh);
            if !is_fresh && offer.until_ns <= now_ns {
                stale.push(offer.entry.clone());
            }
        }
        stale
    }

    /// An entry was given to the leader again.
    pub(crate) fn given_again(&mut self, id: EntryId, now_ns: u64) {
        let offer = self.offers.iter_mut().find(|offer| offer.entry.id == id);
        if let Some(offer) = offer.filter(|offer| is_long(&offer.entry)) {
            offer.until_ns = self.pace.again_ns(offer.since_ns, now_ns);
        }
    }

    /// An entry of this name was delivered. What took a leader elsewhere how long is remembered.
    pub(crate) fn settle(&mut self, id: EntryId, is_led_here: bool, now_ns: u64) {
        let Some(at) = self.offers.iter().position(|offer| offer.entry.id == id) else {
            return;
        };
        let offer = self.offers.remove(at);
        if !is_led_here && is_long(&offer.entry) {
            let took_ns = now_ns.saturating_sub(offer.since_ns);
            self.pace.note(took_ns, ACK_NS_MAX);
        }
    }

    /// Drops the entries that are delivered.
    pub(crate) fn drop_done(&mut self, done: &DecidedSet) {
        let is_open = |offer: &Offer| !done.entries.contains(offer.entry.id);
        self.offers.retain(is_open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::EntryBuilder;

    #[test]
    fn an_entry_is_given_again_when_it_was_not_given_since_the_last_timer() {
        let id = EntryId::default();
        let mut offers = Offers::default();
        offers.push(EntryBuilder::default().finish(id, 0), 5, 9);
        assert!(offers.take_stale(10).is_empty(), "it is fresh");
        assert_eq!(offers.take_stale(10).len(), 1);
        assert!(offers.take_stale(8).is_empty(), "it is under way");
        offers.give_all(20, |_| 20);
        assert!(offers.take_stale(20).is_empty(), "it is fresh again");
        offers.settle(id, false, 30);
        assert!(offers.is_empty());
    }
}
