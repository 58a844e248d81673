//! What parts of a host want done by whoever drives it, until the driver takes it.

use crate::api::{Answer, Counters, Frame, HostEvent, LogRead, Place, Token};
use crate::requests::Waiting;
use quorate_core::{Now, Refusal};

/// Frames, answers, reads and events that wait for the driver to take them, and totals of what was done.
#[derive(Debug)]
pub(crate) struct Pending<A> {
    pub(crate) frames: Vec<Frame>,
    pub(crate) answers: Vec<(Token, Answer<A>)>,
    pub(crate) reads: Vec<LogRead>,
    pub(crate) events: Vec<HostEvent>,
    /// Totals that no part of the host counts itself.
    pub(crate) counters: Counters,
}

impl<A> Pending<A> {
    pub(crate) fn new() -> Self {
        Pending {
            frames: Vec::new(),
            answers: Vec::new(),
            reads: Vec::new(),
            events: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Has the driver read a part of the log or of the fragments.
    pub(crate) fn read(&mut self, read: LogRead) {
        self.reads.push(read);
    }

    /// Answers requests that are not executed.
    pub(crate) fn refuse(&mut self, requests: impl IntoIterator<Item = (Token, Refusal)>) {
        let requests = requests.into_iter();
        let answers = requests.map(|(token, refusal)| (token, Answer::Refused(refusal)));
        self.answers.extend(answers);
    }

    /// Reports how long a request that is answered now spent at each place.
    pub(crate) fn spent(&mut self, now: Now, waiting: Waiting) {
        let ordered_ns = waiting.ordered_ns.max(waiting.submitted_ns);
        let now_ns = now.mono_ns.max(ordered_ns);
        let spent = |place, ns| HostEvent::Spent(place, ns);
        self.events.extend([
            spent(Place::Ring, ordered_ns - waiting.submitted_ns),
            spent(Place::Order, now_ns - ordered_ns),
            spent(Place::Total, now_ns - waiting.submitted_ns),
        ]);
    }
}
