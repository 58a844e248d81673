//! How long peers take to answer, so that nobody is asked again for what is on its way.
//!
//! An answer may be a megabyte, and the link full: it comes when it comes, and asked of another peer it would come
//! twice, behind itself. A replica that asked so for as long as it was behind would stay behind for good.
//!
//! Who is asked twice and answers once lost a message; who answers twice had not been waited for long enough.

use quorate_core::pace::Pace;
use quorate_core::{MILLIS, ReplicaId, SECONDS, Slot};
use std::ops::Range;

/// An answer that took longer tells of a loss, and not of the pace.
const ANSWER_NS_MAX: u64 = SECONDS / 2;
/// Questions in vain alone let the next one wait for no longer than this.
const WAITED_NS_MAX: u64 = 200 * MILLIS;

/// Questions for decided slots.
#[derive(Debug, Default)]
pub(crate) struct FetchPacing {
    /// Who was asked since an answer brought something, and in vain so far, the first one first.
    asked: Vec<Asked>,
    /// An answer to one of several questions: if another one comes, it was the first one's.
    doubtful: Option<Doubtful>,
    pace: Pace,
}

#[derive(Debug)]
struct Asked {
    peer: ReplicaId,
    from: Slot,
    /// When it was asked for that first, on the own clock.
    since_ns: u64,
    is_again: bool,
}

#[derive(Debug)]
struct Doubtful {
    from: Slot,
    /// How long it took since the first question.
    took_ns: u64,
}

impl FetchPacing {
    /// A peer is asked for the slots from `from` on. Says how long to wait until somebody is asked again: this long, or
    /// twice as long as answers took of late. Whoever is asked when that is over is not waited for so long: the
    /// first one may be gone.
    pub(crate) fn ask(&mut self, peer: ReplicaId, from: Slot, now_ns: u64, usual_ns: u64) -> u64 {
        let mut asked = self.asked.iter_mut();
        match asked.find(|asked| (asked.peer, asked.from) == (peer, from)) {
            Some(asked) => asked.is_again = true,
            None => {
                self.lost(peer);
                self.asked.push(Asked {
                    peer,
                    from,
                    since_ns: now_ns,
                    is_again: false,
                });
            }
        }
        let since_ns = self.asked.first().map_or(now_ns, |asked| asked.since_ns);
        let longer_ns = match now_ns.saturating_sub(since_ns) {
            0 => self.pace.patience_ns(),
            waited_ns => waited_ns.min(WAITED_NS_MAX),
        };
        usual_ns.max(longer_ns)
    }

    /// A peer has told what is decided in these slots, which was of use or was not: if it was asked for that, this is its
    /// answer.
    pub(crate) fn came(
        &mut self,
        peer: ReplicaId,
        told: &Range<Slot>,
        now_ns: u64,
        is_useful: bool,
    ) {
        let is_late = |doubtful: &mut Doubtful| !is_useful && told.contains(&doubtful.from);
        if let Some(doubtful) = self.doubtful.take_if(is_late) {
            self.pace.note(doubtful.took_ns, ANSWER_NS_MAX);
        }
        let mut asked = self.asked.iter();
        let place = asked.position(|asked| asked.peer == peer && told.contains(&asked.from));
        let Some(place) = place else {
            return;
        };
        let asked = self.asked.remove(place);
        if !is_useful {
            return;
        }
        let (from, took_ns) = (asked.from, now_ns.saturating_sub(asked.since_ns));
        if asked.is_again {
            self.doubtful = Some(Doubtful { from, took_ns });
        } else {
            self.pace.note(took_ns, ANSWER_NS_MAX);
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

    const USUAL_NS: u64 = 100 * MILLIS;
    const A: ReplicaId = ReplicaId(1);
    const B: ReplicaId = ReplicaId(2);

    #[test]
    fn an_answer_that_comes_late_lets_the_next_ones_take_as_long() {
        let mut answers = FetchPacing::default();
        assert_eq!(answers.ask(A, Slot(5), 0, USUAL_NS), USUAL_NS);
        assert_eq!(answers.ask(B, Slot(5), USUAL_NS, USUAL_NS), USUAL_NS);
        answers.came(A, &(Slot(5)..Slot(9)), 150 * MILLIS, true);
        assert_eq!(
            answers.ask(B, Slot(9), 150 * MILLIS, USUAL_NS),
            300 * MILLIS
        );
        // What B was asked first tells nothing of the second question.
        answers.came(B, &(Slot(5)..Slot(9)), 160 * MILLIS, false);
        answers.came(B, &(Slot(8)..Slot(12)), 170 * MILLIS, true);
        assert_eq!(
            answers.ask(B, Slot(12), 170 * MILLIS, USUAL_NS),
            295_312_500
        );
        for from in 13..300 {
            answers.ask(A, Slot(from), 0, USUAL_NS);
            answers.came(A, &(Slot(from)..Slot(from + 1)), MILLIS, true);
        }
        assert_eq!(answers.ask(A, Slot(300), 0, USUAL_NS), USUAL_NS);
    }

    #[test]
    fn who_answers_twice_is_given_more_time_and_who_answers_once_is_not() {
        let mut answers = FetchPacing::default();
        let asks =
            [0, 100, 200, 400].map(|ms| answers.ask(A, Slot(5), ms * MILLIS, USUAL_NS) / MILLIS);
        assert_eq!(asks, [100, 100, 200, 200]);
        answers.came(A, &(Slot(5)..Slot(6)), 450 * MILLIS, true);
        assert_eq!(answers.ask(A, Slot(6), 450 * MILLIS, USUAL_NS), USUAL_NS);
        answers.came(A, &(Slot(5)..Slot(6)), 500 * MILLIS, false);
        answers.came(A, &(Slot(5)..Slot(6)), 510 * MILLIS, false);
        answers.came(A, &(Slot(6)..Slot(7)), 520 * MILLIS, true);
        let wait_ns = answers.ask(A, Slot(7), 520 * MILLIS, USUAL_NS);
        assert_eq!(wait_ns / MILLIS, 885);
    }

    #[test]
    fn who_is_gone_and_back_is_asked_as_if_for_the_first_time() {
        let mut answers = FetchPacing::default();
        answers.ask(A, Slot(5), 0, USUAL_NS);
        answers.lost(A);
        assert_eq!(answers.ask(A, Slot(5), SECONDS, USUAL_NS), USUAL_NS);
        answers.came(A, &(Slot(5)..Slot(6)), SECONDS + 300 * MILLIS, true);
        assert_eq!(answers.ask(A, Slot(6), 2 * SECONDS, USUAL_NS), 600 * MILLIS);
    }
}
