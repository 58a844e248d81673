//! The states of single replicas, and what every step leads to, each worked out once.
//!
//! A cluster's states are combinations of few states of its replicas, so that a machine is run once
//! per state of a replica and input, however many states of the cluster they occur in. What a
//! replica has sent is part of its state; the messages under way are those all have sent.

use crate::host_model::{Act, Fault, HostModel, Told};
use crate::interner::{Code, Interner};
use crate::kinds::is_kind;
use crate::node::{Node, Print};
use crate::panics::Guard;
use crate::scope::Disks;
use quorate_core::{Class, Plain, Slot};
use std::collections::BTreeMap;

/// No state: the step leads beyond the search.
pub(crate) const CUT: u32 = u32::MAX;

/// All states of single replicas.
pub(crate) struct StateCache<'a, M: Plain> {
    pub(crate) model: HostModel<'a, M>,
    pub(crate) interner: Interner<M>,
    pub(crate) guard: Guard,
    nodes: Vec<Node<M>>,
    facts: Vec<Facts>,
    prints: BTreeMap<Print, u32>,
    /// Decided logs that replicas may be given.
    pub(crate) logs: Vec<Vec<Code>>,
    /// Messages for one receiver and decisions known to all, by number.
    faces: BTreeMap<(Vec<u32>, Vec<Code>), u32>,
}

/// What the search looks at in every state it visits.
struct Facts {
    /// By receiver: all that it can see of this replica, by number.
    faces: Vec<u32>,
    /// All that anybody can see of this replica, and all that survives a crash of it.
    visible: Print,
    /// Whether the replica is in the middle of a step: what it wrote is neither durable nor lost.
    is_midway: bool,
    /// By receiver: messages that have left for it.
    sent: Vec<Vec<u32>>,
    /// Where each step leads that was tried.
    steps: BTreeMap<Act, u32>,
}

impl<'a, M: Plain> StateCache<'a, M> {
    pub(crate) fn new(model: HostModel<'a, M>, guard: Guard) -> Self {
        StateCache {
            interner: Interner::new(),
            model,
            guard,
            nodes: Vec::new(),
            facts: Vec::new(),
            prints: BTreeMap::new(),
            logs: Vec::new(),
            faces: BTreeMap::new(),
        }
    }

    /// States of single replicas so far.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, state: u32) -> &Node<M> {
        &self.nodes[state as usize]
    }

    /// What a replica in one state has sent to another.
    pub(crate) fn sent(&self, state: u32, to: usize) -> &[u32] {
        &self.facts[state as usize].sent[to]
    }

    /// A replica that starts for the first time.
    pub(crate) fn first(&mut self, me: usize) -> Result<u32, Fault> {
        let (model, interner) = (&self.model, &mut self.interner);
        let node = self
            .guard
            .run(|| model.first(me, interner, &mut Told(None)))?;
        Ok(self.number(node))
    }

    /// What a replica does that starts for the first time, in words.
    pub(crate) fn tell_first(&mut self, me: usize) -> Vec<String> {
        let (model, interner) = (&self.model, &mut self.interner);
        let mut told = Told(Some(Vec::new()));
        // A fault shows in what was told before it.
        let _ = self.guard.run(|| model.first(me, interner, &mut told));
        told.0.unwrap_or_default()
    }

    /// Where a step leads.
    pub(crate) fn take(&mut self, state: u32, act: Act) -> Result<u32, Fault> {
        if let Some(next) = self.facts[state as usize].steps.get(&act) {
            return Ok(*next);
        }
        let next = self.work_out(state, act);
        // What failed once is not tried again while the way to it is told.
        let known = *next.as_ref().unwrap_or(&CUT);
        self.facts[state as usize].steps.insert(act, known);
        next
    }

    /// The number of a decided log.
    pub(crate) fn log(&mut self, codes: &[Code]) -> u32 {
        let known = self.logs.iter().position(|log| log == codes);
        let number = known.unwrap_or_else(|| {
            self.logs.push(codes.to_vec());
            self.logs.len() - 1
        });
        number as u32
    }

    /// The first slot behind everything that a replica in this state was seen to decide.
    pub(crate) fn effects(&self, state: u32) -> Slot {
        let chosen = &self.node(state).chosen;
        let last = chosen
            .iter()
            .rposition(|code| self.interner.value(*code).is_some());
        Slot(last.map_or(0, |slot| slot as u64 + 1))
    }

    /// What a replica may do by itself.
    pub(crate) fn own_acts(&self, state: u32) -> Vec<Act> {
        let (scope, node) = (self.model.scope, self.node(state));
        let mut acts = Vec::new();
        let writes = node.disk.writes.len() as u8;
        if self.is_midway(state) {
            acts.push(Act::Flush { writes });
        } else if node.machine.is_some() {
            acts.extend((1..=writes).map(|writes| Act::Flush { writes }));
            acts.extend((0..node.gathers.len() as u8).map(|place| Act::Gather { place }));
            for clock in 0..scope.clocks.len() as u8 {
                acts.extend(self.timers(state).map(|timer| Act::Fire { timer, clock }));
                let open = self.open_requests(state, Class::Write);
                acts.extend(open.map(|request| Act::Submit {
                    request,
                    clock,
                    floor: 0,
                }));
            }
        }
        if scope.disks != Disks::None && node.crashes < scope.crashes {
            let lines = node.disk.durable as u8..=node.disk.lines.len() as u8;
            acts.extend(lines.map(|lines| Act::Crash { lines }));
        }
        if node.losses < scope.losses {
            acts.push(Act::Lose);
        }
        acts
    }

    /// Timers that may fire, by their place among those that run.
    fn timers(&self, state: u32) -> impl Iterator<Item = u8> {
        let (scope, node) = (self.model.scope, self.node(state));
        let timers = node.timers.iter().enumerate();
        let timers = timers.filter(move |(_, timer)| {
            node.fired < scope.fires && scope.timers.iter().any(|kind| is_kind(timer, kind))
        });
        timers.map(|(place, _)| place as u8)
    }

    /// Whether a replica is in the middle of a step.
    pub(crate) fn is_midway(&self, state: u32) -> bool {
        self.facts[state as usize].is_midway
    }

    /// All that another replica can see of this one, by number.
    pub(crate) fn face(&self, state: u32, to: usize) -> u32 {
        self.facts[state as usize].faces[to]
    }

    /// Whether nobody can tell two states of a replica apart, even after a crash of it.
    pub(crate) fn look_alike(&self, one: u32, other: u32) -> bool {
        self.facts[one as usize].visible == self.facts[other as usize].visible
    }

    /// Requests of a class that this replica may still be asked for.
    pub(crate) fn open_requests(&self, state: u32, class: Class) -> impl Iterator<Item = u8> {
        let (scope, node) = (self.model.scope, self.node(state));
        let (me, submitted) = (node.me, node.submitted);
        let requests = scope.requests.iter().enumerate();
        requests.filter_map(move |(index, request)| {
            let is_open = request.at == me && request.class == class && submitted & 1 << index == 0;
            is_open.then_some(index as u8)
        })
    }

    fn work_out(&mut self, state: u32, act: Act) -> Result<u32, Fault> {
        let (model, logs, interner) = (&self.model, &self.logs, &mut self.interner);
        let node = &self.nodes[state as usize];
        let next = self
            .guard
            .run(|| model.apply(node, act, logs, interner, &mut Told(None)))?;
        Ok(next.map_or(CUT, |next| self.number(next)))
    }

    /// What a step does, in words.
    pub(crate) fn tell(&mut self, state: u32, act: Act) -> Vec<String> {
        let (model, logs, interner) = (&self.model, &self.logs, &mut self.interner);
        let node = &self.nodes[state as usize];
        let mut told = Told(Some(Vec::new()));
        // A fault shows in what was told before it.
        let _ = self
            .guard
            .run(|| model.apply(node, act, logs, interner, &mut told));
        told.0.unwrap_or_default()
    }

    /// The number of a state.
    pub(crate) fn number(&mut self, node: Node<M>) -> u32 {
        let print = node.print();
        if let Some(number) = self.prints.get(&print) {
            return *number;
        }
        let number = self.nodes.len() as u32;
        assert!(number < CUT, "fewer than 2^32 states of a replica");
        let mut sent = vec![Vec::new(); self.model.scope.n];
        for mail in &node.sent {
            sent[self.interner.mail(*mail).to].push(*mail);
        }
        let scope = self.model.scope;
        let faces = sent.iter().map(|sent| {
            let next = self.faces.len() as u32;
            *self
                .faces
                .entry((sent.clone(), node.chosen.clone()))
                .or_insert(next)
        });
        self.facts.push(Facts {
            faces: faces.collect(),
            visible: node.visible(),
            is_midway: scope.disks == Disks::Fast && !node.disk.writes.is_empty(),
            sent,
            steps: BTreeMap::new(),
        });
        self.nodes.push(node);
        self.prints.insert(print, number);
        number
    }
}
