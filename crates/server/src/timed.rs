//! An application that tells how long it takes: the host reads no clock, so the outer ring does.

use bytes::Bytes;
use quorate_core::{Application, At, Countdown};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Adds up the time spent applying commands.
#[derive(Debug)]
pub(crate) struct Timed<A> {
    inner: A,
    spent: Cell<Duration>,
    commands: Cell<u32>,
}

impl<A> Timed<A> {
    pub(crate) fn new(inner: A) -> Self {
        Timed {
            inner,
            spent: Cell::default(),
            commands: Cell::default(),
        }
    }

    /// Mean time per command since the last call; `None` if there was no command.
    pub(crate) fn take_mean(&self) -> Option<Duration> {
        let commands = self.commands.take();
        let spent = self.spent.take();
        (commands > 0).then(|| spent / commands)
    }
}

impl<A: Application> Application for Timed<A> {
    type Query = A::Query;
    type Answer = A::Answer;
    type Cut = A::Cut;

    fn apply(&mut self, at: At, body: &Bytes) -> Bytes {
        let began = Instant::now();
        let result = self.inner.apply(at, body);
        self.spent.set(self.spent.get() + began.elapsed());
        self.commands.set(self.commands.get() + 1);
        result
    }

    fn take_countdowns(&mut self) -> Vec<Countdown> {
        self.inner.take_countdowns()
    }

    fn tidy(&mut self) -> bool {
        self.inner.tidy()
    }

    fn query(&self, query: &A::Query) -> A::Answer {
        self.inner.query(query)
    }

    fn cut(&mut self) -> A::Cut {
        self.inner.cut()
    }

    fn piece(&mut self, cut: &mut A::Cut, bytes: usize) -> Option<Bytes> {
        self.inner.piece(cut, bytes)
    }

    fn release(&mut self, cut: A::Cut) {
        self.inner.release(cut);
    }

    fn empty(&self) -> Self {
        Timed::new(self.inner.empty())
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        self.inner.load(piece)
    }

    fn loaded(&mut self) -> Result<(), String> {
        self.inner.loaded()
    }
}
