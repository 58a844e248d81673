//! Virtual time: what happens next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events in the order of their time; those of one time in the order they were put in.
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Item<E>>,
    now_ns: u64,
    count: u64,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Self {
        Queue {
            heap: BinaryHeap::new(),
            now_ns: 0,
            count: 0,
        }
    }

    /// The time of the last event taken, in ns since the seed began.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How many events wait.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Puts in an event that is due after `delay_ns`.
    pub(crate) fn after(&mut self, delay_ns: u64, event: E) {
        self.count += 1;
        self.heap.push(Item {
            at_ns: self.now_ns + delay_ns,
            count: self.count,
            event,
        });
    }

    /// Takes the next event, and moves time there.
    pub(crate) fn next(&mut self) -> Option<E> {
        let item = self.heap.pop()?;
        debug_assert!(item.at_ns >= self.now_ns, "time does not go back");
        self.now_ns = item.at_ns;
        Some(item.event)
    }
}

struct Item<E> {
    at_ns: u64,
    count: u64,
    event: E,
}

impl<E> Item<E> {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.count)
    }
}

impl<E> PartialEq for Item<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Item<E> {}

impl<E> PartialOrd for Item<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Reversed: the heap gives the greatest first, and the earliest is wanted.
impl<E> Ord for Item<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_put_in() {
        let mut queue = Queue::new();
        queue.after(5, 'c');
        queue.after(1, 'a');
        queue.after(5, 'd');
        queue.after(2, 'b');
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!((order, queue.now_ns()), (vec!['a', 'b', 'c', 'd'], 5));
    }
}
