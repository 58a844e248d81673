//! The stage of a conversation: machines, what is on its way between them, and disks that forget
//! what was not flushed. Nothing happens by itself; whatever happens is written down.

use quorate_core::{
    Boot, Class, Entry, EntryId, Event, Input, Machine, Outcome, Output, Payload, ReplicaId,
    RequestId, Seat, Slot, hollow_share,
};
use quorate_protocols::{Protocol, Sabotage, Sabotaged, SabotagedConfig};
use quorate_testkit::{Body, Cluster, Disagreement, Watch};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

type Actor<P> = Sabotaged<<P as Protocol>::Machine>;
type Timer<P> = <<P as Protocol>::Machine as Machine>::Timer;
type Inner<P> = Cluster<Actor<P>, Minutes<P>>;
/// Something on its way.
pub(crate) type Packet<P> = quorate_testkit::Packet<Actor<P>>;

fn name_of(entry: Option<&Entry>) -> String {
    entry.map_or("NULL".into(), |entry| format!("{:?}", entry.id))
}

/// What a packet says.
pub(crate) fn text_of<P: Protocol>(packet: &Packet<P>) -> String {
    match &packet.body {
        Body::Message(message) => P::describe_message(message),
        Body::Fetch(slot) => format!("fetch from {slot:?}"),
        Body::Log(slot, entries) => {
            let entries = entries.iter().map(|entry| name_of(entry.as_ref()));
            format!(
                "log from {slot:?}: {}",
                entries.collect::<Vec<_>>().join(" ")
            )
        }
    }
}

/// The minutes of a conversation, and what they are checked for.
pub(crate) struct Minutes<P> {
    /// What happened since the last command.
    pub(crate) lines: Vec<String>,
    /// What must not happen, and did.
    pub(crate) violations: Vec<String>,
    /// For each read, the slots whose effects somebody had seen when it was asked.
    reads: BTreeMap<u64, Slot>,
    /// Writes that a living replica has taken and nobody has delivered, and which replica.
    waiting: BTreeMap<u64, usize>,
    /// By replica: whether its disk flushes only on command.
    is_slow: Vec<bool>,
    protocol: PhantomData<P>,
}

impl<P> Minutes<P> {
    fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(crate) fn violate(&mut self, what: String) {
        self.say(format!("VIOLATION: {what}"));
        self.violations.push(what);
    }
}

impl<P: Protocol> Watch<Actor<P>> for Minutes<P> {
    const LOGS_TRAVEL: bool = true;
    const LOGS_TEAR: bool = true;

    fn on_output(cluster: &mut Inner<P>, me: usize, output: &mut Output<Actor<P>>) -> bool {
        let (name, node) = (me + 1, &cluster.nodes[me]);
        let is_slow = cluster.watch.is_slow[me];
        let line = match output {
            Output::Send { message, after, .. } => {
                if *after <= node.flushed || !is_slow {
                    return true;
                }
                format!(
                    "{name} holds back for {after:?}: {}",
                    P::describe_message(message)
                )
            }
            Output::Persist { lsn, record } => {
                format!("{name} writes {lsn:?}: {}", P::describe_record(record))
            }
            Output::Arm { timer, .. } if node.timers.contains_key(timer) => return true,
            Output::Arm { timer, .. } => format!("{name} arms {timer:?}"),
            Output::Disarm(timer) => format!("{name} disarms {timer:?}"),
            Output::Gather(entry) => format!("{name} gathers {:?}", entry.id),
            Output::Forget(entry) => format!("{name} forgets {entry:?}"),
            Output::Execute { slot, entry } => {
                format!("{name} executes {:?} as {slot:?}", entry.id)
            }
            Output::Retract { from } => format!("{name} takes back what is behind {from:?}"),
            _ => return true,
        };
        cluster.watch.say(line);
        true
    }

    fn on_written(cluster: &mut Inner<P>, me: usize) {
        if !cluster.watch.is_slow[me] {
            cluster.flush(me);
        }
    }

    fn on_packet(cluster: &mut Inner<P>, packet: Packet<P>) {
        let text = text_of::<P>(&packet);
        let (number, from, to) = (packet.number, packet.from + 1, packet.to + 1);
        cluster.watch.say(format!("#{number} {from}->{to}: {text}"));
        cluster.wire.push_back(packet);
    }

    fn on_deliver(cluster: &mut Inner<P>, me: usize, slot: Slot) {
        let entry = cluster.nodes[me].log.last().and_then(Option::as_ref);
        let minutes = &mut cluster.watch;
        minutes.say(format!("{} delivers {slot:?}: {}", me + 1, name_of(entry)));
        for command in entry.iter().flat_map(|entry| entry.commands()).flatten() {
            minutes.waiting.remove(&command.id.seq);
        }
    }

    fn on_disagreement(cluster: &mut Inner<P>, me: usize, what: Disagreement) {
        let me = me + 1;
        cluster.watch.violate(match what {
            Disagreement::Slot { slot, first, now } => {
                let (name, other) = (name_of(now.as_ref()), name_of(first.as_ref()));
                format!("{slot:?} is {name} at {me}, and {other} elsewhere")
            }
            Disagreement::Twice(_, entry) => format!("{entry:?} takes effect twice at {me}"),
        });
    }

    /// Everything executes at once, and comes to nothing.
    fn on_execute(cluster: &mut Inner<P>, me: usize, slot: Slot, entry: Entry) {
        let applied = Input::Applied {
            slot,
            entry: entry.id,
            results: vec![bytes::Bytes::new(); entry.count()],
        };
        cluster.step(me, applied);
    }

    fn on_retract(_: &mut Inner<P>, _: usize, _: Slot) {}

    fn on_tell(_: &mut Inner<P>, gateway: ReplicaId, entry: EntryId) {
        panic!("{entry:?} is to be told to {gateway}, and there are no remote gateways");
    }

    fn on_reply(cluster: &mut Inner<P>, me: usize, id: RequestId, outcome: Outcome) {
        let (minutes, name) = (&mut cluster.watch, me + 1);
        minutes.waiting.remove(&id.seq);
        let what = match outcome {
            Outcome::ReadAt(slot) => format!("read it at {slot:?}"),
            Outcome::Applied(slot, _) => format!("applied in {slot:?}"),
            Outcome::Refused(why) => format!("refused, {why:?}"),
            Outcome::Decided => "decided".to_owned(),
        };
        minutes.say(format!("{name} answers command {}: {what}", id.seq));
        if let Outcome::ReadAt(slot) = outcome
            && minutes.reads.get(&id.seq).is_some_and(|seen| slot < *seen)
        {
            minutes.violate(format!("a stale read at {name}"));
        }
    }

    fn on_event(cluster: &mut Inner<P>, me: usize, event: Event) {
        let (minutes, name) = (&mut cluster.watch, me + 1);
        match event {
            Event::Decided {
                slot, fast, noop, ..
            } => {
                let what = if noop { "NULL" } else { "a request" };
                let how = if fast { ", fast" } else { "" };
                minutes.say(format!("{name} decides {slot:?}: {what}{how}"));
            }
            Event::Branch(branch) => minutes.say(format!("{name}: {branch}")),
            Event::Misbehaved { peer, what } => minutes.violate(format!(
                "{name} finds that {} broke the protocol: {what}",
                peer.0
            )),
        }
    }
}

/// All of it.
pub(crate) struct Stage<P: Protocol>(Inner<P>);

impl<P: Protocol> Deref for Stage<P> {
    type Target = Inner<P>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<P: Protocol> DerefMut for Stage<P> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<P: Protocol> Stage<P> {
    /// Machines that have never spoken, one for each seat.
    pub(crate) fn new(
        seats: Vec<Seat>,
        is_slow: bool,
        sabotage: Option<Sabotage<P::Machine>>,
    ) -> Self {
        let minutes = Minutes {
            lines: Vec::new(),
            violations: Vec::new(),
            reads: BTreeMap::new(),
            waiting: BTreeMap::new(),
            is_slow: vec![is_slow; seats.len()],
            protocol: PhantomData,
        };
        let count = seats.len();
        let configure = move |me: usize, boot: Boot| {
            let seat = Seat {
                boot,
                ..seats[me].clone()
            };
            let inner = P::config(&seat).expect("the parameters were checked");
            SabotagedConfig { inner, sabotage }
        };
        Stage(Cluster::new(count, minutes, configure))
    }

    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Submits one command; a write may have a value that is a payload.
    pub(crate) fn submit(&mut self, me: usize, class: Class, is_long: bool) {
        let id = self.next_request();
        if class == Class::Read {
            let seen = self.chosen.iter().rfind(|(_, entry)| entry.is_some());
            let seen = seen.map_or(Slot(0), |(slot, _)| slot.next());
            self.watch.reads.insert(id.seq, seen);
        } else if self.nodes[me].machine.is_some() {
            self.watch.waiting.insert(id.seq, me);
        }
        let value = is_long.then(|| Payload::of(bytes::Bytes::from_static(b"a long value")));
        let (body, payloads) = (bytes::Bytes::from_static(b"x"), value.into_iter().collect());
        self.0.submit(me, class, body, payloads);
    }

    /// What a replica wants gathered is here. Says whether that was anything.
    pub(crate) fn gather(&mut self, me: usize) -> bool {
        let gathers = std::mem::take(&mut self.nodes[me].gathers);
        let is_any = !gathers.is_empty();
        for entry in gathers {
            let share = Some(hollow_share(&entry, 1, 0));
            self.step(me, Input::Held(entry.with_share(share)));
        }
        is_any
    }

    /// From now on flushes of a replica happen by themselves, or only on command.
    pub(crate) fn set_slow(&mut self, me: usize, is_slow: bool) {
        self.watch.is_slow[me] = is_slow;
        self.perform(me);
    }

    /// The process dies; what was not flushed is gone.
    pub(crate) fn crash(&mut self, me: usize) {
        self.watch.waiting.retain(|_, taker| *taker != me);
        self.0.crash(me);
    }

    /// What is on its way arrives.
    pub(crate) fn deliver(&mut self, number: u64) {
        let mut packets = self.wire.iter();
        let place = packets.position(|packet| packet.number == number);
        let packet = self.wire.remove(place.expect("it is on its way"));
        self.receive(packet.expect("it is on its way"));
    }

    /// A copy of a packet that stays on its way.
    pub(crate) fn repeat(&mut self, number: u64) {
        let mut packets = self.wire.iter();
        let packet = packets.find(|packet| packet.number == number);
        let packet = packet.expect("it is on its way").clone();
        self.put(packet.from, packet.to, packet.body);
    }

    /// Says so if something was taken that nothing moves any more.
    pub(crate) fn blame_silence(&mut self) {
        if let Some((command, me)) = self.watch.waiting.pop_first() {
            let what = format!("command {command} waits at {} for ever", me + 1);
            self.watch.violate(what);
        }
    }

    /// The first armed timer of a replica whose name begins like this.
    pub(crate) fn timer(&self, me: usize, begins: &str) -> Option<Timer<P>> {
        let mut timers = self.nodes[me].timers.keys();
        let found = timers.find(|timer| format!("{timer:?}").starts_with(begins));
        found.copied()
    }

    /// Fires the timer that is due first, at its time; says when that was, in ns.
    pub(crate) fn fire_next(&mut self) -> Option<u64> {
        let (due_ns, me, timer) = self.next_timer()?;
        self.now_ns = self.now_ns.max(due_ns);
        self.fire(me, timer);
        Some(self.now_ns)
    }

    /// What can be said of a replica.
    pub(crate) fn facts(&self, me: usize) -> Vec<String> {
        let node = &self.nodes[me];
        let Some(machine) = &node.machine else {
            return vec!["down".into()];
        };
        let role = match machine.is_serving() {
            true => "serving",
            false => "recovering",
        };
        let mut facts = vec![role.to_string()];
        let delivered = (0..).map(Slot).zip(&node.log);
        facts.extend(
            delivered.map(|(slot, e)| format!("delivered {slot:?}: {}", name_of(e.as_ref()))),
        );
        if node.log.is_empty() {
            facts.push("delivered nothing".into());
        }
        facts.extend(P::describe_state(machine.inner()));
        let timers = node.timers.keys();
        facts.extend(timers.map(|timer| format!("waits for {timer:?}")));
        facts
    }
}
