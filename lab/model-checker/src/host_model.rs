//! What a replica's host does, as far as the search needs it.
//!
//! It is a model of `quorate-host`, not the host itself, which carries an application, sessions and
//! a log format that would multiply states and add nothing to what protocols decide. What is
//! assumed of the host, and tested there and in the simulator:
//!
//! - The log is one sequence of records and decisions. A crash keeps all that was flushed and any
//!   prefix of the rest. A flush covers whole steps. A restart hands the machine the records that
//!   still matter ([`Disk::recover`]).
//! - A message leaves when every record before it is durable.
//! - What was decided by a peer can be had from it at any time, as far as it ever got: the host
//!   fetches when it stays behind, and machines only hint at when.
//! - Payloads have no bytes here: what goes along with a message or a record is known by its code and
//!   its index. What a machine wants gathered may be there at any time from then on, or never,
//!   whatever the others still hold.
//! - A message that has left may arrive at any time from then on, any number of times, or never.
//!   So loss, delay, reordering, duplication and a broadcast that ends in the middle need no steps
//!   of their own; neither does being down, which is to take no step for a while.

use crate::interner::{Code, Interner, NOOP};
use crate::node::{Disk, Line, Node};
use crate::scope::{Scope, replica, seat};
use bytes::Bytes;
use quorate_core::{
    Base, Class, ClientId, Command, Entry, Input, Lsn, Now, Out, Past, Payload, Plain, Principal,
    RequestId, Seat, Slot, hollow_share,
};

/// Something a replica does or has done to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Act {
    /// It hears a message, while the clock shows the reading of this number.
    Hear { mail: u32, clock: u8 },
    /// The timer at this place of those that run comes due.
    Fire { timer: u8, clock: u8 },
    /// This many writes under way become durable.
    Flush { writes: u8 },
    /// It crashes and comes back with this many lines of its log.
    Crash { lines: u8 },
    /// It crashes and comes back with nothing.
    Lose,
    /// A client asks; a read must see every slot before `floor`.
    Submit { request: u8, clock: u8, floor: u8 },
    /// The payloads of the entry at this place of those that it wants gathered are there.
    Gather { place: u8 },
    /// It gets the decided log of a peer, as far as the log of this number goes.
    CatchUp { log: u32 },
}

/// What must never happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// The property that does not hold.
    pub(crate) property: &'static str,
    pub(crate) what: String,
}

impl Fault {
    pub(crate) fn new(property: &'static str, what: String) -> Self {
        Fault { property, what }
    }
}

/// What a step did, told in words if anybody listens.
pub(crate) struct Told(pub(crate) Option<Vec<String>>);

impl Told {
    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push(line());
        }
    }
}

/// Everything that is fixed during a search.
pub(crate) struct HostModel<'a, M: Plain> {
    pub(crate) scope: &'a Scope,
    pub(crate) seed: u64,
    /// Makes the configuration of a seat.
    pub(crate) configure: &'a dyn Fn(&Seat) -> M::Config,
}

impl<M: Plain> HostModel<'_, M> {
    /// A replica as it starts for the first time.
    pub(crate) fn first(
        &self,
        me: usize,
        interner: &mut Interner<M>,
        told: &mut Told,
    ) -> Result<Node<M>, Fault> {
        let node = Node::new(me);
        self.start(node, Past::Fresh, interner, told)
    }

    /// What comes of a step; `None` if it leads beyond the search.
    pub(crate) fn apply(
        &self,
        node: &Node<M>,
        act: Act,
        logs: &[Vec<Code>],
        interner: &mut Interner<M>,
        told: &mut Told,
    ) -> Result<Option<Node<M>>, Fault> {
        let mut node = node.clone();
        let next = match act {
            Act::Hear { mail, clock } => {
                let mail = interner.mail(mail);
                let (from, message) = (replica(mail.from), mail.message.clone());
                self.step(
                    node,
                    Input::Message { from, message },
                    clock,
                    interner,
                    told,
                )
            }
            Act::Fire { timer, clock } => {
                let mut timers = node.timers.iter().copied();
                let timer = timers.nth(usize::from(timer)).expect("it runs");
                node.timers.remove(&timer);
                node.fired += 1;
                self.step(node, Input::Timer(timer), clock, interner, told)
            }
            Act::Flush { writes } => self.flush(node, writes, interner, told),
            Act::Crash { lines } => self.crash(node, usize::from(lines), interner, told),
            Act::Lose => self.lose(node, interner, told),
            Act::Submit {
                request,
                clock,
                floor,
            } => {
                node.submitted |= 1 << request;
                let command = self.command(request);
                if command.class == Class::Read {
                    node.reads.push((command.id.seq, Slot(u64::from(floor))));
                }
                self.step(node, Input::Submit(vec![command]), clock, interner, told)
            }
            Act::Gather { place } => {
                let entry = node.gathers.remove(usize::from(place));
                let share = Some(hollow_share(&entry, 1, 0));
                let held = Input::Held(entry.with_share(share));
                self.step(node, held, 0, interner, told)
            }
            Act::CatchUp { log } => {
                let codes = logs[log as usize].clone();
                self.catch_up(node, &codes, interner, told)
            }
        }?;
        let is_within = |machine: &M| machine.depth() <= self.scope.depth;
        Ok(Some(next).filter(|node| node.machine.as_ref().is_none_or(is_within)))
    }

    /// The command of a request.
    fn command(&self, request: u8) -> Command {
        let asked = self.scope.requests[usize::from(request)];
        let value = Payload::of(Bytes::from_static(b"a long value"));
        Command {
            id: RequestId {
                client: ClientId(1),
                seq: u64::from(request) + 1,
            },
            acked: 0,
            class: asked.class,
            principal: Principal(0),
            body: Bytes::from_static(b"x"),
            payloads: asked.is_long.then_some(value).into_iter().collect(),
        }
    }

    pub(crate) fn now(&self, clock: u8) -> Now {
        Now {
            mono_ns: 0,
            clock_ns: self.scope.clocks[usize::from(clock)],
            clock_error_ns: u64::MAX,
        }
    }

    fn config(&self, me: usize, life: u8) -> M::Config {
        let scope = self.scope;
        let world = (self.seed, scope.disks);
        let seat = seat((scope.protocol, scope.n), scope.params, (me, life), world);
        (self.configure)(&seat)
    }

    /// Starts the machine from its past.
    pub(crate) fn start(
        &self,
        mut node: Node<M>,
        past: Past<M>,
        interner: &mut Interner<M>,
        told: &mut Told,
    ) -> Result<Node<M>, Fault> {
        node.out = Out::default();
        node.timers.clear();
        node.gated.clear();
        node.gathers.clear();
        node.reads.clear();
        node.disk.flushed = Lsn(0);
        node.disk.writes.clear();
        let config = self.config(node.me, node.crashes + node.losses);
        let machine = M::recover(&config, past, self.now(0), &mut node.out);
        machine.check();
        node.machine = Some(machine);
        self.perform(node, interner, told)
    }

    pub(crate) fn step(
        &self,
        mut node: Node<M>,
        input: Input<M>,
        clock: u8,
        interner: &mut Interner<M>,
        told: &mut Told,
    ) -> Result<Node<M>, Fault> {
        let now = self.now(clock);
        if let Some(machine) = &mut node.machine {
            machine.step(now, input, &mut node.out);
            machine.check();
        }
        self.perform(node, interner, told)
    }

    pub(crate) fn flush(
        &self,
        mut node: Node<M>,
        writes: u8,
        interner: &mut Interner<M>,
        told: &mut Told,
    ) -> Result<Node<M>, Fault> {
        let mut done = node.disk.writes.drain(..usize::from(writes));
        let (end, lsn) = done.next_back().expect("a flush ends a write");
        drop(done);
        (node.disk.durable, node.disk.flushed) = (end, lsn);
        let node = self.release(node, interner, told);
        self.step(node, Input::Durable(lsn), 0, interner, told)
    }

    fn crash(
        &self,
        mut node: Node<M>,
        lines: usize,
        interner: &mut Interner<M>,
        told: &mut Told,
    ) -> Result<Node<M>, Fault> {
        node.crashes += 1;
        let (log, base, records) = node.disk.recover(lines);
        node.disk.lines.truncate(lines);
        node.disk.durable = lines;
        node.decided = log
            .iter()
            .map(|value| interner.code(value.as_ref()))
            .collect();
        if node.decided.len() >= self.scope.slots {
            node.disk.writes.clear();
            return Ok(node);
        }
        let next = Slot(log.len() as u64);
        let past = Past::Intact {
            next,
            base,
            records,
        };
        self.start(node, past, interner, told)
    }

    fn lose(
        &self,
        mut node: Node<M>,
        interner: &mut Interner<M>,
        told: &mut Told,
    ) -> Result<Node<M>, Fault> {
        node.losses += 1;
        node.disk = Disk::new();
        node.decided.clear();
        let (next, base) = (Slot(0), M::Base::default());
        let past = Past::Lost { next, base };
        self.start(node, past, interner, told)
    }

    fn catch_up(
        &self,
        mut node: Node<M>,
        codes: &[Code],
        interner: &mut Interner<M>,
        told: &mut Told,
    ) -> Result<Node<M>, Fault> {
        let mut base = M::Base::default();
        for (slot, code) in codes.iter().enumerate() {
            let value = interner.value(*code).cloned();
            base.advance(Slot(slot as u64), value.as_ref());
            if slot >= node.decided.len() {
                self.decide(&mut node, value, interner)?;
            }
        }
        let next = Slot(codes.len() as u64);
        self.step(node, Input::Installed { next, base }, 0, interner, told)
    }

    /// The next slot is decided: noted in the log, and judged.
    pub(crate) fn decide(
        &self,
        node: &mut Node<M>,
        value: Option<Entry>,
        interner: &mut Interner<M>,
    ) -> Result<(), Fault> {
        let slot = node.decided.len();
        let code = interner.code(value.as_ref());
        if code != NOOP && node.decided.contains(&code) {
            let what = format!(
                "{} is decided twice by replica {}",
                interner.name(code),
                node.me + 1
            );
            return Err(Fault::new("at most once", what));
        }
        if let Some(entry) = &value {
            self.judge_entry(entry)?;
        }
        if let Some(before) = node.chosen.get(slot).filter(|before| **before != code) {
            let what = format!(
                "slot {slot}: replica {} decided {} before a crash and {} after it",
                node.me + 1,
                interner.name(*before),
                interner.name(code)
            );
            return Err(Fault::new("agreement", what));
        }
        node.decided.push(code);
        if node.chosen.len() < node.decided.len() {
            node.chosen.push(code);
        }
        node.disk.lines.push(Line::Decided(value));
        Ok(())
    }

    /// Only what a client asked for is decided, and each request once in an entry.
    fn judge_entry(&self, entry: &Entry) -> Result<(), Fault> {
        let mut seen = 0u64;
        for command in entry.commands() {
            let command = command.map_err(|e| Fault::new("validity", format!("{entry:?}: {e}")))?;
            let request = command.id.seq.wrapping_sub(1);
            let is_asked = request < self.scope.requests.len() as u64
                && command == self.command(request as u8)
                && command.class == Class::Write;
            if !is_asked || seen & 1 << request != 0 {
                let what = format!("{entry:?} holds {command:?}, which nobody asked for");
                return Err(Fault::new("validity", what));
            }
            seen |= 1 << request;
        }
        Ok(())
    }
}
