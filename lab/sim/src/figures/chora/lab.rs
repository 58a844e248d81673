//! Bare machines in virtual time: what a message costs to process is given, and all else takes none. A
//! replica processes one message after the other; a timer that is due comes first.
//!
//! Whole hosts take turns, and everything that came since the last one is processed at once: rounds of a few
//! microseconds need a finer grain. What is decided must agree here, too.

use super::cost::Cost;
use super::node::{Node, Task};
use super::trouble::{self, Trouble};
use crate::network::exponential;
use crate::queue::Queue;
use fastrand::Rng;
use quorate_core::{Entry, Input, Introspect, Output, Peers, ReplicaId, Slot};
use quorate_protocols::chora::{Message, Replica};

/// A replica under full load always has so many commands waiting.
const WAITING: u64 = 32;

/// How long messages are on their way: at least so long, and up to `range_ns` more, evenly. They may overtake
/// each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wiring {
    pub(super) least_ns: u64,
    pub(super) range_ns: u64,
}

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) replicas: usize,
    pub(super) params: Vec<(String, String)>,
    pub(super) wiring: Wiring,
    pub(super) cost: Cost,
    /// The mean time between two commands at a replica, ns; `None` for full load.
    pub(super) every_ns: Option<u64>,
    /// When measuring begins and ends, ns.
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    /// What goes wrong.
    pub(super) troubles: Vec<Trouble>,
    /// How often replicas are looked at, ns; `None` for never.
    pub(super) look_ns: Option<u64>,
    pub(super) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Commands committed at the first replica, by when.
    pub(super) committed_ns: Vec<u64>,
    /// From a command's arrival at a replica to when it is committed there, ascending.
    pub(super) latencies_ns: Vec<u64>,
    /// Messages said to everybody.
    pub(super) multicasts: u64,
    /// Rounds of the first replica, and those that ended early.
    pub(super) rounds: f64,
    pub(super) early: f64,
    /// Messages that found a full ring.
    pub(super) dropped: u64,
    /// How long messages were on their way, ascending.
    pub(super) delays_ns: Vec<u64>,
    /// What was seen of the replicas, where they are looked at; and of every command, when it was committed
    /// where it came from, and how long that took.
    pub(super) looks: Vec<Look>,
    pub(super) answers_ns: Vec<(u64, u64)>,
}

/// What replicas say of themselves at a time.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) at_ns: u64,
    /// By replica, whether it pulses.
    pub(super) pulsing: Vec<bool>,
    /// The highest view.
    pub(super) view: u64,
}

enum Event {
    Arrives {
        from: usize,
        to: usize,
        message: Message,
    },
    Turn {
        node: usize,
        at_ns: u64,
    },
    Asked {
        node: usize,
    },
    /// One of the run's, by its place there.
    Trouble(usize),
    Look,
}

/// The replicas, and what is on its way.
pub(super) struct Lab<'a> {
    run: &'a Run,
    queue: Queue<Event>,
    rng: Rng,
    nodes: Vec<Node>,
    /// By slot, what somebody delivered.
    decided: Vec<Option<Entry>>,
    seen: Seen,
}

impl<'a> Lab<'a> {
    /// Runs it.
    ///
    /// # Errors
    /// Says which parameter is wrong, or what two replicas disagree about.
    pub(super) fn run(run: &'a Run) -> Result<Seen, String> {
        let nodes = (0..run.replicas).map(|index| Node::new(run.replicas, index, &run.params));
        let mut lab = Lab {
            run,
            queue: Queue::new(),
            rng: Rng::with_seed(run.seed),
            nodes: nodes.collect::<Result<_, _>>()?,
            decided: Vec::new(),
            seen: Seen::default(),
        };
        lab.begin();
        let mut rounds = None;
        while let Some(event) = lab.queue.next() {
            let now_ns = lab.queue.now_ns();
            if now_ns >= run.from_ns {
                rounds.get_or_insert_with(|| lab.rounds());
            }
            if now_ns >= run.until_ns {
                break;
            }
            lab.happen(event)?;
        }
        let (before, after) = (rounds.unwrap_or_default(), lab.rounds());
        lab.nodes.iter().for_each(|node| node.machine.check());
        let mut seen = lab.seen;
        (seen.rounds, seen.early) = (after.0 - before.0, after.1 - before.1);
        seen.latencies_ns.sort_unstable();
        seen.delays_ns.sort_unstable();
        Ok(seen)
    }

    /// Rounds of the first replica so far, and those that ended early.
    fn rounds(&self) -> (f64, f64) {
        let [rounds, early] = self.nodes[0].figures(["rounds_total", "rounds_early_total"]);
        (rounds, early)
    }

    fn begin(&mut self) {
        for node in 0..self.nodes.len() {
            self.perform(node, 0, self.run.cost.send_ns);
            self.turn_when_due(node);
            // Not all at once.
            if self.run.every_ns.is_some() {
                self.ask_later(node);
            } else {
                self.fill(node);
            }
        }
        for (at, trouble) in self.run.troubles.iter().enumerate() {
            self.queue.after(trouble.begins_ns(), Event::Trouble(at));
        }
        if self.run.look_ns.is_some() {
            self.queue.after(self.run.from_ns, Event::Look);
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrives { from, to, message } => {
                let from = ReplicaId(from as u16 + 1);
                let task = Task::of(Input::Message { from, message });
                let is_taken = self.nodes[to].take(task);
                self.seen.dropped += u64::from(!is_taken && self.is_measured());
                self.turn_when_due(to);
            }
            Event::Turn { node, at_ns } if self.nodes[node].turn_at_ns == Some(at_ns) => {
                self.turn(node)?;
            }
            Event::Turn { .. } => {}
            Event::Asked { node } => {
                self.ask(node, 1);
                self.ask_later(node);
            }
            Event::Trouble(at) => self.begin_trouble(at),
            Event::Look => self.look(),
        }
        Ok(())
    }

    fn begin_trouble(&mut self, at: usize) {
        match &self.run.troubles[at] {
            Trouble::Stop { node, .. } => self.nodes[*node].is_up = false,
            Trouble::Pause { node, time } => {
                self.nodes[*node].be_busy_until(time.end);
                self.turn_when_due(*node);
            }
            // They are asked for whenever something is sent or done.
            Trouble::Slow { .. } | Trouble::Delays { .. } => {}
        }
    }

    fn look(&mut self) {
        let seen = self
            .nodes
            .iter()
            .map(|node| node.figures(["pulsing", "view"]));
        let seen: Vec<[f64; 2]> = seen.collect();
        self.seen.looks.push(Look {
            at_ns: self.queue.now_ns(),
            pulsing: seen.iter().map(|[pulsing, _]| *pulsing > 0.0).collect(),
            view: seen.iter().map(|[_, view]| *view as u64).max().unwrap_or(0),
        });
        if let Some(look_ns) = self.run.look_ns {
            self.queue.after(look_ns, Event::Look);
        }
    }

    fn is_measured(&self) -> bool {
        self.queue.now_ns() >= self.run.from_ns
    }

    fn ask_later(&mut self, node: usize) {
        if let Some(every_ns) = self.run.every_ns {
            let delay_ns = exponential(&mut self.rng, every_ns);
            self.queue.after(delay_ns, Event::Asked { node });
        }
    }

    fn ask(&mut self, node: usize, commands: u64) {
        let now_ns = self.queue.now_ns();
        let task = self.nodes[node].commands(commands, now_ns);
        self.nodes[node].take(task);
        self.turn_when_due(node);
    }

    /// Full load: there is always a next command.
    fn fill(&mut self, node: usize) {
        if self.run.every_ns.is_none() && self.nodes[node].waiting() < WAITING {
            self.ask(node, WAITING);
        }
    }

    /// One message is processed, or a timer fires.
    fn turn(&mut self, index: usize) -> Result<(), String> {
        let now_ns = self.queue.now_ns();
        let node = &mut self.nodes[index];
        node.turn_at_ns = None;
        if let Some(task) = node.next_task(now_ns) {
            let cost = trouble::cost(&self.run.troubles, (index, now_ns), self.run.cost);
            let cost_ns = task.cost_ns(&cost);
            if let Input::Installed { next, .. } = &task.input {
                // What the host of a peer has given it is delivered as if it had been decided here.
                let given = self.decided.get(node.next.0 as usize..next.0 as usize);
                let given = given.unwrap_or_default().iter().cloned();
                node.delivered.extend((node.next.0..).map(Slot).zip(given));
                self.deliver(index)?;
            }
            let node = &mut self.nodes[index];
            node.step(now_ns, task.input);
            let cost_ns = self.perform(index, cost_ns, cost.send_ns);
            self.deliver(index)?;
            self.nodes[index].free_ns = now_ns + cost_ns;
        }
        self.fill(index);
        self.turn_when_due(index);
        Ok(())
    }

    fn turn_when_due(&mut self, index: usize) {
        let now_ns = self.queue.now_ns();
        let node = &mut self.nodes[index];
        let Some(at_ns) = node.due_ns().map(|due| due.max(now_ns)) else {
            return;
        };
        if node.turn_at_ns.is_none_or(|planned| planned > at_ns) {
            node.turn_at_ns = Some(at_ns);
            let event = Event::Turn { node: index, at_ns };
            self.queue.after(at_ns - now_ns, event);
        }
    }

    /// Does what a replica wants; gives what its turn has cost then.
    fn perform(&mut self, index: usize, mut cost_ns: u64, send_ns: u64) -> u64 {
        let now_ns = self.queue.now_ns();
        for output in self.nodes[index].take_outputs() {
            match output {
                Output::Send { to, message, .. } => {
                    cost_ns += send_ns;
                    self.send(index, to, message, cost_ns);
                }
                Output::Arm { timer, due } => {
                    let due_ns = now_ns + draw(&mut self.rng, due);
                    self.nodes[index].timers.insert(timer, due_ns);
                }
                Output::Disarm(timer) => drop(self.nodes[index].timers.remove(&timer)),
                Output::Deliver { slot, entry } => self.nodes[index].delivered.push((slot, entry)),
                Output::Inform { peer, .. } => self.inform(index, usize::from(peer.0) - 1),
                _ => {}
            }
        }
        cost_ns
    }

    fn send(&mut self, from: usize, to: Peers, message: Message, cost_ns: u64) {
        let is_measured = self.is_measured();
        self.seen.multicasts += u64::from(is_measured && to == Peers::All);
        for peer in 0..self.nodes.len() {
            let id = ReplicaId(peer as u16 + 1);
            let is_meant = to == Peers::All || to == Peers::One(id);
            if peer == from || !is_meant || !self.nodes[peer].is_up {
                continue;
            }
            let now_ns = self.queue.now_ns();
            let Wiring { least_ns, range_ns } =
                trouble::wiring(&self.run.troubles, now_ns, self.run.wiring);
            let delay_ns = least_ns + self.rng.u64(..=range_ns);
            if is_measured {
                self.seen.delays_ns.push(delay_ns);
            }
            let arrives = Event::Arrives {
                from,
                to: peer,
                message: message.clone(),
            };
            self.queue.after(cost_ns + delay_ns, arrives);
        }
    }

    /// A replica that is too far behind gets all at once from one that is not: the hosts' part, and
    /// no time is counted for it.
    fn inform(&mut self, from: usize, to: usize) {
        let (next, base) = self.nodes[from].decided();
        self.nodes[to].take(Task::of(Input::Installed { next, base }));
        self.turn_when_due(to);
    }

    /// What a replica delivered must be what others did.
    fn deliver(&mut self, index: usize) -> Result<(), String> {
        let (now_ns, is_measured) = (self.queue.now_ns(), self.is_measured());
        for (slot, entry) in std::mem::take(&mut self.nodes[index].delivered) {
            let at = slot.0 as usize;
            if at == self.decided.len() {
                self.decided.push(entry.clone());
            }
            let name = |entry: &Option<Entry>| entry.as_ref().map(|entry| entry.id);
            if self.decided.get(at).map(name) != Some(name(&entry)) {
                let replica = index + 1;
                return Err(format!(
                    "replica {replica} delivers another entry in {slot}"
                ));
            }
            let latencies_ns = self.nodes[index].apply(slot, entry.as_ref(), now_ns);
            let count = entry.map_or(0, |entry| entry.count());
            if is_measured {
                if self.run.look_ns.is_some() {
                    let answers = latencies_ns.iter().map(|latency| (now_ns, *latency));
                    self.seen.answers_ns.extend(answers);
                }
                self.seen.latencies_ns.extend(latencies_ns);
                let times = (0..count).filter(|_| index == 0).map(|_| now_ns);
                self.seen.committed_ns.extend(times);
            }
        }
        Ok(())
    }
}

/// When a timer is due.
fn draw(rng: &mut Rng, due: quorate_core::Due) -> u64 {
    match due {
        quorate_core::Due::After(ns) => ns,
        quorate_core::Due::Within(range) => rng.u64(range),
    }
}

/// The machine of the lab.
pub(super) type Bare = Replica;
