//! The stage of a conversation: machines, what is on its way between them, and disks that forget
//! what was not flushed. Nothing happens by itself; whatever happens is written down.

mod lives;
mod traffic;

use quorate_core::{
    Base, Class, ClientId, Command, Due, Entry, Event, Input, Introspect, Lsn, Machine, Now, Out,
    Outcome, Output, Past, Payload, Peers, Principal, RequestId, Seat, Slot, carried, hollow_share,
};
use quorate_protocols::{Protocol, Sabotage, Sabotaged};
use std::collections::BTreeMap;
use traffic::Body;
pub(crate) use traffic::Packet;

type Actor<P> = Sabotaged<<P as Protocol>::Machine>;
type Message<P> = <<P as Protocol>::Machine as Machine>::Message;
type Record<P> = <<P as Protocol>::Machine as Machine>::Record;
type Timer<P> = <<P as Protocol>::Machine as Machine>::Timer;
type BaseOf<P> = <<P as Protocol>::Machine as Machine>::Base;

fn name_of(entry: Option<&Entry>) -> String {
    entry.map_or("NULL".into(), |entry| format!("{:?}", entry.id))
}

struct Node<P: Protocol> {
    seat: Seat,
    /// `None` while it is down.
    machine: Option<Actor<P>>,
    out: Out<Actor<P>>,
    disk: Vec<(Lsn, Record<P>)>,
    /// Flushes happen only when the script says so.
    is_slow: bool,
    flushed: Lsn,
    /// It lost everything, and has not written since.
    is_lost: bool,
    gated: Vec<(Lsn, Peers, Message<P>)>,
    /// Entries whose payloads it wants.
    gathers: Vec<Entry>,
    /// When each armed timer is due.
    timers: BTreeMap<Timer<P>, u64>,
    log: Vec<Option<Entry>>,
    log_flushed: usize,
    base: BaseOf<P>,
    clock_ns: i64,
    starts: u64,
}

/// All of it.
pub(crate) struct Stage<P: Protocol> {
    nodes: Vec<Node<P>>,
    pub(crate) flying: Vec<Packet<P>>,
    sabotage: Option<Sabotage<P::Machine>>,
    /// What happened since the last command.
    pub(crate) lines: Vec<String>,
    /// What must not happen, and did.
    pub(crate) violations: Vec<String>,
    chosen: BTreeMap<Slot, Option<Entry>>,
    now_ns: u64,
    packets: usize,
    commands: u64,
    /// For each read, the slots whose effects somebody had seen when it was asked.
    reads: BTreeMap<u64, Slot>,
    /// Writes that a living replica has taken and nobody has delivered, and which replica.
    waiting: BTreeMap<u64, usize>,
}

impl<P: Protocol> Stage<P> {
    /// Machines that have never spoken, one for each seat.
    pub(crate) fn new(
        seats: Vec<Seat>,
        is_slow: bool,
        sabotage: Option<Sabotage<P::Machine>>,
    ) -> Self {
        let nodes = seats.into_iter().map(|seat| Node {
            seat,
            machine: None,
            out: Out::default(),
            disk: Vec::new(),
            is_slow,
            flushed: Lsn(0),
            is_lost: false,
            gated: Vec::new(),
            gathers: Vec::new(),
            timers: BTreeMap::new(),
            log: Vec::new(),
            log_flushed: 0,
            base: BaseOf::<P>::default(),
            clock_ns: 0,
            starts: 0,
        });
        let mut stage = Stage {
            nodes: nodes.collect(),
            flying: Vec::new(),
            sabotage,
            lines: Vec::new(),
            violations: Vec::new(),
            chosen: BTreeMap::new(),
            now_ns: 1_000_000_000,
            packets: 0,
            commands: 0,
            reads: BTreeMap::new(),
            waiting: BTreeMap::new(),
        };
        (0..stage.count()).for_each(|me| stage.start(me, Past::Fresh));
        stage
    }

    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    fn now(&self, me: usize) -> Now {
        let clock_ns = 100_000_000_000 + self.now_ns;
        Now {
            mono_ns: self.now_ns,
            clock_ns: clock_ns.saturating_add_signed(self.nodes[me].clock_ns),
            clock_error_ns: 0,
        }
    }

    /// Time passes; timers fire only when they are told to.
    pub(crate) fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    /// The synchronised clock of a replica is off by this much from now on.
    pub(crate) fn set_clock(&mut self, me: usize, off_ns: i64) {
        self.nodes[me].clock_ns = off_ns;
    }

    /// Gives a replica one input, if it is up.
    pub(crate) fn step(&mut self, me: usize, input: Input<Actor<P>>) {
        let now = self.now(me);
        let node = &mut self.nodes[me];
        let Some(machine) = node.machine.as_mut() else {
            return;
        };
        machine.step(now, input, &mut node.out);
        machine.check();
        self.perform(me);
    }

    /// Submits one command; a write may have a value that is a payload.
    pub(crate) fn submit(&mut self, me: usize, class: Class, is_long: bool) {
        self.commands += 1;
        let id = RequestId {
            client: ClientId(1),
            seq: self.commands,
        };
        if class == Class::Read {
            let seen = self.chosen.iter().rfind(|(_, entry)| entry.is_some());
            let seen = seen.map_or(Slot(0), |(slot, _)| slot.next());
            self.reads.insert(id.seq, seen);
        } else if self.nodes[me].machine.is_some() {
            self.waiting.insert(id.seq, me);
        }
        let command = Command {
            id,
            acked: 0,
            class,
            principal: Principal(0),
            body: bytes::Bytes::from_static(b"x"),
            payloads: match is_long {
                true => vec![Payload::of(bytes::Bytes::from_static(b"a long value"))],
                false => Vec::new(),
            },
        };
        self.step(me, Input::Submit(vec![command]));
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

    fn perform(&mut self, me: usize) {
        let outputs: Vec<Output<Actor<P>>> = self.nodes[me].out.drain().collect();
        for output in outputs {
            self.perform_one(me, output);
        }
        let node = &self.nodes[me];
        if node.machine.is_some() && !node.is_slow && node.flushed < node.out.persisted() {
            self.flush(me);
        }
    }

    fn perform_one(&mut self, me: usize, output: Output<Actor<P>>) {
        let name = me + 1;
        match output {
            Output::Send { to, message, after } => {
                if after <= self.nodes[me].flushed {
                    return self.send(me, to, message);
                }
                if self.nodes[me].is_slow {
                    let text = P::describe_message(&message);
                    self.say(format!("{name} holds back for {after:?}: {text}"));
                }
                self.nodes[me].gated.push((after, to, message));
            }
            Output::Persist { lsn, record } => {
                let text = P::describe_record(&record);
                self.say(format!("{name} writes {lsn:?}: {text}"));
                let record = carried(&record, me as u8);
                self.nodes[me].disk.push((lsn, record));
            }
            Output::Note(_) => {}
            Output::Arm { timer, due } => {
                let wait_ns = match due {
                    Due::After(ns) => ns,
                    Due::Within(range) => *range.end(),
                };
                let due_ns = self.now_ns + wait_ns;
                if self.nodes[me].timers.insert(timer, due_ns).is_none() {
                    self.say(format!("{name} arms {timer:?}"));
                }
            }
            Output::Disarm(timer) => {
                self.nodes[me].timers.remove(&timer);
                self.say(format!("{name} disarms {timer:?}"));
            }
            Output::Gather(entry) => {
                self.say(format!("{name} gathers {:?}", entry.id));
                self.nodes[me].gathers.push(entry);
            }
            Output::Forget(entry) => {
                self.say(format!("{name} forgets {entry:?}"));
                let gathers = &mut self.nodes[me].gathers;
                gathers.retain(|wanted| wanted.id != entry);
            }
            Output::CatchUp { from, .. } => {
                let next = Slot(self.nodes[me].log.len() as u64);
                self.put(me, usize::from(from.0) - 1, Body::Fetch(next));
            }
            Output::Inform { peer, from } => self.give_log(me, usize::from(peer.0) - 1, from),
            Output::Deliver { slot, entry } => self.append(me, slot, entry),
            Output::Execute { slot, entry } => self.execute(me, slot, &entry),
            Output::Tell { gateway, entry, .. } => {
                panic!("{entry:?} is to be told to {gateway}, and there are no remote gateways")
            }
            Output::Retract { from } => {
                self.say(format!("{name} takes back what is behind {from:?}"))
            }
            Output::Reply { id, outcome } => {
                self.waiting.remove(&id.seq);
                let what = match outcome {
                    Outcome::ReadAt(slot) => format!("read it at {slot:?}"),
                    Outcome::Applied(slot, _) => format!("applied in {slot:?}"),
                    Outcome::Refused(why) => format!("refused, {why:?}"),
                    Outcome::Decided => "decided".to_owned(),
                };
                self.say(format!("{name} answers command {}: {what}", id.seq));
                if let Outcome::ReadAt(slot) = outcome
                    && self.reads.get(&id.seq).is_some_and(|seen| slot < *seen)
                {
                    self.violate(format!("a stale read at {name}"));
                }
            }
            Output::Emit(event) => self.note(name, event),
        }
    }

    /// Everything executes at once, and comes to nothing.
    fn execute(&mut self, me: usize, slot: Slot, entry: &Entry) {
        self.say(format!("{} executes {:?} as {slot:?}", me + 1, entry.id));
        let input = Input::Applied {
            slot,
            entry: entry.id,
            results: vec![bytes::Bytes::new(); entry.count()],
        };
        self.step(me, input);
    }

    fn note(&mut self, name: usize, event: Event) {
        match event {
            Event::Decided {
                slot, fast, noop, ..
            } => {
                let what = if noop { "NULL" } else { "a request" };
                let how = if fast { ", fast" } else { "" };
                self.say(format!("{name} decides {slot:?}: {what}{how}"));
            }
            Event::Branch(branch) => self.say(format!("{name}: {branch}")),
            Event::Misbehaved { peer, what } => {
                self.violate(format!(
                    "{name} finds that {} broke the protocol: {what}",
                    peer.0
                ));
            }
        }
    }

    fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(crate) fn violate(&mut self, what: String) {
        self.say(format!("VIOLATION: {what}"));
        self.violations.push(what);
    }

    fn append(&mut self, me: usize, slot: Slot, entry: Option<Entry>) {
        let name = name_of(entry.as_ref());
        self.say(format!("{} delivers {slot:?}: {name}", me + 1));
        let node = &mut self.nodes[me];
        assert_eq!(slot.0, node.log.len() as u64, "deliveries have no gaps");
        let held = node.log.iter().flatten();
        let again = entry
            .as_ref()
            .is_some_and(|e| held.clone().any(|other| other.id == e.id));
        node.base.advance(slot, entry.as_ref());
        node.log.push(entry.clone());
        let commands = entry.iter().flat_map(Entry::commands).flatten();
        commands.for_each(|command| {
            self.waiting.remove(&command.id.seq);
        });
        let first = self
            .chosen
            .entry(slot)
            .or_insert_with(|| entry.clone())
            .clone();
        if first != entry {
            let other = name_of(first.as_ref());
            self.violate(format!(
                "{slot:?} is {name} at {}, and {other} elsewhere",
                me + 1
            ));
        } else if again {
            self.violate(format!("{name} takes effect twice at {}", me + 1));
        }
    }

    /// Says so if something was taken that nothing moves any more.
    pub(crate) fn blame_silence(&mut self) {
        if let Some((command, me)) = self.waiting.pop_first() {
            self.violate(format!("command {command} waits at {} for ever", me + 1));
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
        let nodes = self.nodes.iter().enumerate();
        let timers =
            nodes.flat_map(|(me, node)| node.timers.iter().map(move |(t, due)| (*due, me, *t)));
        let (due_ns, me, timer) = timers.min_by_key(|(due_ns, me, _)| (*due_ns, *me))?;
        self.now_ns = self.now_ns.max(due_ns);
        self.fire(me, timer);
        Some(self.now_ns)
    }

    pub(crate) fn fire(&mut self, me: usize, timer: Timer<P>) {
        self.nodes[me].timers.remove(&timer);
        self.step(me, Input::Timer(timer));
    }

    /// What can be said of a replica.
    pub(crate) fn facts(&self, me: usize) -> Vec<String> {
        let node = &self.nodes[me];
        let Some(machine) = &node.machine else {
            return vec!["down".into()];
        };
        let role = if machine.is_serving() {
            "serving"
        } else {
            "recovering"
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
