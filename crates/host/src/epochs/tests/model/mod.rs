//! A cluster that changes its configuration, with the real rules above an abstract agreement.
//!
//! Below the rules, each slot of an epoch is decided by atomic rounds: a round reads any `n - f`
//! members, adopts the value with the highest round among their votes, or takes a new one, and writes
//! to any members. A value is chosen when `n - f` members have voted for it in one round. So values
//! can be voted for and never chosen, be chosen while nobody knows, be learned in any order, and be
//! chosen again otherwise only if votes were lost. Nodes may execute what they voted for ahead of its
//! decision, and the bytes of values may come late or never.
//!
//! Above it runs what the host will run: [`GroupState`], [`Window`], [`Succession`], and the sessions. Nodes
//! fetch each other's state, flush, crash, lose their disks and come back in a new life or not at all,
//! leave and delete everything; notes are lost, late and out of order. After every step the invariants
//! are checked; at the end faults stop, and the cluster has to go on.

mod act;
mod ahead;
mod apply;
mod budget;
mod directed;
mod drain;
mod draw;
mod mutant;
mod node;
mod reads;
mod search;
mod stage;
mod values;
mod walks;

use crate::epochs::{GroupState, Note, Order};
use bytes::Bytes;
use node::{Applied, Node};
use quorate_core::{
    Catalogue, Durability, Entry, Epoch, Incarnation, Member, Numbers, ReplicaId, Slot, Unfit,
    WireError,
};
use reads::Read;
use std::collections::{BTreeMap, BTreeSet};

pub(super) use mutant::Mutant;

/// A request by its number, or a no-op.
type Value = Option<u16>;
/// What is wrong, in words.
type Fault = String;

/// What a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Body {
    Write,
    /// A write whose bytes travel apart.
    Value,
    /// The client's session ends.
    EndSession,
    Order(Order),
}

/// What a run is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Scope {
    /// Nodes there are, members or not.
    nodes: usize,
    /// The broken rule, if any.
    mutant: Option<Mutant>,
    /// Whether clients write values whose bytes travel apart.
    has_values: bool,
    /// Whether nodes execute ahead of decisions.
    is_ahead: bool,
}

impl Scope {
    /// Commands execute when they are decided, with all their bytes.
    const fn of(nodes: usize, mutant: Option<Mutant>) -> Scope {
        Scope {
            nodes,
            mutant,
            has_values: false,
            is_ahead: false,
        }
    }
}

/// The whole cluster, and what nobody in it knows.
#[derive(Clone, Debug)]
struct World {
    scope: Scope,
    nodes: Vec<Node>,
    requests: Vec<Body>,
    /// By epoch, slot and round: who voted for what.
    voters: BTreeMap<(u64, Slot, u32), (Value, BTreeSet<Member>)>,
    chosen: BTreeMap<(u64, Slot), Value>,
    /// Notes under way, from and to whom.
    notes: Vec<(Member, Member, Note)>,
    /// What was applied at each slot, in which epoch, and the state it led to.
    canon: Vec<(u64, Value, u64)>,
    truth: Applied,
    /// By epoch, the members that have ever had the state before it durably.
    held: BTreeMap<u64, BTreeSet<Member>>,
    /// Lives that lost their disk.
    lost: BTreeSet<Member>,
    /// Requests answered, and the slot they were answered for.
    answered: BTreeMap<u16, Slot>,
    /// Every slot before this one was seen by somebody outside.
    seen: Slot,
    read: Option<Read>,
    counts: Counts,
}

/// How often something happened.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    slots: u64,
    seals: u64,
    voids: u64,
    answers: u64,
    /// Answers to what was executed and not decided.
    early: u64,
    /// Bytes that came after the decision.
    gathered: u64,
    reads: u64,
    losses: u64,
    left: u64,
    refused: u64,
}

/// A protocol with the parameter `f`; it needs `2 f + 1` members. Groups may go on with another one, `later`,
/// from feature level 2 on.
#[derive(Debug)]
pub(super) struct Sample;

impl Catalogue for Sample {
    fn numbers(&self, _level: u32, epoch: &Epoch) -> Result<Numbers, Unfit> {
        if !["sample", "later"].contains(&epoch.protocol.as_str()) {
            return Err(Unfit::Protocol);
        }
        let number = |name: &str, default: usize| {
            let text = epoch.params.get(name);
            text.map_or(default, |text| text.parse().expect("a number"))
        };
        let (failures, code) = (number("f", 0), number("k", 1));
        if epoch.n() < 2 * failures + code {
            return Err(Unfit::Parameters(format!(
                "f = {failures}, k = {code}: {} members are too few",
                epoch.n()
            )));
        }
        Ok(Numbers {
            n: epoch.n(),
            failures,
            code,
        })
    }

    fn level_of(&self, protocol: &str) -> u32 {
        if protocol == "later" { 2 } else { 1 }
    }

    fn entry_of(&self, _: &str, _: Bytes) -> Result<Option<Entry>, WireError> {
        Err(WireError::Range("records"))
    }
}

/// The numbers of an epoch that was accepted.
fn numbers(epoch: &Epoch) -> Numbers {
    Sample.numbers(1, epoch).expect("it was accepted")
}

pub(super) fn member(id: u16, life: u128) -> Member {
    Member {
        id: ReplicaId(id),
        incarnation: Incarnation(life),
    }
}

/// An epoch 1 of these members in their first life.
pub(super) fn first_epoch(members: usize, failures: usize) -> Epoch {
    Epoch {
        number: 1,
        first_slot: Slot(0),
        members: (1..=members as u16).map(|id| member(id, 1)).collect(),
        protocol: "sample".into(),
        durability: Durability::Disk,
        seed: 7,
        params: [("f".to_owned(), failures.to_string())].into(),
    }
}

impl World {
    fn new(scope: Scope, members: usize, failures: usize) -> World {
        let mut state = GroupState::new(first_epoch(members, failures), 1);
        for id in 1..=scope.nodes as u16 {
            state.addresses.insert(ReplicaId(id), format!("node-{id}"));
        }
        let truth = Applied::new(state);
        let mut world = World {
            nodes: (1..=scope.nodes as u16)
                .map(|id| Node::new(member(id, 1), truth.clone()))
                .collect(),
            scope,
            requests: Vec::new(),
            voters: BTreeMap::new(),
            chosen: BTreeMap::new(),
            notes: Vec::new(),
            canon: Vec::new(),
            truth,
            held: BTreeMap::new(),
            lost: BTreeSet::new(),
            answered: BTreeMap::new(),
            seen: Slot(0),
            read: None,
            counts: Counts::default(),
        };
        for place in 0..world.nodes.len() {
            world.boot(place).expect("a first start");
            world.flush(place).expect("a first flush");
        }
        world
    }

    fn has(&self, mutant: Mutant) -> bool {
        self.scope.mutant == Some(mutant)
    }

    fn place(&self, member: Member) -> Option<usize> {
        self.nodes.iter().position(|node| node.me == member)
    }

    /// An epoch by its number, if it was ever begun.
    fn epoch(&self, number: u64) -> Option<&Epoch> {
        self.truth.state.chain.get(number)
    }

    /// The nodes that vote in an epoch.
    fn voting(&self, epoch: u64) -> Vec<usize> {
        let votes = |place: &usize| self.nodes[*place].running() == Some(epoch);
        (0..self.nodes.len()).filter(votes).collect()
    }
}
