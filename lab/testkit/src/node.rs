//! One replica: its machine, and what a host keeps for it.

use quorate_core::{Entry, EntryId, Lsn, Out, Outcome, Peers, Plain, RequestId, Slot};
use std::collections::{BTreeMap, VecDeque};

/// One replica of a cluster.
pub struct Node<M: Plain> {
    /// The configuration that the machine was started with last.
    pub config: M::Config,
    /// The machine; `None` while the process is down.
    pub machine: Option<M>,
    /// What the machine wants done and how many records it has persisted in this life.
    pub out: Out<M>,
    /// Records on disk, in the order they were written, each with its number; records of former
    /// lives have the number 0.
    pub disk: Vec<(Lsn, M::Record)>,
    /// The last record of this life that is durable.
    pub flushed: Lsn,
    /// How often records became durable.
    pub flushes: usize,
    /// Whether records become durable only when the test says so.
    pub is_stuck: bool,
    /// Messages that wait until a record is durable, and for whom they are.
    pub gated: VecDeque<(Lsn, Peers, M::Message)>,
    /// Entries whose payloads the machine wants gathered.
    pub gathers: Vec<Entry>,
    /// When each armed timer is due, in ns of [`Cluster::now_ns`](crate::Cluster::now_ns).
    pub timers: BTreeMap<M::Timer, u64>,
    /// The decided log, from slot 0 on; `None` is a no-op.
    pub log: Vec<Option<Entry>>,
    /// How many slots of the decided log are durable.
    pub log_flushed: usize,
    /// The machine's part of the state after the decided log.
    pub base: M::Base,
    /// What the machine answered to requests, in order.
    pub replies: Vec<(RequestId, Outcome)>,
    /// What the synchronised clock shows beside [`Cluster::now_ns`](crate::Cluster::now_ns), in ns.
    pub clock_ns: i64,
    /// How often the machine was started.
    pub starts: u64,
    /// Whether it lost its disk and does not order commands yet.
    pub is_lost: bool,
    /// Whether it lost its disk and has written nothing durable since.
    pub is_blank: bool,
}

impl<M: Plain> Node<M> {
    /// A replica that was never started.
    pub(crate) fn new(config: M::Config) -> Self {
        Node {
            config,
            machine: None,
            out: Out::default(),
            disk: Vec::new(),
            flushed: Lsn(0),
            flushes: 0,
            is_stuck: false,
            gated: VecDeque::new(),
            gathers: Vec::new(),
            timers: BTreeMap::new(),
            log: Vec::new(),
            log_flushed: 0,
            base: M::Base::default(),
            replies: Vec::new(),
            clock_ns: 0,
            starts: 0,
            is_lost: false,
            is_blank: false,
        }
    }

    /// The first slot that is not decided here.
    #[must_use]
    pub fn next(&self) -> Slot {
        Slot(self.log.len() as u64)
    }

    /// Whether the machine runs and orders commands.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.machine.as_ref().is_some_and(M::is_serving)
    }

    /// How many records are on disk and not durable.
    #[must_use]
    pub fn unflushed(&self) -> usize {
        let records = self.disk.iter();
        records.filter(|(lsn, _)| *lsn > self.flushed).count()
    }

    /// The ids of the decided entries; `None` is a no-op.
    #[must_use]
    pub fn names(&self) -> Vec<Option<EntryId>> {
        let log = self.log.iter();
        log.map(|entry| entry.as_ref().map(|entry| entry.id))
            .collect()
    }

    /// The slots in whose entries a request is.
    pub fn slots_of(&self, request: RequestId) -> impl Iterator<Item = Slot> {
        let log = (0..).map(Slot).zip(&self.log);
        let commands = log.flat_map(|(slot, entry)| {
            let commands = entry.iter().flat_map(Entry::commands).flatten();
            commands.map(move |command| (slot, command.id))
        });
        let is_it = move |(slot, id)| (id == request).then_some(slot);
        commands.filter_map(is_it)
    }

    /// The machine's first answer to a request, if there is one.
    #[must_use]
    pub fn outcome(&self, request: RequestId) -> Option<&Outcome> {
        let mut replies = self.replies.iter();
        replies
            .find(|(id, _)| *id == request)
            .map(|(_, outcome)| outcome)
    }

    /// How often a request is in the decided log.
    #[must_use]
    pub fn times(&self, request: RequestId) -> usize {
        self.slots_of(request).count()
    }
}
