//! Guises: what a replica may be, as far as anybody else can tell.

use std::collections::BTreeMap;
use std::rc::Rc;

/// The sets of states of one replica that cannot be told apart from outside, by number.
pub(crate) struct Guises {
    sets: Vec<Rc<[u32]>>,
    numbers: BTreeMap<Rc<[u32]>, u32>,
}

impl Guises {
    pub(crate) fn new() -> Self {
        Guises {
            sets: Vec::new(),
            numbers: BTreeMap::new(),
        }
    }

    /// The states of a guise, ascending; there is at least one.
    pub(crate) fn states(&self, guise: u32) -> &Rc<[u32]> {
        &self.sets[guise as usize]
    }

    /// One of its states: for all that others can see.
    pub(crate) fn face(&self, guise: u32) -> u32 {
        self.sets[guise as usize][0]
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
