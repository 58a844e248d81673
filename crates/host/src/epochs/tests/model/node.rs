//! One node: what it has in memory, and what is left of it after a crash.

use super::{Mutant, Value};
use crate::epochs::{GroupState, Record, Succession, Window};
use crate::sessions::Sessions;
use quorate_core::{ClientId, Member, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// The one client there is; its requests have numbers from 1.
pub(super) const CLIENT: ClientId = ClientId(1);

/// An applied state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Applied {
    pub(super) next: Slot,
    pub(super) state: GroupState,
    pub(super) sessions: Sessions,
    /// The requests that were executed, in order.
    pub(super) log: Vec<u16>,
    /// Whether a value was among them.
    pub(super) has_values: bool,
}

impl Applied {
    pub(super) fn new(state: GroupState) -> Applied {
        let mut sessions = Sessions::new(4);
        sessions.open(CLIENT, 0, Slot(0));
        Applied {
            next: Slot(0),
            state,
            sessions,
            log: Vec::new(),
            has_values: false,
        }
    }
}

/// Where a node is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    Up,
    /// Its disk is there.
    Down,
    /// Its disk is not.
    Gone,
    /// It has deleted its data.
    Left,
}

/// A replica.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) me: Member,
    pub(super) life: Life,
    pub(super) live: Applied,
    pub(super) window: Window<Value>,
    pub(super) succession: Option<Succession>,
    /// Records that are written and not durable.
    pub(super) writing: Vec<Record>,
    pub(super) is_armed: bool,
    /// Requests that clients sent here and that have no answer.
    pub(super) own: BTreeSet<u16>,
    /// What it has executed ahead, in the slots from the first one not applied on.
    pub(super) ahead: Vec<u16>,
    pub(super) disk: Applied,
    pub(super) records: Vec<Record>,
    /// By epoch and slot, the last vote: durable at once.
    pub(super) votes: BTreeMap<(u64, Slot), (u32, Value)>,
    /// The values whose bytes it has: durable before it votes.
    pub(super) bytes: BTreeSet<u16>,
}

impl Node {
    pub(super) fn new(me: Member, applied: Applied) -> Node {
        Node {
            me,
            life: Life::Up,
            live: applied.clone(),
            window: Window::new(1, Slot(0)),
            succession: None,
            writing: Vec::new(),
            is_armed: false,
            own: BTreeSet::new(),
            ahead: Vec::new(),
            disk: applied,
            records: Vec::new(),
            votes: BTreeMap::new(),
            bytes: BTreeSet::new(),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.life == Life::Up
    }

    /// The epoch whose machine runs.
    pub(super) fn running(&self) -> Option<u64> {
        let succession = self.succession.as_ref().filter(|_| self.is_up());
        succession.and_then(Succession::running)
    }

    /// The newest epoch of its state.
    pub(super) fn current(&self) -> u64 {
        self.live.state.chain.newest().number
    }

    /// Forgets what a crash takes.
    pub(super) fn forget(&mut self, life: Life) {
        self.life = life;
        self.live = self.disk.clone();
        self.window = Window::new(self.current(), self.live.next);
        self.succession = None;
        self.writing.clear();
        self.is_armed = false;
        self.own.clear();
        self.ahead.clear();
    }

    /// How its rules are broken.
    pub(super) fn sabotage(succession: Succession, mutant: Option<Mutant>) -> Succession {
        match mutant.and_then(Mutant::rules) {
            Some(rules) => succession.sabotaged(rules),
            None => succession,
        }
    }
}
