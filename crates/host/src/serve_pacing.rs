//! Decided slots on their way to a peer.
//!
//! A peer that is behind says so with all it says, and asks again and again. What it is given meanwhile may
//! wait long for the link: given again it would wait behind itself, and the link would never be empty.

use quorate_core::pace::{ACK_NS_MAX, Pace, is_long, under_way_ns};
use quorate_core::{MILLIS, Slot};

/// No peer is left alone for longer because something may be on its way to it.
const ALONE_NS_MAX: u64 = 200 * MILLIS;

/// The last answer to a peer.
#[derive(Default, Debug)]
pub(crate) struct ServePacing {
    answer: Option<Answer>,
    /// How far the peer was when it last said that it is behind, and since when.
    stuck: Option<(Slot, u64)>,
    /// How long peers take to apply one.
    pace: Pace,
}

#[derive(Debug)]
struct Answer {
    from: Slot,
    until: Slot,
    /// When it was given first, and when it may be given again, on the own clock.
    since_ns: u64,
    due_ns: u64,
}

impl ServePacing {
    /// Whether slots from here on are in an answer that has not had its time.
    pub(crate) fn covers(&self, from: Slot, now_ns: u64) -> bool {
        let answer = self.answer.as_ref();
        answer.is_some_and(|on| on.from <= from && from < on.until && now_ns < on.due_ns)
    }

    /// A peer that has applied so much says that it is behind. What it lacks may be on its way by other means:
    /// says whether it would have come by now, if it were.
    pub(crate) fn is_stuck(&mut self, applied: Slot, now_ns: u64) -> bool {
        let before = self.stuck.filter(|(at, _)| *at == applied);
        let (_, since_ns) = *self.stuck.insert(before.unwrap_or((applied, now_ns)));
        now_ns >= since_ns + self.pace.patience_ns().min(ALONE_NS_MAX)
    }

    /// Slots in `from..until` are given to the link: so many bytes.
    pub(crate) fn sent(&mut self, (from, until): (Slot, Slot), bytes: usize, now_ns: u64) {
        let former = self.answer.take().filter(|answer| from < answer.until);
        let (since_ns, due_ns) = match former {
            Some(answer) if is_long(bytes) => {
                let again_ns = self.pace.again_ns(answer.since_ns, now_ns);
                (answer.since_ns, again_ns)
            }
            Some(answer) => (answer.since_ns, now_ns),
            None if !is_long(bytes) => (now_ns, now_ns),
            None => {
                let due_ns = now_ns + under_way_ns(bytes as u64) + self.pace.patience_ns();
                (now_ns, due_ns)
            }
        };
        self.answer = Some(Answer {
            from,
            until,
            since_ns,
            due_ns,
        });
    }

    /// The peer has applied every slot before this one.
    pub(crate) fn applied(&mut self, applied: Slot, now_ns: u64) {
        if let Some(answer) = self.answer.take_if(|answer| answer.until <= applied) {
            let took_ns = now_ns.saturating_sub(answer.since_ns);
            self.pace.note(took_ns, ACK_NS_MAX);
        }
    }

    /// The connection broke, with what was on it.
    pub(crate) fn lost(&mut self) {
        self.answer = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 100_000;

    fn slots(from: u64, until: u64) -> (Slot, Slot) {
        (Slot(from), Slot(until))
    }

    #[test]
    fn what_is_on_its_way_is_not_given_again_before_its_time() {
        let mut on = ServePacing::default();
        on.sent(slots(5, 9), LONG, 0);
        assert!(on.covers(Slot(5), 0) && on.covers(Slot(8), 9 * MILLIS));
        assert!(!on.covers(Slot(4), 0) && !on.covers(Slot(9), 0));
        assert!(!on.covers(Slot(5), 10 * MILLIS));
        on.sent(slots(6, 9), LONG, 40 * MILLIS);
        assert!(on.covers(Slot(6), 79 * MILLIS) && !on.covers(Slot(6), 80 * MILLIS));
        on.applied(Slot(8), 50 * MILLIS);
        assert!(on.covers(Slot(8), 50 * MILLIS));
        on.applied(Slot(9), 50 * MILLIS);
        on.sent(slots(9, 12), LONG, 50 * MILLIS);
        // Its own time, and twice what the former one took.
        assert!(on.covers(Slot(9), 159 * MILLIS) && !on.covers(Slot(9), 160 * MILLIS));
        assert!(!on.is_stuck(Slot(9), 60 * MILLIS) && !on.is_stuck(Slot(10), 130 * MILLIS));
        assert!(!on.is_stuck(Slot(10), 229 * MILLIS) && on.is_stuck(Slot(10), 230 * MILLIS));
        on.lost();
        assert!(!on.covers(Slot(9), 51 * MILLIS));
    }

    #[test]
    fn short_answers_are_given_as_often_as_they_are_asked_for() {
        let mut on = ServePacing::default();
        on.sent(slots(5, 9), 1000, 0);
        assert!(!on.covers(Slot(5), 0));
        on.sent(slots(5, 9), 1000, MILLIS);
        assert!(!on.covers(Slot(5), MILLIS) && on.is_stuck(Slot(5), MILLIS));
    }
}
