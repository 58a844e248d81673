//! Who waits for elements of which keys on this replica.
//!
//! A client that waits takes elements through the log, as any other does, and only when it may get some: so nothing is
//! taken for a client that is gone, and replicas keep nothing of who waits. Waiters of one replica are called in the
//! order in which they came; among replicas the log decides.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A key in its database.
pub(crate) type Key = (u32, Bytes);

/// All who wait on this replica.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// How many wait: looked at for each command, without a lock.
    count: AtomicUsize,
    queues: Mutex<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    /// The number of the next place.
    next: u64,
    /// Who waits for elements of a key, by their places.
    by_key: BTreeMap<Key, BTreeMap<u64, Arc<Waiter>>>,
}

/// Somebody who waits, as others see it.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    /// Whether there may be something since the last attempt began.
    is_due: AtomicBool,
    called: Notify,
}

impl Waiter {
    fn call(&self) {
        self.is_due.store(true, Relaxed);
        self.called.notify_one();
    }

    /// Waits until there may be something.
    pub(crate) async fn due(&self) {
        while !self.is_due.load(Relaxed) {
            self.called.notified().await;
        }
    }
}

impl Queues {
    /// Calls so many of those who wait for a key, those who came first.
    fn call(&self, key: &Key, count: usize) {
        let waiting = self.by_key.get(key).into_iter().flatten();
        waiting.take(count).for_each(|(_, waiter)| waiter.call());
    }

    /// Calls the first who waits for a key and has not been called.
    fn call_next(&self, key: &Key) {
        let mut waiting = self.by_key.get(key).into_iter().flatten();
        if let Some((_, waiter)) = waiting.find(|(_, waiter)| !waiter.is_due.load(Relaxed)) {
            waiter.call();
        }
    }
}

impl Waiters {
    /// Takes a place behind all others who wait for one of these keys.
    pub(crate) fn join(self: &Arc<Self>, keys: Vec<Key>) -> Place {
        let waiter = Arc::new(Waiter::default());
        let mut queues = self.lock();
        let number = queues.next;
        queues.next += 1;
        for key in &keys {
            let queue = queues.by_key.entry(key.clone()).or_default();
            queue.insert(number, Arc::clone(&waiter));
        }
        // Before the first attempt is ordered: what comes behind that is told.
        self.count.fetch_add(1, SeqCst);
        drop(queues);
        Place {
            waiters: Arc::clone(self),
            waiter,
            number,
            keys,
        }
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// Calls those whom so many elements of a key can serve.
    pub(crate) fn call(&self, key: &Key, elements: usize) {
        self.lock().call(key, elements);
    }

    /// Calls all who wait for anything.
    pub(crate) fn call_all(&self) {
        let queues = self.lock();
        let all = queues.by_key.values().flat_map(BTreeMap::values);
        all.for_each(|waiter| waiter.call());
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those who wait; left when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    waiters: Arc<Waiters>,
    /// The one who has the place.
    pub(crate) waiter: Arc<Waiter>,
    number: u64,
    keys: Vec<Key>,
}

impl Place {
    /// An attempt begins: whoever calls from now on may mean what it does not see.
    pub(crate) fn begin_attempt(&self) {
        self.waiter.is_due.store(false, Relaxed);
    }

    /// Bytes that the place takes.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.iter().map(|(_, key)| key.len()).sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.waiters.lock();
        for key in &self.keys {
            if let Some(queue) = queues.by_key.get_mut(key) {
                queue.remove(&self.number);
                if queue.is_empty() {
                    queues.by_key.remove(key);
                }
            }
        }
        self.waiters.count.fetch_sub(1, SeqCst);
        // What this one was called for and leaves behind is for the next.
        if self.waiter.is_due.load(Relaxed) {
            self.keys.iter().for_each(|key| queues.call_next(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &'static str) -> Key {
        (0, Bytes::from_static(name.as_bytes()))
    }

    fn called(places: &[&Place]) -> Vec<bool> {
        let waiters = places.iter();
        waiters
            .map(|place| place.waiter.is_due.load(Relaxed))
            .collect()
    }

    #[test]
    fn as_many_are_called_as_there_are_elements_in_their_order() {
        let all = Arc::new(Waiters::default());
        let first = all.join(vec![key("a"), key("b")]);
        let second = all.join(vec![key("a")]);
        let third = all.join(vec![key("a")]);
        all.call(&key("a"), 2);
        assert_eq!(called(&[&first, &second, &third]), [true, true, false]);
        all.call(&key("other"), 1);
        assert_eq!(all.count(), 3);
        drop((first, second, third));
        assert_eq!((all.count(), all.lock().by_key.len()), (0, 0));
    }

    /// Scenario: one element serves the first; another arrives before the first has left.
    #[test]
    fn a_call_that_its_waiter_does_not_need_is_passed_on() {
        let all = Arc::new(Waiters::default());
        let [first, second] = [(); 2].map(|()| all.join(vec![key("a")]));
        all.call(&key("a"), 1);
        first.begin_attempt();
        all.call(&key("a"), 1);
        assert_eq!(called(&[&second]), [false]);
        drop(first);
        assert_eq!(called(&[&second]), [true]);
        second.begin_attempt();
        let third = all.join(vec![key("a")]);
        drop(second);
        assert_eq!(called(&[&third]), [false], "nobody left anything behind");
    }
}
