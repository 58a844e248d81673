//! Numbered things that come in any order, and leave in theirs.

use std::collections::BTreeMap;
use std::ops::Range;

/// What became of something that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted {
    /// The thing waits for its turn.
    Taken,
    /// A thing of this number came before.
    Known,
    /// Too much waits already, for numbers before it: it has to be fetched again.
    Full,
}

/// Puts numbered things in order, each once.
#[derive(Clone, Debug)]
pub struct InOrder<T> {
    next: u64,
    /// The highest number that is known to exist.
    seen: u64,
    waiting: BTreeMap<u64, T>,
    most: usize,
}

impl<T> InOrder<T> {
    /// Expects this number next, and lets at most so many things wait, at least one.
    #[must_use]
    pub fn new(next: u64, most: usize) -> Self {
        InOrder {
            next,
            seen: next.saturating_sub(1),
            waiting: BTreeMap::new(),
            most: most.max(1),
        }
    }

    /// The number whose turn it is.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// How many things wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes something in. Where too much waits, what has the highest number goes.
    pub fn insert(&mut self, number: u64, value: T) -> Inserted {
        self.note_seen(number);
        if number < self.next || self.waiting.contains_key(&number) {
            return Inserted::Known;
        }
        if self.waiting.len() >= self.most {
            match self.waiting.last_key_value() {
                Some((last, _)) if *last > number => {
                    self.waiting.pop_last();
                }
                _ => return Inserted::Full,
            }
        }
        self.waiting.insert(number, value);
        Inserted::Taken
    }

    /// Learns that something of this number exists.
    pub fn note_seen(&mut self, number: u64) {
        self.seen = self.seen.max(number);
    }

    /// What has its turn, if it is there.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.waiting.get(&self.next)
    }

    /// What has its turn and what follows it without a gap, in order.
    pub fn ready_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let next = self.next;
        let waiting = self.waiting.iter_mut();
        let without_gap = (next..).zip(waiting);
        without_gap
            .take_while(|(expected, (number, _))| expected == *number)
            .map(|(_, (_, value))| value)
    }

    /// Takes out what has its turn.
    pub fn pop(&mut self) -> Option<T> {
        let value = self.waiting.remove(&self.next)?;
        self.next = self.next.saturating_add(1);
        Some(value)
    }

    /// The numbers to fetch before anything else can leave.
    #[must_use]
    pub fn missing(&self) -> Option<Range<u64>> {
        let end = match self.waiting.first_key_value() {
            Some((first, _)) => *first,
            None => self.seen.saturating_add(1),
        };
        (self.next < end).then_some(self.next..end)
    }

    /// Expects this number next, and forgets what was before it.
    pub fn skip_to(&mut self, next: u64) {
        if next > self.next {
            self.next = next;
            self.waiting = self.waiting.split_off(&next);
            self.seen = self.seen.max(next - 1);
        }
    }
}
