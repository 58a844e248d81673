//! Equivalence classes of the states of a replica: what it may be, as far as other replicas can tell.

use std::collections::BTreeMap;
use std::rc::Rc;

/// The sets of states of one replica that cannot be told apart from outside, by number.
pub(crate) struct Classes {
    sets: Vec<Rc<[u32]>>,
    numbers: BTreeMap<Rc<[u32]>, u32>,
}

impl Classes {
    pub(crate) fn new() -> Self {
        Classes {
            sets: Vec::new(),
            numbers: BTreeMap::new(),
        }
    }

    /// The states of a class, ascending; there is at least one.
    pub(crate) fn states(&self, class: u32) -> &Rc<[u32]> {
        &self.sets[class as usize]
    }

    /// One of its states: for all that others can see.
    pub(crate) fn face(&self, class: u32) -> u32 {
        self.sets[class as usize][0]
    }

    /// The number of a set of states.
    pub(crate) fn number(&mut self, mut states: Vec<u32>) -> u32 {
        assert!(!states.is_empty(), "a replica is in some state");
        states.sort_unstable();
        let set = Rc::from(states);
        let next = self.sets.len() as u32;
        let number = *self.numbers.entry(Rc::clone(&set)).or_insert(next);
        if number == next {
            self.sets.push(set);
        }
        number
    }
}
