//! How long peers take to answer, so that nobody is asked again for what is on its way.
//!
//! An answer may be a megabyte, and the link full: it comes when it comes, and asked of another peer it would come
//! twice, behind itself. A replica that asked so for as long as it was behind would stay behind for good.

use quorate_core::pace::Pace;
use quorate_core::{ReplicaId, SECONDS};
use std::ops::Range;

/// No peer is waited for longer: it may be gone without a word.
const WAIT_NS_MAX: u64 = SECONDS;
/// An answer that took longer tells of a loss, and not of the pace.
const ANSWER_NS_MAX: u64 = SECONDS / 2;

/// Questions for what follows some place: a slot, a byte.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Who was asked since an answer brought something, and in vain so far.
    asked: Vec<Asked>,
    /// How often a peer had to be asked once more, since it was last seen how long answers take.
    again: u32,
    pace: Pace,
}

#[derive(Debug)]
struct Asked {
    peer: ReplicaId,
    from: u64,
    since_ns: u64,
    /// It was asked for the same more than once: which question it answers, nobody can tell.
    is_again: bool,
}

impl Answers {
    /// A peer is asked for what follows `from`. Says how long to wait until somebody is asked again: this long,
    /// unless answers took about as long of late; and twice as long whenever nobody is left who was not asked.
    pub(crate) fn ask(&mut self, peer: ReplicaId, from: u64, now_ns: u64, usual_ns: u64) -> u64 {
        let mut asked = self.asked.iter_mut();
        if let Some(asked) = asked.find(|asked| (asked.peer, asked.from) == (peer, from)) {
            asked.is_again = true;
            self.again += 1;
        } else {
            self.lost(peer);
            self.asked.push(Asked {
                peer,
                from,
                since_ns: now_ns,
                is_again: false,
            });
        }
        let wait_ns = usual_ns.max(self.pace.patience_ns());
        let longer_ns = wait_ns.saturating_mul(1 << self.again.min(16));
        longer_ns.min(WAIT_NS_MAX.max(usual_ns))
    }

    /// A peer has told what is in this range, which was of use or was not: if it was asked for that, this is its
    /// answer.
    pub(crate) fn came(
        &mut self,
        peer: ReplicaId,
        told: &Range<u64>,
        now_ns: u64,
        is_useful: bool,
    ) {
        let mut asked = self.asked.iter();
        let place = asked.position(|asked| asked.peer == peer && told.contains(&asked.from));
        let Some(place) = place else {
            return;
        };
        let asked = self.asked.swap_remove(place);
        if !is_useful {
            return;
        }
        if !asked.is_again {
            let took_ns = now_ns.saturating_sub(asked.since_ns);
            self.pace.note(took_ns, ANSWER_NS_MAX);
            self.again = 0;
        }
        self.asked.clear();
    }

    /// The connection to a peer broke: it does not answer any more.
    pub(crate) fn lost(&mut self, peer: ReplicaId) {
        self.asked.retain(|asked| asked.peer != peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::MILLIS;

    const USUAL_NS: u64 = 100 * MILLIS;
    const A: ReplicaId = ReplicaId(1);
    const B: ReplicaId = ReplicaId(2);

    #[test]
    fn an_answer_that_comes_late_lets_the_next_ones_take_as_long() {
        let mut answers = Answers::default();
        assert_eq!(answers.ask(A, 5, 0, USUAL_NS), USUAL_NS);
        assert_eq!(answers.ask(B, 5, USUAL_NS, USUAL_NS), USUAL_NS);
        answers.came(A, &(5..6), 150 * MILLIS, true);
        assert_eq!(answers.ask(B, 9, 150 * MILLIS, USUAL_NS), 300 * MILLIS);
        // What B was asked first tells nothing of the second question.
        answers.came(B, &(5..9), 160 * MILLIS, false);
        answers.came(B, &(8..12), 170 * MILLIS, true);
        assert_eq!(answers.ask(B, 12, 170 * MILLIS, USUAL_NS), 295_312_500);
        for from in 13..300 {
            answers.ask(A, from, 0, USUAL_NS);
            answers.came(A, &(from..from + 1), MILLIS, true);
        }
        assert_eq!(answers.ask(A, 300, 0, USUAL_NS), USUAL_NS);
    }

    #[test]
    fn nobody_is_asked_ever_faster_and_nobody_waits_for_ever() {
        let mut answers = Answers::default();
        let mut now_ns = 0;
        let mut waits = || {
            let wait_ns = answers.ask(A, 5, now_ns, USUAL_NS);
            now_ns += wait_ns;
            wait_ns / MILLIS
        };
        assert_eq!([waits(), waits(), waits()], [100, 200, 400]);
        assert_eq!([waits(), waits(), waits()], [800, 1000, 1000]);
        // Which question this answers, nobody knows: the next one waits as long.
        answers.came(A, &(5..6), now_ns, true);
        assert_eq!(answers.ask(A, 9, now_ns, USUAL_NS), SECONDS);
        answers.came(A, &(9..10), now_ns + MILLIS, true);
        assert_eq!(answers.ask(A, 12, now_ns, USUAL_NS), USUAL_NS);
    }

    #[test]
    fn who_is_gone_and_back_is_asked_as_if_for_the_first_time() {
        let mut answers = Answers::default();
        answers.ask(A, 5, 0, USUAL_NS);
        answers.lost(A);
        assert_eq!(answers.ask(A, 5, MILLIS, USUAL_NS), USUAL_NS);
    }
}
