//! What of a run can be drawn: who was up, what was on its way, what was decided.

use crate::leases::Leases;
use crate::servers::Servers;
use crate::subject::Subject;
use crate::world::World;
use bytes::Bytes;
use quorate_core::{Decoder, Machine, Slot};
use quorate_host::{Token, describe_frame};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// A recording, shared by the run and whoever draws it afterwards.
pub(crate) type SharedRecording = Rc<RefCell<Recording>>;

/// What happened in a part of a run, and what the state of links and replicas follows from.
pub(crate) struct Recording {
    /// The part: virtual time, ns.
    pub(crate) window_ns: Range<u64>,
    /// In the order they were sent.
    pub(crate) arrows: Vec<Arrow>,
    /// In the order they happened, from the run's beginning on.
    pub(crate) marks: Vec<Mark>,
}

/// The line of a picture: 0 is that of all clients, then come the replicas.
pub(crate) type Lane = usize;

/// The lane of all clients.
pub(crate) const CLIENTS: Lane = 0;

/// Something on its way.
pub(crate) struct Arrow {
    pub(crate) from: Lane,
    pub(crate) to: Lane,
    pub(crate) sent_ns: u64,
    /// When it arrives, or would have; `None`: it was lost at once.
    pub(crate) arrives_ns: Option<u64>,
    /// It does not arrive.
    pub(crate) is_lost: bool,
    /// What it says, a line each.
    pub(crate) words: Vec<String>,
}

/// Something that happens at a time.
pub(crate) struct Mark {
    pub(crate) at_ns: u64,
    pub(crate) what: What,
}

/// What happens.
pub(crate) enum What {
    Up(Lane),
    Down(Lane),
    /// It does nothing until then.
    Paused(Lane, u64),
    Cut(Vec<(usize, usize)>),
    Mended(Vec<(usize, usize)>),
    /// All links are whole, and all replicas run.
    Healed,
    /// A replica decided a slot by its own count.
    Decided {
        lane: Lane,
        slot: Slot,
        noop: bool,
    },
    /// Something else, in words.
    Note(String),
}

impl Recording {
    /// An empty recording of a part of a run.
    pub(crate) fn shared(window_ns: Range<u64>) -> SharedRecording {
        Rc::new(RefCell::new(Recording {
            window_ns,
            arrows: Vec::new(),
            marks: Vec::new(),
        }))
    }

    fn mark(&mut self, at_ns: u64, what: What) {
        if at_ns < self.window_ns.end {
            self.marks.push(Mark { at_ns, what });
        }
    }

    /// Whether something on its way from one time to another is in the picture.
    fn shows(&self, sent_ns: u64, arrives_ns: Option<u64>) -> bool {
        sent_ns < self.window_ns.end && arrives_ns.unwrap_or(sent_ns) >= self.window_ns.start
    }

    /// What was to arrive at this time was lost with its connection.
    fn lose(&mut self, from: Lane, to: Lane, arrives_ns: u64) {
        let key = (from, to, Some(arrives_ns));
        let is_it = |arrow: &&mut Arrow| (arrow.from, arrow.to, arrow.arrives_ns) == key;
        if let Some(arrow) = self.arrows.iter_mut().find(is_it) {
            arrow.is_lost = true;
        }
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Something happened that is drawn, if anything is.
    pub(crate) fn record(&self, what: impl FnOnce() -> What) {
        if let Some(recording) = &self.setup.watch.recording {
            recording.borrow_mut().mark(self.queue.now_ns(), what());
        }
    }

    /// A frame is sent; `copies` are the delays of those that will arrive.
    pub(crate) fn record_frame(
        &self,
        (from, to): (usize, usize),
        frame: &Bytes,
        copies: &[Option<u64>],
    ) {
        let arriving = copies.iter().flatten();
        let mut delays: Vec<Option<u64>> = arriving.map(|delay| Some(*delay)).collect();
        if delays.is_empty() {
            delays.push(None);
        }
        for delay in delays {
            let words = || self.describe_frame(from, frame);
            self.record_arrow((from + 1, to + 1), delay, words);
        }
    }

    /// What a replica says in a frame, a line each.
    pub(crate) fn describe_frame(&self, from: usize, frame: &Bytes) -> Vec<String> {
        let host = self.nodes[from].host.as_ref();
        let protocol = host.map_or("", |host| &host.look().epoch().protocol);
        let one = |input: &mut Decoder| M::message(protocol, input).map(|m| (self.setup.words)(&m));
        describe_frame(frame, one)
    }

    /// A frame is lost with its connection when it should arrive.
    pub(crate) fn record_reset(&self, from: usize, to: usize) {
        if let Some(recording) = &self.setup.watch.recording {
            let now_ns = self.queue.now_ns();
            recording.borrow_mut().lose(from + 1, to + 1, now_ns);
        }
    }

    /// A request is on its way.
    pub(crate) fn record_request(&self, node: usize, token: Token, delay: u64) {
        let words = || match Leases::owns(token) || Servers::owns(token) {
            true => vec!["lease or compaction".into()],
            false => self.clients.in_words(token),
        };
        self.record_arrow((CLIENTS, node + 1), Some(delay), words);
    }

    /// An answer is on its way, or was lost.
    pub(crate) fn record_answer(&self, node: usize, token: Token, delay: Option<u64>) {
        let words = || {
            let mut words = self.clients.in_words(token);
            words[0].insert_str(0, "answer to ");
            words
        };
        self.record_arrow((node + 1, CLIENTS), delay, words);
    }

    fn record_arrow(
        &self,
        (from, to): (Lane, Lane),
        delay: Option<u64>,
        words: impl FnOnce() -> Vec<String>,
    ) {
        let Some(recording) = &self.setup.watch.recording else {
            return;
        };
        let sent_ns = self.queue.now_ns();
        let arrives_ns = delay.map(|delay| sent_ns + delay);
        let mut recording = recording.borrow_mut();
        if recording.shows(sent_ns, arrives_ns) {
            recording.arrows.push(Arrow {
                from,
                to,
                sent_ns,
                arrives_ns,
                is_lost: arrives_ns.is_none(),
                words: words(),
            });
        }
    }
}
