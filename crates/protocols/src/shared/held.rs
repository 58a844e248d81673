//! What is held until a time that whoever sent it chose, and for a while at most on the own monotonic clock.

use quorate_core::EntryId;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Alarms in vain after which they follow each other no more slowly: every millisecond.
const ALARMS_MAX: u32 = 20;

/// What is held, by the time until which it is: in synchronised time, ns since the Unix epoch.
#[derive(Clone, Debug)]
pub(crate) struct Held<T> {
    /// In the order of those times, with when it came.
    waiting: BTreeMap<(u64, EntryId), (T, u64)>,
    until: BTreeMap<EntryId, u64>,
    /// In the order in which it came.
    arrivals: BTreeSet<(u64, (u64, EntryId))>,
    /// Alarms since something was released.
    alarms: u32,
}

/// Something that is held no longer.
pub(crate) struct Released<T> {
    pub(crate) it: T,
    /// Until when it was to be held, in ns since the Unix epoch.
    pub(crate) until_ns: u64,
    /// How long it was, on the own monotonic clock.
    pub(crate) held_ns: u64,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Held {
            waiting: BTreeMap::new(),
            until: BTreeMap::new(),
            arrivals: BTreeSet::new(),
            alarms: 0,
        }
    }
}

impl<T: Hash> Hash for Held<T> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.until.hash(to);
        self.waiting.values().for_each(|(it, _)| it.hash(to));
        self.arrivals.iter().for_each(|(_, key)| key.hash(to));
    }
}

impl<T> Held<T> {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Holds something of an entry of which nothing is held, from now on.
    pub(crate) fn insert(&mut self, id: EntryId, it: T, until_ns: u64, mono_ns: u64) {
        let key = (until_ns, id);
        self.until.insert(id, until_ns);
        self.arrivals.insert((mono_ns, key));
        self.waiting.insert(key, (it, mono_ns));
    }

    pub(crate) fn get(&self, id: EntryId) -> Option<&T> {
        let until_ns = *self.until.get(&id)?;
        let (it, _) = self.waiting.get(&(until_ns, id))?;
        Some(it)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = EntryId> {
        self.until.keys().copied()
    }

    pub(crate) fn remove(&mut self, id: EntryId) -> Option<T> {
        let until_ns = self.until.remove(&id)?;
        let (it, _) = self.take((until_ns, id))?;
        Some(it)
    }

    fn take(&mut self, key: (u64, EntryId)) -> Option<(T, u64)> {
        let (it, since_ns) = self.waiting.remove(&key)?;
        self.until.remove(&key.1);
        self.arrivals.remove(&(since_ns, key));
        Some((it, since_ns))
    }

    /// How long until something is due: now, for 0.
    pub(crate) fn wait(&self, clock_ns: u64, mono_ns: u64, far_ns: u64) -> Option<u64> {
        let ((until_ns, _), _) = self.waiting.first_key_value()?;
        let (oldest_ns, _) = self.arrivals.first()?;
        let by_clock = until_ns.saturating_sub(clock_ns);
        let by_hold = (oldest_ns + far_ns).saturating_sub(mono_ns);
        Some(by_clock.min(by_hold))
    }

    /// The time for something to be due has come.
    pub(crate) fn note_alarm(&mut self) {
        self.alarms = self.alarms.saturating_add(1);
    }

    /// How long to wait at least, in ns. A clock that stands still, or has been set back, shows the same time as far
    /// ahead at every alarm: looked at less and less often, it costs nothing.
    pub(crate) fn wait_min_ns(&self) -> u64 {
        1 << self.alarms.min(ALARMS_MAX)
    }

    /// The next that is due. What was held for too long takes with it all that was to be released before it.
    pub(crate) fn pop_due(
        &mut self,
        clock_ns: u64,
        mono_ns: u64,
        far_ns: u64,
    ) -> Option<Released<T>> {
        if self.wait(clock_ns, mono_ns, far_ns)? > 0 {
            return None;
        }
        let (key, _) = self.waiting.first_key_value()?;
        let key = *key;
        self.alarms = 0;
        let (it, since_ns) = self.take(key)?;
        Some(Released {
            it,
            until_ns: key.0,
            held_ns: mono_ns.saturating_sub(since_ns),
        })
    }

    /// Takes all that is held.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.until.clear();
        self.arrivals.clear();
        let all = std::mem::take(&mut self.waiting).into_values();
        all.map(|(it, _)| it).collect()
    }
}
