//! How late messages are: what the length of a round starts from.
//!
//! A header says when it left, on its sender's clock. How long it took and how far that clock is off are
//! one number; only how much longer it took than others of the same sender is used, and there a constant
//! offset cancels. What the receiver was busy with meanwhile is part of it, as it is part of a round.

use quorate_core::MemberIndex;

/// A message's weight in the mean of its sender: one in so many.
const WEIGHT: i64 = 16;
/// Messages before a tail is known.
const SAMPLES_MIN: u32 = 64;
/// Messages after which older ones count half.
const SAMPLES_MAX: u32 = 1024;
/// A difference beyond this is another clock, not a late message.
const LATE_NS_MAX: i64 = 1_000_000_000;
/// Classes per power of two.
const FINE: u32 = 8;
/// Enough for [`LATE_NS_MAX`].
const CLASSES: usize = 30 * FINE as usize;

/// How late messages were, compared with the mean of their senders.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    /// By sender, the mean time that messages took, ns; clocks that differ are part of it.
    means_ns: Vec<Option<i64>>,
    /// Messages by class of how late they were.
    classes: Vec<u32>,
    samples: u32,
}

impl Delays {
    pub(super) fn new(members: usize) -> Delays {
        Delays {
            means_ns: vec![None; members],
            classes: vec![0; CLASSES],
            samples: 0,
        }
    }

    /// A message left at `sent_ns` of its sender's clock, and was heard at `now_ns` of the own.
    pub(super) fn note(&mut self, from: MemberIndex, sent_ns: u64, now_ns: u64) {
        let took_ns = now_ns.wrapping_sub(sent_ns) as i64;
        let mean_ns = *self.means_ns[from].get_or_insert(took_ns);
        let late_ns = took_ns.wrapping_sub(mean_ns);
        if late_ns.unsigned_abs() > LATE_NS_MAX as u64 {
            self.means_ns[from] = Some(took_ns);
            return;
        }
        self.means_ns[from] = Some(mean_ns.wrapping_add(late_ns / WEIGHT));
        self.classes[class_of(late_ns.max(0) as u64)] += 1;
        self.samples += 1;
        if self.samples >= SAMPLES_MAX {
            self.classes.iter_mut().for_each(|count| *count /= 2);
            self.samples = self.classes.iter().sum();
        }
    }

    /// `p_x(d) - mean(d)`, once enough was heard: of a hundred messages `percent` are not later.
    pub(super) fn tail_ns(&self, percent: u64) -> Option<u64> {
        if self.samples < SAMPLES_MIN {
            return None;
        }
        let mut left = u64::from(self.samples) * (100 - percent) / 100;
        let later = |count: &u32| match left.checked_sub(u64::from(*count)) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        };
        let class = self.classes.iter().rposition(later)?;
        Some(end_of(class))
    }
}

/// Classes grow with the length: eight to each power of two.
fn class_of(ns: u64) -> usize {
    let power = ns.checked_ilog2().unwrap_or(0);
    let class = match power.checked_sub(FINE.ilog2()) {
        None => ns,
        Some(coarse) => u64::from(FINE * (coarse + 1)) + (ns >> coarse) % u64::from(FINE),
    };
    (class as usize).min(CLASSES - 1)
}

/// The first length behind a class.
fn end_of(class: usize) -> u64 {
    let (row, place) = (class / FINE as usize, class % FINE as usize);
    match row.checked_sub(1) {
        None => place as u64 + 1,
        Some(coarse) => (u64::from(FINE) + place as u64 + 1) << coarse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_a_class_that_ends_soon_behind_it() {
        let mut last = 0;
        for ns in (0..5_000).chain((0..500).map(|step| 5_000 + step * step * 3_000)) {
            let class = class_of(ns);
            assert!(class >= last, "{ns}");
            assert!(
                (ns + 1..=ns + 1 + ns / 8).contains(&end_of(class)),
                "{ns}: {}",
                end_of(class)
            );
            last = class;
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    /// Messages that take 100 us, one in `rare` of them 400 us more; clocks are hours apart.
    fn tail_with(rare: u64, offset_ns: u64) -> Option<u64> {
        let mut delays = Delays::new(2);
        for count in 0..2_000u64 {
            let sent_ns = offset_ns.wrapping_add(count * 1_000_000);
            let late_ns = if count % rare == rare - 1 { 400_000 } else { 0 };
            let heard_ns = count * 1_000_000 + 100_000 + late_ns;
            delays.note(MemberIndex::new(1), sent_ns, heard_ns);
        }
        delays.tail_ns(99)
    }

    #[test]
    fn the_tail_is_what_one_message_in_a_hundred_exceeds() {
        for offset_ns in [0, 7_200_000_000_000, 0u64.wrapping_sub(7_200_000_000_000)] {
            let often = tail_with(50, offset_ns).unwrap();
            assert!((380_000..450_000).contains(&often), "{often}");
            let seldom = tail_with(300, offset_ns).unwrap();
            assert!(seldom < 30_000, "{seldom}");
        }
    }

    #[test]
    fn a_clock_that_is_set_is_no_late_message() {
        let mut delays = Delays::new(1);
        (0..200u64).for_each(|at| delays.note(MemberIndex::new(0), at, at + 50));
        let before = delays.tail_ns(99);
        (0..200u64).for_each(|at| delays.note(MemberIndex::new(0), at, at + 60_000_000_000));
        assert_eq!(delays.tail_ns(99), before);
    }

    #[test]
    fn few_messages_show_no_tail() {
        let mut delays = Delays::new(1);
        (0..10).for_each(|at| delays.note(MemberIndex::new(0), at, at));
        assert_eq!(delays.tail_ns(99), None);
    }
}
