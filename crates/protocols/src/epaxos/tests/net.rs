//! A cluster whose messages and disks move only as told. It executes ahead as hosts do, and fails on the first thing
//! that contradicts what came before: another order, or an answer that the order does not bear out.

use crate::epaxos::{Config, EPaxos, Message, Record, Replica, Said, Timer};
use crate::registry::Protocol;
use bytes::Bytes;
use quorate_core::{
    Class, ClientId, Command, Entry, Input, Introspect, MILLIS, Now, Outcome, RequestId, Seat, Slot,
};
use quorate_testkit::{Cluster, Disagreement, Node, Packet, Watch};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const C: usize = 2;
pub(super) const D: usize = 3;
pub(super) const E: usize = 4;

type Inner = Cluster<Replica, Watched>;

/// What is watched, and what is broken.
#[derive(Default)]
pub(super) struct Watched {
    /// Records that are not written.
    pub(super) forget: Option<fn(&Record) -> bool>,
    /// How many messages of each kind were sent.
    pub(super) sent: BTreeMap<&'static str, usize>,
    /// How much time passes before each step, in ns.
    pub(super) tick_ns: u64,
    /// By replica: executed ahead, behind what is decided.
    ahead: Vec<Vec<Entry>>,
    /// By replica: to be executed, by slot.
    asked: Vec<BTreeMap<Slot, Entry>>,
    /// Answers given ahead: the numbers of the requests of the same key that went before.
    answers: BTreeMap<RequestId, Vec<u64>>,
    /// By request: the numbers of those of the same key that had been answered when it was asked for.
    known: BTreeMap<RequestId, Vec<u64>>,
}

/// What a command touches: the key that is its first byte, or everything.
fn touches(body: &Bytes) -> Option<Vec<u32>> {
    Some(vec![u32::from(*body.first()?)])
}

fn commands(entry: Option<&Entry>) -> impl Iterator<Item = Command> {
    entry
        .into_iter()
        .flat_map(|entry| entry.commands().map(Result::unwrap))
}

impl Watch<Replica> for Watched {
    const LOGS_TEAR: bool = true;

    fn now(cluster: &mut Inner, me: usize) -> Now {
        cluster.now_ns += cluster.watch.tick_ns;
        cluster.plain_now(me)
    }

    fn on_packet(cluster: &mut Inner, packet: Packet<Replica>) {
        if let Some(message) = packet.message() {
            let sent = &mut cluster.watch.sent;
            *sent.entry(kind_of(message)).or_default() += 1;
        }
        cluster.wire.push_back(packet);
    }

    fn on_record(cluster: &mut Inner, _: usize, record: &Record) -> bool {
        !cluster.watch.forget.is_some_and(|forget| forget(record))
    }

    fn on_execute(cluster: &mut Inner, me: usize, slot: Slot, entry: Entry) {
        cluster.watch.asked[me].insert(slot, entry);
    }

    fn on_retract(cluster: &mut Inner, me: usize, from: Slot) {
        cluster.watch.asked[me].split_off(&from);
        cluster.watch.ahead[me].clear();
    }

    /// Executes ahead what is next.
    fn on_performed(cluster: &mut Inner, me: usize) {
        if cluster.nodes[me].machine.is_none() {
            return;
        }
        loop {
            let decided = cluster.nodes[me].log.len();
            let slot = Slot((decided + cluster.watch.ahead[me].len()) as u64);
            let asked = &mut cluster.watch.asked[me];
            asked.retain(|at, _| *at >= slot);
            let Some(entry) = asked.remove(&slot) else {
                return;
            };
            let log = cluster.nodes[me].log.iter().flatten();
            let before: Vec<Command> = log
                .chain(&cluster.watch.ahead[me])
                .flat_map(|entry| commands(Some(entry)))
                .collect();
            let result = |command: &Command| {
                let same = before.iter().filter(|other| other.body == command.body);
                let bytes = same.flat_map(|other| other.id.seq.to_le_bytes());
                bytes.collect::<Bytes>()
            };
            let results = commands(Some(&entry))
                .map(|command| result(&command))
                .collect();
            let id = entry.id;
            cluster.watch.ahead[me].push(entry);
            cluster.step(
                me,
                Input::Applied {
                    slot,
                    entry: id,
                    results,
                },
            );
        }
    }

    fn on_deliver(cluster: &mut Inner, me: usize, slot: Slot) {
        let name = cluster.nodes[me].names()[slot.0 as usize];
        let ahead = &mut cluster.watch.ahead[me];
        let is_same = ahead.first().is_some_and(|entry| Some(entry.id) == name);
        match is_same {
            true => drop(ahead.remove(0)),
            false => ahead.clear(),
        }
        cluster.check_answers(me, slot);
    }

    fn on_reply(cluster: &mut Inner, me: usize, id: RequestId, outcome: Outcome) {
        if let Outcome::Applied(_, result) = &outcome {
            let seqs = result.chunks_exact(8);
            let before = seqs
                .map(|it| u64::from_le_bytes(it.try_into().unwrap()))
                .collect();
            cluster.watch.answers.insert(id, before);
        }
        cluster.nodes[me].replies.push((id, outcome));
    }

    fn on_disagreement(_: &mut Inner, me: usize, what: Disagreement) {
        match what {
            Disagreement::Slot { .. } => panic!("all deliver one sequence (E4), {me}: {what:?}"),
            Disagreement::Twice(..) => panic!("an entry takes effect once (E7), {me}: {what:?}"),
        }
    }
}

/// Compares answers with the order in the end.
trait Answers {
    fn check_answers(&self, me: usize, slot: Slot);
}

impl Answers for Inner {
    fn check_answers(&self, me: usize, slot: Slot) {
        let log = &self.nodes[me].log;
        let (this, before) = (&log[slot.0 as usize], &log[..slot.0 as usize]);
        for command in commands(this.as_ref()) {
            let earlier = before.iter().flat_map(|entry| commands(entry.as_ref()));
            let same = earlier.filter(|other| other.body == command.body);
            let same: Vec<u64> = same.map(|other| other.id.seq).collect();
            if let Some(told) = self.watch.answers.get(&command.id) {
                assert_eq!(
                    *told, same,
                    "an answer is what the order bears out (E5), {me}"
                );
            }
            for known in self.watch.known.get(&command.id).into_iter().flatten() {
                assert!(
                    same.contains(known),
                    "what was answered goes before what is asked for later (E5), {me}"
                );
            }
        }
    }
}

pub(super) fn kind_of(message: &Message) -> &'static str {
    match message.said {
        Said::PreAccept(_) => "pre-accept",
        Said::PreAcceptA(..) => "pre-accepted",
        Said::Accept(_) => "accept",
        Said::AcceptA(..) => "accepted",
        Said::Commit(_) => "commit",
        Said::Recover(..) => "recover",
        Said::RecoverA(_) => "joined",
        Said::Nack(..) => "nack",
        Said::Validate(_) => "validate",
        Said::ValidateA(_) => "validated",
        Said::Waiting(..) => "waiting",
        Said::Ask(_) => "ask",
        Said::Progress(_) => "progress",
        Said::ReadQ(_) | Said::ReadA(..) => "read",
    }
}

/// A cluster of replicas of EPaxos.
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
    quorate_testkit::seat(EPaxos::NAME, n, me, me as u64 + 1, params)
}

impl Net {
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Net {
        Net::edited(n, params, |_| {})
    }

    /// A cluster whose configurations are changed by a mutant.
    pub(super) fn edited(n: usize, params: &[(&str, &str)], edit: impl Fn(&mut Config)) -> Net {
        let config = |me| {
            let mut config = EPaxos::config(&seat(n, me, params)).unwrap();
            EPaxos::commute(&mut config, touches);
            edit(&mut config);
            config
        };
        let configs: Vec<Config> = (0..n).map(config).collect();
        let watched = Watched {
            ahead: vec![Vec::new(); n],
            asked: vec![BTreeMap::new(); n],
            ..Watched::default()
        };
        Net(Cluster::new(n, watched, move |me, boot| {
            let mut config = configs[me].clone();
            config.seating.boot = boot;
            config
        }))
    }

    /// A client writes a key; each member has its own.
    pub(super) fn set(&mut self, me: usize, key: u8) -> RequestId {
        let answered = self.watch.answers.keys();
        let of_key = self.keys_of(key);
        let known = answered
            .filter(|id| of_key.contains(*id))
            .map(|id| id.seq)
            .collect();
        let request = self.ask_by(ClientId(me as u64 + 1), me, Bytes::from(vec![key]));
        self.watch.known.insert(request, known);
        request
    }

    /// A client asks for something at a member.
    pub(super) fn ask_by(&mut self, client: ClientId, me: usize, body: Bytes) -> RequestId {
        let mut command = self.command(Class::Write, body, Vec::new());
        command.id.client = client;
        let request = command.id;
        self.step(me, Input::Submit(vec![command]));
        request
    }

    /// Requests for a key so far, as far as they are in somebody's log or ahead of it.
    fn keys_of(&self, key: u8) -> Vec<RequestId> {
        let logs = self.nodes.iter().flat_map(|node| node.log.iter().flatten());
        let all = logs.chain(self.watch.ahead.iter().flatten());
        let all = all.flat_map(|entry| commands(Some(entry)));
        let of_key = all.filter(|command| command.body[..] == [key]);
        of_key.map(|command| command.id).collect()
    }

    /// A client writes something that touches everything.
    pub(super) fn set_all(&mut self, me: usize) -> RequestId {
        self.submit(me, Class::Write, Bytes::new(), Vec::new())
    }

    /// What executed ahead is gone with the process.
    pub(super) fn die(&mut self, me: usize) {
        self.crash(me);
        self.watch.ahead[me].clear();
        self.watch.asked[me].clear();
    }

    /// Lets a timer fire that must be armed.
    pub(super) fn fire(&mut self, me: usize, timer: Timer) {
        assert!(self.0.fire(me, timer), "{timer:?} is armed at {me}");
    }

    /// Lets a timer fire if it is armed.
    pub(super) fn try_fire(&mut self, me: usize, timer: Timer) {
        self.0.fire(me, timer);
    }

    /// Time passes, and what was held until then is kept.
    pub(super) fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
        for me in 0..self.nodes.len() {
            self.try_fire(me, Timer::Hold);
        }
    }

    /// Loses everything that is on its way, but to one replica.
    pub(super) fn lose_but_to(&mut self, me: usize) {
        self.wire.retain(|packet| packet.to == me);
    }

    /// A replica hears nothing of what it waits for, for long.
    pub(super) fn suspect(&mut self, me: usize) {
        for _ in 0..2 {
            self.0.fire(me, Timer::Recover);
        }
    }

    /// A replica hears nothing for long enough to recover something.
    pub(super) fn recover(&mut self, me: usize) {
        for _ in 0..3 {
            let mut said = self.messages();
            if said.any(|(from, _, message)| from == me && kind_of(message) == "recover") {
                return;
            }
            drop(said);
            self.try_fire(me, Timer::Recover);
        }
    }

    /// Loses everything that is on its way.
    pub(super) fn lose_all(&mut self) {
        self.wire.clear();
    }

    /// Takes what is on its way and of a kind off the wire, by sender and receiver, to be delivered later.
    pub(super) fn hold(&mut self, kind: &str, from: usize, to: usize) -> Vec<Packet<Replica>> {
        self.take_packets(|packet| {
            let kind_of = packet.message().map(kind_of);
            kind_of == Some(kind) && (packet.from, packet.to) == (from, to)
        })
    }

    /// Delivers what is on its way and of a kind, by sender and receiver, and nothing that it causes.
    pub(super) fn pass_kind(&mut self, kind: &str, from: usize, to: usize) {
        let held = self.hold(kind, from, to);
        assert!(
            !held.is_empty(),
            "a {kind} is on its way from {from} to {to}"
        );
        self.release(held);
    }

    /// Delivers what is on its way and of a kind, if anything is.
    pub(super) fn try_pass(&mut self, kind: &str, from: usize, to: usize) {
        let held = self.hold(kind, from, to);
        self.release(held);
    }

    /// One message delay: delivers what is on its way now, and nothing that it causes.
    pub(super) fn delay(&mut self) {
        let now = self.take_packets(|_| true);
        self.release(now);
    }

    /// Delivers what was held.
    pub(super) fn release(&mut self, held: Vec<Packet<Replica>>) {
        held.into_iter().for_each(|packet| self.receive(packet));
    }

    /// The process comes back with its disk, which gets done again.
    pub(super) fn restart(&mut self, me: usize) {
        self.nodes[me].is_stuck = false;
        Cluster::restart(self, me);
    }

    pub(super) fn times(&self, me: usize, request: RequestId) -> usize {
        self.nodes[me].times(request)
    }

    pub(super) fn outcome(&self, me: usize, request: RequestId) -> Option<Outcome> {
        self.nodes[me].outcome(request).cloned()
    }

    /// Whether a client has its answer: ahead, or by what is delivered.
    pub(super) fn is_answered(&self, me: usize, request: RequestId) -> bool {
        self.outcome(me, request).is_some() || self.times(me, request) > 0
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.watch.sent.get(name).copied().unwrap_or(0)
    }

    /// All links work again; whoever waits repeats itself, until everybody has delivered the same and the requests
    /// are there, once each.
    pub(super) fn settle(&mut self, requests: &[RequestId]) {
        self.cut.clear();
        self.run();
        for _ in 0..100 {
            if self.is_settled(requests) {
                return;
            }
            // What is held is kept at some time.
            self.now_ns += MILLIS;
            for me in 0..self.nodes.len() {
                let timers = self.nodes[me].timers.keys().copied();
                let timers: Vec<Timer> = timers.filter(|timer| *timer != Timer::Patience).collect();
                for timer in timers {
                    // What a timer causes may disarm another.
                    self.0.fire(me, timer);
                }
                self.run();
            }
        }
        let states = self.nodes.iter().flat_map(|node| node.machine.as_ref());
        let states: Vec<String> = states.map(Introspect::explain).collect();
        panic!("they do not come to rest: {states:#?}");
    }

    fn is_settled(&self, requests: &[RequestId]) -> bool {
        let up = || self.nodes.iter().filter(|node| node.machine.is_some());
        let longest = up().map(|node| node.log.len()).max();
        let has_all =
            |node: &Node<Replica>| requests.iter().all(|request| node.times(*request) == 1);
        up().all(|node| Some(node.log.len()) == longest && has_all(node))
    }
}
