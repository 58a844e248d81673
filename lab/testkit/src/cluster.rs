//! The replicas, what is on its way between them, the time, and what a test adds.

use crate::node::Node;
use crate::packet::Packet;
use crate::seat::id;
use bytes::Bytes;
use quorate_core::{
    Boot, Class, ClientId, Command, Due, Entry, EntryId, Event, Input, Machine, Now, Outcome,
    Output, Past, Payload, Peers, Plain, Principal, ReplicaId, RequestId, SECONDS, Slot,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What synchronised clocks show when [`Cluster::now_ns`] is 0, in ns.
const CLOCK_NS: u64 = 100 * SECONDS;

/// Makes the configuration of a replica for one life of it.
type Configure<M> = Box<dyn Fn(usize, Boot) -> <M as Machine>::Config>;

/// A cluster whose packets, disks, timers and lives move only as told.
pub struct Cluster<M: Plain, W: Watch<M> = ()> {
    /// The replicas, by index.
    pub nodes: Vec<Node<M>>,
    /// Packets on their way, in the order they were sent.
    pub wire: VecDeque<Packet<M>>,
    /// Links that lose everything, each by sender and receiver.
    pub cut: BTreeSet<(usize, usize)>,
    /// The time, in ns.
    pub now_ns: u64,
    /// Whether machines check their lemmas after every step.
    pub is_checked: bool,
    /// What was first delivered in each slot; `None` is a no-op.
    pub chosen: BTreeMap<Slot, Option<Entry>>,
    /// How often machines reported each branch.
    pub branches: BTreeMap<&'static str, usize>,
    /// Commands that were made so far; the number of the last one.
    pub commands: u64,
    /// What the test watches and breaks.
    pub watch: W,
    pub(crate) packets: u64,
    configure: Configure<M>,
}

impl<M: Plain, W: Watch<M>> Cluster<M, W> {
    /// A cluster of `n` replicas that have started and said what they say at first. `configure`
    /// makes the configuration of a replica, by its index and the number of its life.
    pub fn new(n: usize, watch: W, configure: impl Fn(usize, Boot) -> M::Config + 'static) -> Self {
        let mut cluster = Cluster {
            nodes: (0..n).map(|me| Node::new(configure(me, Boot(0)))).collect(),
            wire: VecDeque::new(),
            cut: BTreeSet::new(),
            now_ns: SECONDS,
            is_checked: true,
            chosen: BTreeMap::new(),
            branches: BTreeMap::new(),
            commands: 0,
            watch,
            packets: 0,
            configure: Box::new(configure),
        };
        (0..n).for_each(|me| cluster.start(me, Past::Fresh));
        cluster
    }

    /// A machine starts from its past, in a life of its own.
    pub fn start(&mut self, me: usize, past: Past<M>) {
        let now = W::now(self, me);
        let starts = self.nodes[me].starts;
        let config = (self.configure)(me, Boot((starts << 8) | (me as u64 + 1)));
        let node = &mut self.nodes[me];
        node.starts += 1;
        node.config = config;
        (node.out, node.flushed) = (Default::default(), Default::default());
        node.machine = Some(M::recover(&node.config, past, now, &mut node.out));
        self.perform(me);
    }

    /// The time at a replica: [`Cluster::now_ns`], and a clock that is off by [`Node::clock_ns`].
    #[must_use]
    pub fn plain_now(&self, me: usize) -> Now {
        let clock_ns = CLOCK_NS + self.now_ns;
        Now {
            mono_ns: self.now_ns,
            clock_ns: clock_ns.saturating_add_signed(self.nodes[me].clock_ns),
            clock_error_ns: 0,
        }
    }

    /// The machine of a replica.
    ///
    /// # Panics
    /// If the replica is down.
    #[must_use]
    pub fn machine(&self, me: usize) -> &M {
        self.nodes[me].machine.as_ref().expect("it runs")
    }

    /// Gives a machine one input, if it is up, and does what it wants done.
    pub fn step(&mut self, me: usize, input: Input<M>) {
        let now = W::now(self, me);
        let node = &mut self.nodes[me];
        let Some(machine) = &mut node.machine else {
            return;
        };
        machine.step(now, input, &mut node.out);
        if self.is_checked {
            machine.check();
        }
        self.perform(me);
    }

    /// A client of a replica asks for something.
    pub fn submit(
        &mut self,
        me: usize,
        class: Class,
        body: Bytes,
        payloads: Vec<Payload>,
    ) -> RequestId {
        let command = self.command(class, body, payloads);
        let id = command.id;
        self.step(me, Input::Submit(vec![command]));
        id
    }

    /// A command that nobody has asked for yet.
    pub fn command(&mut self, class: Class, body: Bytes, payloads: Vec<Payload>) -> Command {
        let id = self.next_request();
        self.commands += 1;
        Command {
            id,
            acked: 0,
            class,
            principal: Principal(0),
            body,
            payloads,
        }
    }

    /// The id of the command that is made next.
    #[must_use]
    pub fn next_request(&self) -> RequestId {
        RequestId {
            client: ClientId(1),
            seq: self.commands + 1,
        }
    }

    /// A client of a replica writes something short.
    pub fn write(&mut self, me: usize) -> RequestId {
        self.submit(me, Class::Write, Bytes::from_static(b"set x"), Vec::new())
    }

    /// A client of a replica reads.
    pub fn read(&mut self, me: usize) -> RequestId {
        self.submit(me, Class::Read, Bytes::from_static(b"set x"), Vec::new())
    }

    /// Fires a timer if it is armed. Says whether it was.
    pub fn fire(&mut self, me: usize, timer: M::Timer) -> bool {
        let is_armed = self.nodes[me].timers.remove(&timer).is_some();
        if is_armed {
            self.step(me, Input::Timer(timer));
        }
        is_armed
    }

    /// The armed timer that is due first, and when: the first replica's of those due at once.
    #[must_use]
    pub fn next_timer(&self) -> Option<(u64, usize, M::Timer)> {
        let nodes = self.nodes.iter().enumerate();
        let timers = nodes.flat_map(|(me, node)| {
            let timers = node.timers.iter();
            timers.map(move |(timer, due_ns)| (*due_ns, me, *timer))
        });
        timers.min_by_key(|(due_ns, me, _)| (*due_ns, *me))
    }

    /// Says that the links of a replica are down, or up, at both ends.
    pub fn hint(&mut self, me: usize, up: bool) {
        for other in (0..self.nodes.len()).filter(|other| *other != me) {
            let (mine, theirs) = (id(other), id(me));
            self.step(me, Input::Link { peer: mine, up });
            self.step(other, Input::Link { peer: theirs, up });
        }
    }

    /// How often machines reported a branch.
    #[must_use]
    pub fn branch(&self, name: &str) -> usize {
        self.branches.get(name).copied().unwrap_or(0)
    }
}

/// What must not happen in a decided log.
#[derive(Clone, Debug)]
pub enum Disagreement {
    /// A replica delivers another entry in a slot than a replica before it.
    Slot {
        /// The slot in question.
        slot: Slot,
        /// The entry that was delivered first.
        first: Option<Entry>,
        /// The entry that is delivered now.
        now: Option<Entry>,
    },
    /// A replica delivers an entry that it has delivered before.
    Twice(Slot, EntryId),
}

/// What a test watches in a cluster, and what it breaks. Every function is called with the cluster,
/// so that it may look at, or change, any of its replicas.
pub trait Watch<M: Plain>: Sized {
    /// Whether decided logs go from host to host in packets; otherwise they are there at once.
    const LOGS_TRAVEL: bool = false;
    /// Whether a crash takes those decided slots that were not flushed.
    const LOGS_TEAR: bool = false;

    /// The time at a replica, before each step of its machine.
    fn now(cluster: &mut Cluster<M, Self>, me: usize) -> Now {
        cluster.plain_now(me)
    }

    /// How long an armed timer runs, in ns.
    fn wait_ns(&mut self, due: &Due) -> u64 {
        match due {
            Due::After(ns) => *ns,
            Due::Within(range) => *range.end(),
        }
    }

    /// A machine wants something done. Whether it is; it may be changed before.
    fn on_output(cluster: &mut Cluster<M, Self>, me: usize, output: &mut Output<M>) -> bool {
        let _ = (cluster, me, output);
        true
    }

    /// Records were written that are not durable: the disk flushes at once, unless it is stuck.
    fn on_written(cluster: &mut Cluster<M, Self>, me: usize) {
        if !cluster.nodes[me].is_stuck {
            cluster.flush(me);
        }
    }

    /// All that a machine wanted after a step is done.
    fn on_performed(cluster: &mut Cluster<M, Self>, me: usize) {
        let _ = (cluster, me);
    }

    /// A message leaves.
    fn on_send(cluster: &mut Cluster<M, Self>, from: usize, to: Peers, message: &M::Message) {
        let _ = (cluster, from, to, message);
    }

    /// A packet leaves; what is not put on the wire is lost.
    fn on_packet(cluster: &mut Cluster<M, Self>, packet: Packet<M>) {
        cluster.wire.push_back(packet);
    }

    /// A record is written. Whether the disk keeps it.
    fn on_record(cluster: &mut Cluster<M, Self>, me: usize, record: &M::Record) -> bool {
        let _ = (cluster, me, record);
        true
    }

    /// A slot is delivered: the replica's log has it already, [`Cluster::chosen`] not yet.
    fn on_deliver(cluster: &mut Cluster<M, Self>, me: usize, slot: Slot) {
        let _ = (cluster, me, slot);
    }

    /// A decided log contradicts what was delivered before.
    fn on_disagreement(cluster: &mut Cluster<M, Self>, me: usize, what: Disagreement) {
        let _ = cluster;
        match what {
            Disagreement::Slot { slot, first, now } => {
                panic!("agreement: {me} delivers {now:?} in {slot:?}, another {first:?}")
            }
            Disagreement::Twice(slot, entry) => {
                panic!("every entry takes effect once: {me} delivers {entry:?} again in {slot:?}")
            }
        }
    }

    /// An entry is to be executed ahead of its decision.
    fn on_execute(cluster: &mut Cluster<M, Self>, me: usize, slot: Slot, entry: Entry) {
        let _ = (cluster, entry);
        panic!("{me} wants {slot:?} executed ahead");
    }

    /// What was executed ahead is to be taken back from a slot on.
    fn on_retract(cluster: &mut Cluster<M, Self>, me: usize, from: Slot) {
        let _ = cluster;
        panic!("{me} wants to take back what is behind {from:?}");
    }

    /// The payloads of an entry are to be gathered.
    fn on_gather(cluster: &mut Cluster<M, Self>, me: usize, entry: Entry) {
        cluster.nodes[me].gathers.push(entry);
    }

    /// An entry that nobody will order may be forgotten.
    fn on_forget(cluster: &mut Cluster<M, Self>, me: usize, entry: EntryId) {
        cluster.nodes[me]
            .gathers
            .retain(|wanted| wanted.id != entry);
    }

    /// A remote gateway is to be told of an entry.
    fn on_tell(cluster: &mut Cluster<M, Self>, gateway: ReplicaId, entry: EntryId) {
        let _ = cluster;
        panic!("{entry:?} is to be told to {gateway}, and there are no remote gateways");
    }

    /// A request is answered.
    fn on_reply(cluster: &mut Cluster<M, Self>, me: usize, id: RequestId, outcome: Outcome) {
        cluster.nodes[me].replies.push((id, outcome));
    }

    /// Something worth counting happened.
    fn on_event(cluster: &mut Cluster<M, Self>, me: usize, event: Event) {
        match event {
            Event::Branch(name) => *cluster.branches.entry(name).or_default() += 1,
            Event::Misbehaved { peer, what } => panic!("{me} says {peer:?} misbehaved: {what}"),
            Event::Decided { .. } => {}
        }
    }
}

/// Nothing to watch.
impl<M: Plain> Watch<M> for () {}
