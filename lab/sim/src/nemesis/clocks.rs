//! Synchronised clocks that are not.

use super::Sequel;
use crate::subject::Subject;
use crate::world::{Event, World};
use quorate_core::{MILLIS, Machine, SECONDS};

/// How far a clock leaps at most.
const LEAP_MAX_NS: i64 = 3_600 * SECONDS as i64;

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// As far as the plan's clocks are apart.
    pub(super) fn jump_clock(&mut self) {
        let index = self.rng.usize(..self.nodes.len());
        let most = self.plan.clocks.offset_max_ns as i64;
        self.nodes[index].clock.offset_ns = self.rng.i64(-most..=most);
        self.totals.hit("clock jump");
    }

    /// Up to an hour, as a wrong time zone takes it.
    pub(super) fn leap_clock(&mut self) {
        let index = self.some_node();
        self.nodes[index].clock.offset_ns = self.nemesis.rng.i64(-LEAP_MAX_NS..=LEAP_MAX_NS);
        self.totals.hit("clock leap");
    }

    pub(super) fn set_clock_back(&mut self) {
        let index = self.some_node();
        let by_ns = self.nemesis.rng.u64(1..2 * SECONDS) as i64;
        self.nodes[index].clock.offset_ns -= by_ns;
        self.totals.hit("clock set back");
    }

    /// A clock stands still, and goes on from there.
    pub(super) fn stop_clock(&mut self) {
        let node = self.some_node();
        self.nodes[node].clock.stop(self.queue.now_ns());
        let delay = self.nemesis.rng.u64(MILLIS..3 * SECONDS);
        self.queue
            .after(delay, Event::Sequel(Sequel::ClockGoes { node }));
        self.totals.hit("clock stopped");
    }

    fn some_node(&mut self) -> usize {
        self.nemesis.rng.usize(..self.nodes.len())
    }
}
