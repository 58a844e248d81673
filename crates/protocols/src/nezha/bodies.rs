//! Bodies without a place of their own: the late buffer, and what was fetched. They may go at any time,
//! which costs time only.

use super::Replica;
use super::messages::{Body, Message};
use quorate_core::{EntryId, MemberIndex, Out, Peers};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

/// Bodies kept, at most.
const BODIES_MAX: usize = 8192;
/// Bytes of them, about at most.
const BYTES_MAX: usize = 64 << 20;
/// Bodies in one answer, at most.
const ANSWERED_MAX: usize = 256;
/// Bytes in one answer, about at most.
const ANSWERED_BYTES_MAX: usize = 1 << 20;

/// `lb`: the late buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Bodies {
    of: BTreeMap<EntryId, Body>,
    /// In the order in which they came; some may be gone.
    order: VecDeque<EntryId>,
    bytes: usize,
    /// Bodies were asked for since the timer was armed.
    pub(super) are_asked_for: bool,
}

impl Hash for Bodies {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.of.values().for_each(|body| body.hash(to));
        self.are_asked_for.hash(to);
    }
}

impl Bodies {
    pub(super) fn insert(&mut self, body: Body) {
        let id = body.entry.id;
        self.bytes += body.entry.body_len();
        if let Some(before) = self.of.insert(id, body) {
            self.bytes -= before.entry.body_len();
            return;
        }
        self.order.push_back(id);
        while self.of.len() > BODIES_MAX || self.bytes > BYTES_MAX && self.of.len() > 1 {
            match self.order.pop_front() {
                Some(oldest) => drop(self.remove(oldest)),
                None => return,
            }
        }
        if self.order.len() > 2 * BODIES_MAX {
            self.order.retain(|id| self.of.contains_key(id));
        }
    }

    pub(super) fn get(&self, id: EntryId) -> Option<&Body> {
        self.of.get(&id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = EntryId> {
        self.of.keys().copied()
    }

    pub(super) fn remove(&mut self, id: EntryId) -> Option<Body> {
        let body = self.of.remove(&id)?;
        self.bytes -= body.entry.body_len();
        Some(body)
    }

    /// Takes the one that came first.
    pub(super) fn pop_first(&mut self) -> Option<Body> {
        while let Some(id) = self.order.pop_front() {
            if let Some(body) = self.remove(id) {
                return Some(body);
            }
        }
        None
    }

    /// Takes all, in the order in which they came.
    pub(super) fn drain(&mut self) -> Vec<Body> {
        let order = std::mem::take(&mut self.order);
        self.bytes = 0;
        let mut of = std::mem::take(&mut self.of);
        order.iter().filter_map(|id| of.remove(id)).collect()
    }
}

impl Replica {
    /// The body of an entry, wherever it is.
    pub(super) fn body_of(&self, id: EntryId) -> Option<&Body> {
        let in_log = || {
            let slot = self.log.slots.get(&id)?;
            let item = self.log.items.get((slot.0 - self.ap.0) as usize)?;
            Some(&item.body)
        };
        let unsynced = || {
            let unsynced = self.unsynced.get(id)?;
            Some(&unsynced.item.body)
        };
        let own = || self.gateway.pending.get(&id).map(|pending| &pending.body);
        let found = in_log().or_else(unsynced).or_else(|| self.bodies.get(id));
        found.or_else(|| self.early.get(id)).or_else(own)
    }

    pub(super) fn on_fetch_bodies(
        &mut self,
        from: MemberIndex,
        ids: &[EntryId],
        out: &mut Out<Self>,
    ) {
        let mut bytes = 0;
        let mut bodies = Vec::new();
        for body in ids.iter().filter_map(|id| self.body_of(*id)) {
            bytes += body.entry.body_len();
            if bodies.len() >= ANSWERED_MAX || !bodies.is_empty() && bytes > ANSWERED_BYTES_MAX {
                break;
            }
            bodies.push(body.clone());
        }
        if !bodies.is_empty() {
            // It promises nothing.
            out.send_early(self.peer(from), Message::Bodies { bodies });
        }
    }

    pub(super) fn on_bodies(&mut self, bodies: Vec<Body>, out: &mut Out<Self>) {
        for body in bodies {
            let id = body.entry.id;
            if !self.knows(id) && self.body_of(id).is_none() {
                self.bodies.insert(body);
            }
        }
        self.bodies.are_asked_for = false;
        self.go_on(out);
    }

    /// Asks for bodies, and not again before a timer says so.
    pub(super) fn ask_bodies(&mut self, to: Peers, mut ids: Vec<EntryId>, out: &mut Out<Self>) {
        if !self.bodies.are_asked_for {
            self.bodies.are_asked_for = true;
            ids.truncate(ANSWERED_MAX);
            out.send_early(to, Message::FetchBodies { ids });
        }
    }
}
