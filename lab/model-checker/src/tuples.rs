//! The states of a whole cluster: a set of short tuples of numbers, in the order they were found.

/// Tuples without repetition, each with the one it was found from. Nothing is hashed away: a
/// tuple is kept as it is, so that no two are ever taken for one.
pub(crate) struct Tuples {
    width: usize,
    /// All tuples, one after the other.
    numbers: Vec<u32>,
    parents: Vec<u32>,
    /// Open addressing: numbers of tuples plus one; 0 is free.
    slots: Vec<u32>,
}

impl Tuples {
    pub(crate) fn new(width: usize) -> Self {
        Tuples {
            width,
            numbers: Vec::new(),
            parents: Vec::new(),
            slots: vec![0; 1 << 12],
        }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.parents.len()
    }

    /// The tuple of a number.
    pub(crate) fn get(&self, number: u32) -> &[u32] {
        let first = number as usize * self.width;
        &self.numbers[first..first + self.width]
    }

    /// The tuple that one was found from; the first is its own.
    pub(crate) fn parent(&self, number: u32) -> u32 {
        self.parents[number as usize]
    }

    /// Adds a tuple found from `parent`, unless it is there; says whether it is new.
    pub(crate) fn insert(&mut self, tuple: &[u32], parent: u32) -> bool {
        let mut place = self.place(tuple);
        while self.slots[place] != 0 {
            if self.get(self.slots[place] - 1) == tuple {
                return false;
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
        self.numbers.extend_from_slice(tuple);
        self.parents.push(parent);
        self.slots[place] = u32::try_from(self.len()).expect("fewer than 2^32 states");
        if self.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
        true
    }

    /// Bytes taken.
    pub(crate) fn bytes(&self) -> usize {
        4 * (self.numbers.capacity() + self.parents.capacity() + self.slots.capacity())
    }

    fn place(&self, tuple: &[u32]) -> usize {
        let mix = |hash: u64, number: &u32| {
            (hash ^ u64::from(*number))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        let hash = tuple.iter().fold(0, mix);
        (hash ^ hash >> 32) as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        for number in 0..self.len() as u32 {
            let mut place = self.place(self.get(number));
            while self.slots[place] != 0 {
                place = (place + 1) & (self.slots.len() - 1);
            }
            self.slots[place] = number + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_every_tuple_once_in_the_order_found() {
        let mut tuples = Tuples::new(3);
        let tuple = |i: u32| [i % 100, i / 100, i / 7919];
        for i in 0..50_000 {
            assert!(tuples.insert(&tuple(i), i / 2));
            assert!(!tuples.insert(&tuple(i / 3), 0), "{i}");
        }
        assert_eq!(tuples.len(), 50_000);
        for i in 0..50_000 {
            assert_eq!((tuples.get(i), tuples.parent(i)), (&tuple(i)[..], i / 2));
        }
    }
}
