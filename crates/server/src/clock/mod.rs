//! The clocks of a replica (decision 0016): the machine's time, how far it may be off, and the one alarm.

mod alarm;
mod kernel;
mod source;

pub(crate) use alarm::Alarm;
pub use source::ClockSource;

use crate::test_source::TestSource;
use kernel::Discipline;
use quorate_core::{Now, SECONDS};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::cell::Cell;
use std::io;

/// The kernel is asked this seldom, when the time is read: an idle replica asks nothing.
const ASK_EVERY_NS: u64 = SECONDS;
/// How fast a clock may run away between two answers, parts per million: what the kernel itself allows for.
const DRIFT_PPM: u64 = 500;

/// Reads the clocks.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    source: ClockSource,
    test: TestSource,
    ask: fn() -> io::Result<Discipline>,
    /// What the kernel said last, if it said anything, and when.
    said: Cell<Option<(Option<Discipline>, u64)>>,
}

/// What is known of the clock's error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockError {
    /// The source of the bound: `kernel` or `declared`.
    pub source: &'static str,
    /// How far the clock is off at most, ns; `None` if nobody can tell.
    pub bound_ns: Option<u64>,
    /// How far off the kernel thinks it is, ns. That is no bound.
    pub estimated_ns: Option<u64>,
}

impl Clock {
    /// The clocks of the machine, unless a test says otherwise.
    pub(crate) fn new(source: ClockSource, test: TestSource) -> Self {
        Clock {
            source,
            test,
            ask: kernel::ask,
            said: Cell::new(None),
        }
    }

    /// Both clocks, now.
    #[must_use]
    pub(crate) fn now(&self) -> Now {
        let mono_ns = self.mono_ns();
        Now {
            mono_ns,
            clock_ns: self
                .test
                .shift(nanoseconds(clock_gettime(ClockId::Realtime))),
            clock_error_ns: self.error(mono_ns).bound_ns.unwrap_or(u64::MAX),
        }
    }

    /// The monotonic clock that counts suspend.
    #[must_use]
    pub(crate) fn mono_ns(&self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Boottime))
    }

    /// What is known of the error at a time.
    #[must_use]
    pub(crate) fn error(&self, mono_ns: u64) -> ClockError {
        let source = self.source.name();
        if let ClockSource::Declared(error_ns) = self.source {
            return ClockError {
                source,
                bound_ns: Some(error_ns),
                estimated_ns: None,
            };
        }
        let (discipline, at_ns) = self.discipline(mono_ns);
        let discipline = discipline.filter(|discipline| discipline.is_synchronised);
        // Rounded up.
        let drift_ns = (mono_ns.saturating_sub(at_ns) * DRIFT_PPM).div_ceil(1_000_000);
        ClockError {
            source,
            bound_ns: discipline.map(|d| d.max_error_ns.saturating_add(drift_ns)),
            estimated_ns: discipline.map(|d| d.estimated_error_ns),
        }
    }

    /// What the kernel said last, and when: it is asked again when that was long ago.
    fn discipline(&self, mono_ns: u64) -> (Option<Discipline>, u64) {
        let before = self.said.get();
        if let Some((discipline, at_ns)) = before
            && mono_ns.saturating_sub(at_ns) < ASK_EVERY_NS
        {
            return (discipline, at_ns);
        }
        let answer = (self.ask)();
        let is_synchronised = matches!(&answer, Ok(discipline) if discipline.is_synchronised);
        let was_synchronised = before.map(|(d, _)| d.is_some_and(|d| d.is_synchronised));
        if was_synchronised != Some(is_synchronised) {
            match &answer {
                Ok(discipline) if discipline.is_synchronised => tracing::info!(
                    max_error_us = discipline.max_error_ns / 1_000,
                    "the kernel says that a daemon keeps the clock in step"
                ),
                Ok(_) => tracing::info!("the kernel says that no daemon keeps the clock in step"),
                Err(error) => tracing::info!("the kernel does not tell of its clock: {error}"),
            }
        }
        let said = (answer.ok(), mono_ns);
        self.said.set(Some(said));
        said
    }
}

impl ClockSource {
    /// What is known of the error of this machine's clock now.
    #[must_use]
    pub fn error(self) -> ClockError {
        let clock = Clock::new(self, TestSource::default());
        clock.error(clock.mono_ns())
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * SECONDS + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::{MICROS, MILLIS};
    use std::cell::RefCell;

    thread_local! {
        /// What the kernel of a test says next, and how often it was asked.
        static KERNEL: RefCell<(Option<Discipline>, u32)> = const { RefCell::new((None, 0)) };
    }

    fn ask() -> io::Result<Discipline> {
        KERNEL.with_borrow_mut(|(says, asked)| {
            *asked += 1;
            says.ok_or_else(|| io::ErrorKind::PermissionDenied.into())
        })
    }

    fn say(says: Option<Discipline>) {
        KERNEL.with_borrow_mut(|kernel| kernel.0 = says);
    }

    fn clock() -> Clock {
        Clock {
            ask,
            ..Clock::new(ClockSource::Kernel, TestSource::default())
        }
    }

    const GOOD: Discipline = Discipline {
        is_synchronised: true,
        max_error_ns: 3 * MILLIS,
        estimated_error_ns: 40 * MICROS,
    };

    #[test]
    fn the_kernel_is_asked_once_a_second_and_its_bound_grows_meanwhile() {
        say(Some(GOOD));
        let clock = clock();
        let error = clock.error(5 * SECONDS);
        assert_eq!(error.source, "kernel");
        assert_eq!(error.bound_ns, Some(3 * MILLIS));
        assert_eq!(error.estimated_ns, Some(40 * MICROS));
        say(Some(Discipline {
            max_error_ns: MILLIS,
            ..GOOD
        }));
        let later = clock.error(5 * SECONDS + SECONDS / 2);
        assert_eq!(later.bound_ns, Some(3 * MILLIS + 250 * MICROS));
        assert_eq!(KERNEL.with_borrow(|kernel| kernel.1), 1);
        assert_eq!(clock.error(6 * SECONDS).bound_ns, Some(MILLIS));
        assert_eq!(KERNEL.with_borrow(|kernel| kernel.1), 2);
    }

    #[test]
    fn a_clock_that_nobody_keeps_in_step_has_no_bound() {
        let unsynchronised = Discipline {
            is_synchronised: false,
            ..GOOD
        };
        for says in [Some(unsynchronised), None] {
            say(says);
            let error = clock().error(SECONDS);
            assert_eq!((error.bound_ns, error.estimated_ns), (None, None));
            assert_eq!(clock().now().clock_error_ns, u64::MAX);
        }
        // It may be lost, and come back.
        say(Some(GOOD));
        let clock = clock();
        assert!(clock.error(SECONDS).bound_ns.is_some());
        say(None);
        assert_eq!(clock.error(2 * SECONDS).bound_ns, None);
        say(Some(GOOD));
        assert!(clock.error(3 * SECONDS).bound_ns.is_some());
    }

    #[test]
    fn what_is_declared_is_believed_and_nobody_is_asked() {
        let clock = Clock {
            ask,
            ..Clock::new(ClockSource::Declared(MILLIS), TestSource::default())
        };
        assert_eq!(clock.now().clock_error_ns, MILLIS);
        assert_eq!(clock.error(SECONDS).source, "declared");
        assert_eq!(KERNEL.with_borrow(|kernel| kernel.1), 0);
    }
}
