//! A replica as the search sees it: the machine as it ships, and what its host keeps for it.

use quorate_core::{Entry, Lsn, Out, Peers, Plain, Record, Slot, Wire};
use std::collections::{BTreeSet, VecDeque};
use std::hash::Hasher;
use xxhash_rust::xxh3::Xxh3;

/// What tells states apart.
pub(crate) type Print = u128;

/// One replica, and everything of the past that the future depends on.
#[derive(Clone)]
pub(crate) struct Node<M: Plain> {
    pub(crate) me: usize,
    /// `None` once it has delivered all slots of the search.
    pub(crate) machine: Option<M>,
    pub(crate) out: Out<M>,
    pub(crate) disk: Disk<M>,
    /// Messages that wait for the disk.
    pub(crate) gated: VecDeque<(Lsn, Peers, M::Message)>,
    /// Entries whose payloads it wants.
    pub(crate) gathers: Vec<Entry>,
    pub(crate) timers: BTreeSet<M::Timer>,
    /// What the host's log says was decided, by slot, as [`crate::interner::Code`]s.
    pub(crate) decided: Vec<u8>,
    /// What was ever decided here: what clients may have seen, though a crash undid it here.
    pub(crate) chosen: Vec<u8>,
    /// Messages that have left, ascending. They may arrive at any time, several times, or never.
    pub(crate) sent: Vec<u32>,
    /// Requests that clients have made here, as a mask.
    pub(crate) submitted: u8,
    /// The first slot that each read under way here need not see.
    pub(crate) reads: Vec<(u64, Slot)>,
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    /// Timers that have fired.
    pub(crate) fired: u8,
}

/// The log of a replica: a prefix of it survives every crash.
#[derive(Clone)]
pub(crate) struct Disk<M: Plain> {
    pub(crate) lines: Vec<Line<M>>,
    /// Lines that are durable.
    pub(crate) durable: usize,
    /// The record up to which everything is durable.
    pub(crate) flushed: Lsn,
    /// Where each write under way ends, and its last record: a flush ends with one of them.
    pub(crate) writes: VecDeque<(usize, Lsn)>,
}

/// One line of the log.
#[derive(Clone)]
pub(crate) enum Line<M: Plain> {
    /// The machine's.
    Record(M::Record),
    /// The host's: the next slot is decided.
    Decided(Option<Entry>),
}

impl<M: Plain> Disk<M> {
    pub(crate) fn new() -> Self {
        Disk {
            lines: Vec::new(),
            durable: 0,
            flushed: Lsn(0),
            writes: VecDeque::new(),
        }
    }

    /// What a restart finds if this many lines survived: the decided log, its base, and the records
    /// that still matter, as the host picks them (`Replay::prune`).
    pub(crate) fn recover(&self, lines: usize) -> (Vec<Option<Entry>>, M::Base, Vec<M::Record>) {
        let mut log = Vec::new();
        let mut base = M::Base::default();
        for line in &self.lines[..lines] {
            if let Line::Decided(entry) = line {
                quorate_core::Base::advance(&mut base, Slot(log.len() as u64), entry.as_ref());
                log.push(entry.clone());
            }
        }
        let next = Slot(log.len() as u64);
        let is_open = |record: &&M::Record| match (record.slot(), record.entry()) {
            (Some(slot), _) => slot >= next,
            (None, Some(entry)) => !quorate_core::Base::contains(&base, entry.id),
            (None, None) => true,
        };
        let records = self.lines[..lines].iter().filter_map(Line::record);
        let mut records = records.filter(is_open).cloned().collect::<Vec<_>>();
        let mut scalars = BTreeSet::new();
        records.reverse();
        records.retain(|record| record.scalar().is_none_or(|number| scalars.insert(number)));
        records.reverse();
        (log, base, records)
    }
}

impl<M: Plain> Line<M> {
    pub(crate) fn record(&self) -> Option<&M::Record> {
        match self {
            Line::Record(record) => Some(record),
            Line::Decided(_) => None,
        }
    }

    fn feed(&self, to: &mut impl Hasher) {
        match self {
            Line::Record(record) => to.write(&record.to_bytes()),
            Line::Decided(entry) => {
                to.write_u8(u8::MAX);
                to.write(&entry.to_bytes());
            }
        }
    }
}

impl<M: Plain> Node<M> {
    /// A replica that has not started.
    pub(crate) fn new(me: usize) -> Self {
        Node {
            me,
            machine: None,
            out: Out::default(),
            disk: Disk::new(),
            gated: VecDeque::new(),
            gathers: Vec::new(),
            timers: BTreeSet::new(),
            decided: Vec::new(),
            chosen: Vec::new(),
            sent: Vec::new(),
            submitted: 0,
            reads: Vec::new(),
            crashes: 0,
            losses: 0,
            fired: 0,
        }
    }

    /// Only what a restart would find, and what was said.
    pub(crate) fn at_rest(mut self) -> Self {
        self.machine = None;
        self.out = Out::default();
        self.disk.durable = self.disk.lines.len();
        self.disk.flushed = Lsn(0);
        self.disk.writes.clear();
        self.gated.clear();
        self.gathers.clear();
        self.timers.clear();
        self.fired = 0;
        self
    }

    /// As if it had not come to decide, nor gone on from there.
    pub(crate) fn undecided(mut self) -> Self {
        let mut lines = self.disk.lines.iter();
        let decided = lines.position(|line| line.record().is_none());
        let end = decided.unwrap_or(self.disk.lines.len());
        self.disk.lines.truncate(end);
        self.decided.clear();
        self.chosen.clear();
        self
    }

    /// Records in its log.
    pub(crate) fn records(&self) -> usize {
        let records = self.disk.lines.iter().filter_map(Line::record);
        records.count()
    }

    /// All that others can see of it, and all that survives a crash.
    pub(crate) fn visible(&self) -> Print {
        let mut to = Xxh3::new();
        to.write_usize(self.disk.durable);
        self.disk.lines.iter().for_each(|line| line.feed(&mut to));
        self.sent.iter().for_each(|mail| to.write_u32(*mail));
        to.write(&self.chosen);
        to.write(&self.decided);
        to.write(&[
            self.submitted,
            self.crashes,
            self.losses,
            u8::from(self.machine.is_none()),
        ]);
        to.digest128()
    }

    /// Everything it can act on, and everything it is judged by.
    pub(crate) fn print(&self) -> Print {
        self.print_by(|machine, to| machine.fingerprint(to))
    }

    /// The same, with what a machine can act on told by `feed`.
    pub(crate) fn print_by(&self, feed: impl Fn(&M, &mut Xxh3)) -> Print {
        let mut to = Xxh3::new();
        match &self.machine {
            Some(machine) => feed(machine, &mut to),
            None => to.write_u8(0),
        }
        self.feed_host(&mut to);
        to.digest128()
    }

    /// The host's part.
    fn feed_host(&self, to: &mut impl Hasher) {
        to.write_usize(self.disk.durable);
        self.disk.lines.iter().for_each(|line| line.feed(to));
        for (end, lsn) in &self.disk.writes {
            to.write_usize(*end);
            to.write_u64(lsn.0 - self.disk.flushed.0);
        }
        for (after, peers, message) in &self.gated {
            to.write_u64(after.0.saturating_sub(self.disk.flushed.0));
            to.write(format!("{peers:?}").as_bytes());
            to.write(&message.to_bytes());
        }
        let waits = format!("{:?}{:?}{:?}", self.timers, self.reads, self.gathers);
        to.write(waits.as_bytes());
        to.write(&self.decided);
        to.write_u8(u8::MAX);
        to.write(&self.chosen);
        to.write_u8(u8::MAX);
        self.sent.iter().for_each(|mail| to.write_u32(*mail));
        to.write(&[
            self.me as u8,
            self.submitted,
            self.crashes,
            self.losses,
            self.fired,
        ]);
    }

    /// Notes that a message has left; says whether it is a new one.
    pub(crate) fn has_sent(&mut self, mail: u32) -> bool {
        match self.sent.binary_search(&mail) {
            Ok(_) => false,
            Err(place) => {
                self.sent.insert(place, mail);
                true
            }
        }
    }
}
