//! Time as a value. Nothing in the inner rings reads a clock.

use std::ops::RangeInclusive;

/// Nanoseconds in a microsecond.
pub const MICROS: u64 = 1_000;
/// Nanoseconds in a millisecond.
pub const MILLIS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const SECONDS: u64 = 1_000_000_000;

/// The readings of both clocks that accompany a step. One reading serves all inputs of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Monotonic clock that counts suspend, ns since an arbitrary start. Timers use this one.
    pub mono_ns: u64,
    /// Synchronised clock, ns since the Unix epoch. May jump; affects speed, never safety.
    pub clock_ns: u64,
    /// Bound on the error of `clock_ns`, in ns; `u64::MAX` when the clock knows of none.
    pub clock_error_ns: u64,
}

/// When a timer is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Due {
    /// After this many ns on the monotonic clock.
    After(u64),
    /// After some number of ns in the range; the driver draws it (machines have no dice).
    Within(RangeInclusive<u64>),
}
