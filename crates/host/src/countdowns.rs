//! What the application wants to happen after a time.

use bytes::Bytes;
use quorate_core::Countdown;
use std::collections::{BTreeMap, BTreeSet};

/// How long to wait before a command that had no effect is ordered again. A replica that cannot
/// reach a quorum keeps trying, and so does one whose log is full.
const RETRY_NS: u64 = 1_000_000_000;

/// Countdowns under way, on the monotonic clock. The driver of a host keeps them: it starts and
/// stops what [`crate::Effects::countdowns`] says, and orders the commands that are due.
#[derive(Debug, Default)]
pub struct Countdowns {
    running: BTreeMap<u64, Running>,
    /// When to order something next, and for which countdown.
    due: BTreeSet<(u64, u64)>,
}

#[derive(Debug)]
struct Running {
    ends_ns: u64,
    due_ns: u64,
    command: Bytes,
}

impl Countdowns {
    /// Starts or stops a countdown.
    pub fn set(&mut self, now_ns: u64, countdown: Countdown) {
        let (Countdown::Start { id, .. } | Countdown::Stop { id }) = &countdown;
        if let Some(old) = self.running.remove(id) {
            self.due.remove(&(old.due_ns, *id));
        }
        if let Countdown::Start {
            id,
            after_ns,
            command,
        } = countdown
        {
            let ends_ns = now_ns.saturating_add(after_ns);
            self.due.insert((ends_ns, id));
            let running = Running {
                ends_ns,
                due_ns: ends_ns,
                command,
            };
            self.running.insert(id, running);
        }
    }

    /// When to look again.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.due.first().map(|(due_ns, _)| *due_ns)
    }

    /// A command to order now. Its countdown goes on until the application stops it.
    pub fn take_due(&mut self, now_ns: u64) -> Option<Bytes> {
        let (due_ns, id) = *self.due.first().filter(|(due_ns, _)| *due_ns <= now_ns)?;
        self.due.remove(&(due_ns, id));
        let running = self.running.get_mut(&id)?;
        running.due_ns = now_ns.saturating_add(RETRY_NS);
        self.due.insert((running.due_ns, id));
        Some(running.command.clone())
    }

    /// How much time is left, in ns; `None` if there is no such countdown.
    #[must_use]
    pub fn remaining_ns(&self, now_ns: u64, id: u64) -> Option<u64> {
        let running = self.running.get(&id)?;
        Some(running.ends_ns.saturating_sub(now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(id: u64, after_ns: u64, command: &'static [u8]) -> Countdown {
        Countdown::Start {
            id,
            after_ns,
            command: Bytes::from_static(command),
        }
    }

    #[test]
    fn each_ends_once_then_again_and_again_until_it_is_stopped_or_started_anew() {
        let mut countdowns = Countdowns::default();
        countdowns.set(10, start(1, 5, b"one"));
        countdowns.set(10, start(2, 20, b"two"));
        assert_eq!(
            (countdowns.next(), countdowns.take_due(14)),
            (Some(15), None)
        );
        assert_eq!(countdowns.remaining_ns(12, 1), Some(3));
        assert_eq!(countdowns.take_due(16), Some(Bytes::from_static(b"one")));
        assert_eq!(countdowns.take_due(16), None);
        assert_eq!(countdowns.remaining_ns(16, 1), Some(0));
        countdowns.set(17, start(2, 90, b"later"));
        assert_eq!(
            countdowns.next(),
            Some(107),
            "the earlier one counts no more"
        );
        assert_eq!(countdowns.take_due(107), Some(Bytes::from_static(b"later")));
        let again = 16 + RETRY_NS;
        assert_eq!(countdowns.take_due(again), Some(Bytes::from_static(b"one")));
        for id in [1, 2, 3] {
            countdowns.set(again, Countdown::Stop { id });
        }
        assert_eq!(
            (countdowns.next(), countdowns.remaining_ns(0, 1)),
            (None, None)
        );
    }

    #[test]
    fn a_time_beyond_the_clock_never_comes() {
        let mut countdowns = Countdowns::default();
        countdowns.set(10, start(1, u64::MAX, b"never"));
        assert_eq!(countdowns.take_due(u64::MAX - 1), None);
    }
}
