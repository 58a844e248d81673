//! A cluster whose messages and disks move only as told, and the application it runs. It watches what replicas
//! deliver and answer, and fails on the first thing that contradicts what came before.

use crate::nopaxos::{Config, Message, NoPaxos, Record, Replica, Timer};
use crate::registry::Protocol;
use bytes::Bytes;
use quorate_core::{Entry, EntryId, Input, Outcome, RequestId, Seat, Slot};
use quorate_testkit::{Cluster, Disagreement, Packet, Watch};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// What is watched, and what is broken.
#[derive(Default)]
pub(super) struct Watched {
    /// Records that are not written.
    pub(super) forget: Option<fn(&Record) -> bool>,
    /// How many messages of each kind were sent.
    pub(super) sent: BTreeMap<&'static str, usize>,
    /// By replica: what the application came to after each slot, with those executed ahead.
    states: Vec<Vec<u64>>,
    /// By replica: entries to be executed ahead, when their turn comes.
    ahead: Vec<BTreeMap<Slot, Entry>>,
    /// By slot: requests that were answered before delivery, and their results.
    answers: BTreeMap<Slot, Vec<(RequestId, Bytes)>>,
    /// By read: all slots before this one may have been answered before the read came.
    floors: BTreeMap<RequestId, Slot>,
}

type Inner = Cluster<Replica, Watched>;

/// What the application comes to by an entry.
fn after(state: u64, entry: Option<&Entry>) -> u64 {
    let id: Option<EntryId> = entry.map(|entry| entry.id);
    let mut hasher = DefaultHasher::new();
    (state, id).hash(&mut hasher);
    if id.is_some() { hasher.finish() } else { state }
}

fn result(state: u64) -> Bytes {
    Bytes::from(state.to_be_bytes().to_vec())
}

impl Watched {
    fn state_before(&self, me: usize, at: usize) -> u64 {
        at.checked_sub(1)
            .map_or(0, |before| self.states[me][before])
    }

    /// The longest log that is known to be there for whoever asks from now on.
    fn floor(&self) -> Slot {
        self.answers
            .keys()
            .next_back()
            .map_or(Slot(0), |last| last.next())
    }
}

impl Watch<Replica> for Watched {
    const LOGS_TEAR: bool = true;

    fn on_packet(cluster: &mut Inner, packet: Packet<Replica>) {
        if let Some(message) = packet.message() {
            *cluster.watch.sent.entry(kind_of(message)).or_default() += 1;
        }
        cluster.wire.push_back(packet);
    }

    fn on_record(cluster: &mut Inner, _: usize, record: &Record) -> bool {
        !cluster.watch.forget.is_some_and(|forget| forget(record))
    }

    fn on_deliver(cluster: &mut Inner, me: usize, slot: Slot) {
        let at = slot.0 as usize;
        let entry = cluster.nodes[me].log[at].clone();
        let watched = &mut cluster.watch;
        let state = after(watched.state_before(me, at), entry.as_ref());
        let states = &mut watched.states[me];
        if states.get(at) != Some(&state) {
            states.truncate(at);
            states.push(state);
        }
        for (request, answer) in watched.answers.get(&slot).into_iter().flatten() {
            let ids = entry.iter().flat_map(Entry::commands).flatten();
            let is_there = ids.map(|command| command.id).any(|id| id == *request);
            assert!(
                is_there && *answer == result(state),
                "what was committed in {slot:?} is decided there, behind the same (N1): {me} delivers {entry:?}"
            );
        }
    }

    fn on_disagreement(_: &mut Inner, me: usize, what: Disagreement) {
        match what {
            Disagreement::Slot { .. } => panic!("a slot has one value (N1), {me}: {what:?}"),
            Disagreement::Twice(..) => panic!("an entry takes effect once, {me}: {what:?}"),
        }
    }

    fn on_execute(cluster: &mut Inner, me: usize, slot: Slot, entry: Entry) {
        cluster.watch.ahead[me].insert(slot, entry);
    }

    fn on_retract(cluster: &mut Inner, me: usize, from: Slot) {
        let decided = cluster.nodes[me].log.len();
        cluster.watch.ahead[me].split_off(&from);
        cluster.watch.states[me].truncate(decided);
    }

    /// Executes ahead what is next, as hosts do.
    fn on_performed(cluster: &mut Inner, me: usize) {
        if cluster.nodes[me].machine.is_none() {
            return;
        }
        let watched = &mut cluster.watch;
        let slot = Slot(watched.states[me].len() as u64);
        watched.ahead[me] = watched.ahead[me].split_off(&slot);
        let Some(entry) = watched.ahead[me].remove(&slot) else {
            return;
        };
        let state = after(watched.state_before(me, slot.0 as usize), Some(&entry));
        watched.states[me].push(state);
        let results = vec![result(state); entry.count()];
        let entry = entry.id;
        cluster.step(
            me,
            Input::Applied {
                slot,
                entry,
                results,
            },
        );
    }

    fn on_reply(cluster: &mut Inner, me: usize, id: RequestId, outcome: Outcome) {
        cluster.nodes[me].replies.push((id, outcome.clone()));
        match outcome {
            Outcome::Applied(slot, answer) => {
                if let Some(chosen) = cluster.chosen.get(&slot) {
                    let ids = chosen.iter().flat_map(Entry::commands).flatten();
                    let mut ids = ids.map(|command| command.id);
                    assert!(
                        ids.any(|one| one == id),
                        "{slot:?} was decided otherwise (N1)"
                    );
                }
                cluster
                    .watch
                    .answers
                    .entry(slot)
                    .or_default()
                    .push((id, answer));
            }
            Outcome::ReadAt(slot) => {
                let floor = cluster.watch.floors[&id];
                assert!(
                    floor <= slot,
                    "a read sees what completed before it came: {floor:?}, {slot:?}"
                );
            }
            Outcome::Refused(_) | Outcome::Decided => {}
        }
    }
}

pub(super) fn kind_of(message: &Message) -> &'static str {
    match message {
        Message::Stamp { .. } => "stamp",
        Message::Marked { .. } => "marked",
        Message::Reply(_) => "reply",
        Message::Lookup { .. } => "lookup",
        Message::Gap { .. } => "gap",
        Message::GapA { .. } => "gap reply",
        Message::ViewChangeReq(_) => "view change request",
        Message::ViewChange(_) => "view change",
        Message::StartView(_) => "start view",
        Message::Sync(_) => "sync",
        Message::SyncA { .. } => "sync reply",
        Message::Synced { .. } => "sync commit",
        Message::Ask(_) => "ask",
        Message::ReadQ(_) | Message::ReadA { .. } => "read",
    }
}

/// A cluster of replicas of NOPaxos.
pub(super) struct Net(Inner);

impl Deref for Net {
    type Target = Inner;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

pub(super) fn seat(n: usize, me: usize, params: &[(&str, &str)]) -> Seat {
    quorate_testkit::seat(NoPaxos::NAME, n, me, me as u64 + 1, params)
}

impl Net {
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Net {
        Net::edited(n, params, |_| {})
    }

    /// A cluster whose configurations are changed by a mutant.
    pub(super) fn edited(n: usize, params: &[(&str, &str)], edit: impl Fn(&mut Config)) -> Net {
        let config = |me| {
            let mut config = NoPaxos::config(&seat(n, me, params)).expect("right");
            edit(&mut config);
            config
        };
        let configs: Vec<Config> = (0..n).map(config).collect();
        let watched = Watched {
            states: vec![Vec::new(); n],
            ahead: vec![BTreeMap::new(); n],
            ..Watched::default()
        };
        Net(Cluster::new(n, watched, move |me, boot| {
            let mut config = configs[me].clone();
            config.seating.boot = boot;
            config
        }))
    }

    /// This cluster once every member has written something, and all know that it is decided.
    pub(super) fn begun(mut self) -> Net {
        for me in 0..self.nodes.len() {
            let request = self.write(me);
            self.settle(&[request]);
        }
        self.watch.sent.clear();
        self
    }

    /// Lets a timer fire that must be armed.
    pub(super) fn fire(&mut self, me: usize, timer: Timer) {
        assert!(self.0.fire(me, timer), "{timer:?} is armed at {me}");
    }

    /// A replica gives up whoever leads, or is to lead: what it heard of it lately counts once more.
    pub(super) fn suspect(&mut self, me: usize) {
        let lead = self.machine(me).view.lead;
        while self.machine(me).view.lead == lead {
            self.fire(me, Timer::Leader);
        }
    }

    /// Lets a timer fire if it is armed.
    pub(super) fn may_fire(&mut self, me: usize, timer: Timer) {
        self.0.fire(me, timer);
    }

    pub(super) fn read(&mut self, me: usize) -> RequestId {
        let id = self.next_request();
        let logs = self.nodes.iter().map(|node| node.log.len() as u64).max();
        let floor = self.watch.floor().max(Slot(logs.unwrap_or(0)));
        self.watch.floors.insert(id, floor);
        self.0.read(me)
    }

    /// Loses what is on its way and meets a condition, by sender and receiver.
    pub(super) fn lose(&mut self, is_lost: impl Fn(usize, usize, &Message) -> bool) {
        self.wire.retain(|packet| {
            let message = packet.message();
            !message.is_some_and(|message| is_lost(packet.from, packet.to, message))
        });
    }

    /// Takes messages of a kind for a replica off the wire, to be delivered later.
    pub(super) fn hold(&mut self, kind: &str, to: usize) -> Vec<Packet<Replica>> {
        self.take_packets(|packet| {
            let is_kind = packet
                .message()
                .is_some_and(|message| kind_of(message) == kind);
            is_kind && packet.to == to
        })
    }

    /// Delivers what was held.
    pub(super) fn release(&mut self, held: Vec<Packet<Replica>>) {
        held.into_iter().for_each(|packet| self.receive(packet));
    }

    /// The process dies; what was not flushed is gone.
    pub(super) fn crash(&mut self, me: usize) {
        self.tear_up(me, 0);
    }

    /// The process dies; so many of the records that were not flushed came to the disk, with the decided slots before
    /// them: both are written to one log.
    pub(super) fn tear_up(&mut self, me: usize, unflushed: usize) {
        if unflushed > 0 {
            self.nodes[me].log_flushed = self.nodes[me].log.len();
        }
        self.0.tear(me, unflushed);
        let decided = self.nodes[me].log.len();
        self.watch.states[me].truncate(decided);
        self.watch.ahead[me].clear();
    }

    /// The process comes back with its disk, which gets done again.
    pub(super) fn restart(&mut self, me: usize) {
        self.nodes[me].is_stuck = false;
        self.0.restart(me);
    }

    /// The process comes back with nothing.
    pub(super) fn lose_disk(&mut self, me: usize) {
        self.watch.states[me].clear();
        self.0.lose_disk(me);
    }

    /// How often a request is in the decided log of a replica.
    pub(super) fn times(&self, me: usize, request: RequestId) -> usize {
        self.nodes[me].times(request)
    }

    pub(super) fn outcome(&self, me: usize, request: RequestId) -> Option<Outcome> {
        self.nodes[me].outcome(request).cloned()
    }

    /// Whether a write was answered before it was delivered.
    pub(super) fn is_committed(&self, me: usize, request: RequestId) -> bool {
        matches!(self.outcome(me, request), Some(Outcome::Applied(..)))
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.watch.sent.get(name).copied().unwrap_or(0)
    }

    /// All links work again; whoever waits repeats itself, until everybody has delivered the same and the requests
    /// are there, once each.
    pub(super) fn settle(&mut self, requests: &[RequestId]) {
        self.cut.clear();
        self.run();
        for _ in 0..80 {
            if self.is_settled(requests) {
                return;
            }
            for me in 0..self.nodes.len() {
                let timers = self.nodes[me].timers.keys().copied();
                let timers: Vec<Timer> = timers.filter(|timer| *timer != Timer::Patience).collect();
                for timer in timers {
                    // What a timer causes may disarm another.
                    self.may_fire(me, timer);
                    self.run();
                }
            }
        }
        let states = self.nodes.iter().flat_map(|node| node.machine.as_ref());
        let states: Vec<String> = states.map(quorate_core::Introspect::explain).collect();
        panic!("they do not come to rest (N1): {states:#?}");
    }

    fn is_settled(&self, requests: &[RequestId]) -> bool {
        let up = || self.nodes.iter().filter(|node| node.machine.is_some());
        let longest = up().map(|node| node.log.len()).max();
        up().all(|node| {
            let has_all = requests.iter().all(|request| node.times(*request) == 1);
            has_all && Some(node.log.len()) == longest
        })
    }
}
