//! An application that tells how long it takes: the host reads no clock, so the outer ring does.

use crate::any_application::{AnyApplication, AnyValue, Embeddable, boxed};
use bytes::Bytes;
use quorate_core::{Application, At, CommandProperties, Countdown, Payload, PayloadId};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Adds up the time spent applying some of the commands.
pub(crate) struct TimedApp {
    inner: Box<dyn AnyApplication>,
    spent: Cell<Duration>,
    timed: Cell<u32>,
    commands: u32,
}

/// One command in so many is timed: reading the clock takes a good part of the time of a small one.
const TIMED_EVERY: u32 = 16;

impl TimedApp {
    pub(crate) fn new(app: impl Embeddable) -> Self {
        TimedApp::of(boxed(app))
    }

    fn of(inner: Box<dyn AnyApplication>) -> Self {
        TimedApp {
            inner,
            spent: Cell::default(),
            timed: Cell::default(),
            commands: 0,
        }
    }

    /// Mean time of the commands timed since the last call; `None` if there were none.
    pub(crate) fn take_mean(&self) -> Option<Duration> {
        let timed = self.timed.take();
        (timed > 0).then(|| self.spent.take() / timed)
    }
}

impl Application for TimedApp {
    type Query = AnyValue;
    type Answer = AnyValue;
    type Cut = AnyValue;

    fn apply(&mut self, at: At, body: &Bytes, payloads: &[Payload]) -> Bytes {
        self.commands = self.commands.wrapping_add(1);
        if !self.commands.is_multiple_of(TIMED_EVERY) {
            return self.inner.apply(at, body, payloads);
        }
        let began = Instant::now();
        let result = self.inner.apply(at, body, payloads);
        self.spent.set(self.spent.get() + began.elapsed());
        self.timed.set(self.timed.get() + 1);
        result
    }

    fn command_properties(&self) -> CommandProperties {
        self.inner.command_properties()
    }

    fn is_retractable(&self, body: &Bytes) -> bool {
        self.inner.is_retractable(body)
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        self.inner.attempt(at, body)
    }

    fn keep(&mut self) {
        self.inner.keep();
    }

    fn retract(&mut self) {
        self.inner.retract();
    }

    fn is_live(&self, payload: PayloadId) -> bool {
        self.inner.is_live(payload)
    }

    fn take_dead(&mut self) -> Vec<PayloadId> {
        self.inner.take_dead()
    }

    fn live(&self, after: Option<PayloadId>, most: usize) -> Vec<(PayloadId, Payload)> {
        self.inner.live(after, most)
    }

    fn take_countdowns(&mut self) -> Vec<Countdown> {
        self.inner.take_countdowns()
    }

    fn tidy(&mut self) -> bool {
        self.inner.tidy()
    }

    fn query(&self, query: &AnyValue) -> AnyValue {
        self.inner.query(query)
    }

    fn cut(&mut self) -> AnyValue {
        self.inner.cut()
    }

    fn cut_digest(&self, cut: &AnyValue) -> Option<u64> {
        self.inner.cut_digest(cut)
    }

    fn has_cut_digests(&self) -> bool {
        self.inner.has_cut_digests()
    }

    fn piece(&mut self, cut: &mut AnyValue, bytes: usize) -> Option<Bytes> {
        self.inner.piece(cut, bytes)
    }

    fn release(&mut self, cut: AnyValue) {
        self.inner.release(cut);
    }

    fn empty(&self) -> Self {
        TimedApp::of(self.inner.empty_box())
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        self.inner.load(piece)
    }

    fn loaded(&mut self) -> Result<(), String> {
        self.inner.loaded()
    }

    fn installed(&mut self) {
        self.inner.installed();
    }
}
