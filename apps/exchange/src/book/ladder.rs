//! The price levels of one side: found by price, and from each the next that is in use.

/// The levels of a page, as many as a word has bits.
const PAGE: usize = 64;
/// No page is there.
const NONE: u32 = u32::MAX;

/// The orders at one price, the oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// The slot of the oldest order.
    pub(super) first: u32,
    /// The slot of the newest order.
    pub(super) last: u32,
    /// How many orders wait; 0 in a level that is not in use.
    pub(super) orders: u32,
    /// The lots that wait.
    pub(super) quantity: u64,
}

#[derive(Debug)]
struct Page {
    /// A bit for each level in use.
    used: u64,
    levels: [Level; PAGE],
}

/// Up to 64³ levels in pages of 64, with a bit for each page, and one for each 64 pages. Pages that hold no order are
/// given to others.
#[derive(Debug)]
pub(super) struct Ladder {
    top: u64,
    middle: Box<[u64; PAGE]>,
    /// The place of each page in `pages`.
    table: Box<[u32]>,
    pages: Vec<Page>,
    free: Vec<u32>,
}

impl Ladder {
    /// A ladder for levels below `levels`.
    pub(super) fn new(levels: u32) -> Self {
        let pages = (levels as usize).div_ceil(PAGE);
        Ladder {
            top: 0,
            middle: Box::new([0; PAGE]),
            table: vec![NONE; pages].into_boxed_slice(),
            pages: Vec::new(),
            free: Vec::new(),
        }
    }

    /// A level that is in use.
    pub(super) fn get(&self, at: u32) -> &Level {
        &self.pages[self.table[page(at)] as usize].levels[place(at)]
    }

    /// A level, which is in use from now on.
    pub(super) fn get_mut(&mut self, at: u32) -> &mut Level {
        let number = page(at);
        if self.table[number] == NONE {
            self.table[number] = self.free_page();
            self.top |= 1 << (number / PAGE);
            self.middle[number / PAGE] |= 1 << (number % PAGE);
        }
        let page = &mut self.pages[self.table[number] as usize];
        page.used |= 1 << place(at);
        &mut page.levels[place(at)]
    }

    /// Takes a level out of use.
    pub(super) fn remove(&mut self, at: u32) {
        let number = page(at);
        let slot = self.table[number];
        let page = &mut self.pages[slot as usize];
        page.levels[place(at)] = Level::default();
        page.used &= !(1 << place(at));
        if page.used == 0 {
            self.table[number] = NONE;
            self.free.push(slot);
            self.middle[number / PAGE] &= !(1 << (number % PAGE));
            if self.middle[number / PAGE] == 0 {
                self.top &= !(1 << (number / PAGE));
            }
        }
    }

    /// The lowest level in use.
    pub(super) fn lowest(&self) -> Option<u32> {
        let top = lowest_bit(self.top)?;
        self.lowest_in(top * PAGE + lowest_bit(self.middle[top])?)
    }

    /// The highest level in use.
    pub(super) fn highest(&self) -> Option<u32> {
        let top = highest_bit(self.top)?;
        self.highest_in(top * PAGE + highest_bit(self.middle[top])?)
    }

    /// The lowest level in use above one.
    pub(super) fn above(&self, at: u32) -> Option<u32> {
        let number = page(at);
        if let Some(bit) = lowest_bit(self.used(number) & bits_above(place(at))) {
            return Some(level(number, bit));
        }
        let (group, inside) = (number / PAGE, number % PAGE);
        if let Some(bit) = lowest_bit(self.middle[group] & bits_above(inside)) {
            return self.lowest_in(group * PAGE + bit);
        }
        let group = lowest_bit(self.top & bits_above(group))?;
        self.lowest_in(group * PAGE + lowest_bit(self.middle[group])?)
    }

    /// The highest level in use below one.
    pub(super) fn below(&self, at: u32) -> Option<u32> {
        let number = page(at);
        if let Some(bit) = highest_bit(self.used(number) & bits_below(place(at))) {
            return Some(level(number, bit));
        }
        let (group, inside) = (number / PAGE, number % PAGE);
        if let Some(bit) = highest_bit(self.middle[group] & bits_below(inside)) {
            return self.highest_in(group * PAGE + bit);
        }
        let group = highest_bit(self.top & bits_below(group))?;
        self.highest_in(group * PAGE + highest_bit(self.middle[group])?)
    }

    fn lowest_in(&self, number: usize) -> Option<u32> {
        lowest_bit(self.used(number)).map(|bit| level(number, bit))
    }

    fn highest_in(&self, number: usize) -> Option<u32> {
        highest_bit(self.used(number)).map(|bit| level(number, bit))
    }

    fn used(&self, number: usize) -> u64 {
        match self.table[number] {
            NONE => 0,
            slot => self.pages[slot as usize].used,
        }
    }

    fn free_page(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.pages.push(Page {
                used: 0,
                levels: [Level::default(); PAGE],
            });
            (self.pages.len() - 1) as u32
        })
    }
}

fn page(at: u32) -> usize {
    at as usize / PAGE
}

fn place(at: u32) -> usize {
    at as usize % PAGE
}

fn level(page: usize, place: usize) -> u32 {
    (page * PAGE + place) as u32
}

fn lowest_bit(word: u64) -> Option<usize> {
    (word != 0).then(|| word.trailing_zeros() as usize)
}

fn highest_bit(word: u64) -> Option<usize> {
    (word != 0).then(|| 63 - word.leading_zeros() as usize)
}

/// All bits above one.
fn bits_above(bit: usize) -> u64 {
    !1 << bit
}

/// All bits below one.
fn bits_below(bit: usize) -> u64 {
    (1 << bit) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::types::LEVELS_MAX;
    use std::collections::BTreeSet;

    #[test]
    fn a_ladder_finds_what_an_ordered_set_finds() {
        let mut rng = fastrand::Rng::with_seed(7);
        for round in 0..40 {
            // Crowded ladders and thin ones, narrow ones and the widest.
            let width = [3, 64, 65, 5000, LEVELS_MAX][round % 5];
            let mut ladder = Ladder::new(width);
            let mut set = BTreeSet::new();
            for _ in 0..2000 {
                let at = rng.u32(0..width);
                if set.remove(&at) {
                    ladder.remove(at);
                } else if set.len() < 300 {
                    set.insert(at);
                    ladder.get_mut(at).orders = at + 1;
                }
                let probe = rng.u32(0..width);
                assert_eq!(ladder.lowest(), set.first().copied());
                assert_eq!(ladder.highest(), set.last().copied());
                assert_eq!(ladder.above(probe), set.range(probe + 1..).next().copied());
                assert_eq!(ladder.below(probe), set.range(..probe).next_back().copied());
                assert!(set.iter().all(|at| ladder.get(*at).orders == at + 1));
            }
            assert!(ladder.pages.len() <= 300);
        }
    }
}
