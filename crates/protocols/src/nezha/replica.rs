//! A replica's state, and what all of it shares.

use super::bodies::Bodies;
use super::callers::Callers;
use super::change::Change;
use super::config::Config;
use super::digest::{Bounds, Sums, Tup, hash};
use super::dom::Delays;
use super::early::Early;
use super::gateway::Gateway;
use super::leader::Lead;
use super::messages::{Body, Message, Placed, Record};
use super::reads::Reads;
use super::rejoin::Rejoin;
use super::repeats::Repeat;
use super::timers::Armed;
use crate::done::Done;
use quorate_core::{Base, EntryId, Event, Lsn, Now, Out, Peers, Slot};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a replica is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Status {
    /// It leads its view, or follows.
    Normal,
    /// It has left earlier views, and waits for its view to start.
    ViewChange,
    /// It lost its promises, and has not made up for it.
    Recovering,
}

/// An entry at its deadline.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) tup: Tup,
    pub(super) body: Body,
    /// What it adds to the sums.
    pub(super) hash: u128,
}

/// An unsynced entry, and what was said of it.
#[derive(Clone, Debug)]
pub(super) struct Unsynced {
    pub(super) item: Item,
    /// Unknown after a restart.
    pub(super) digest: Option<u128>,
}

impl Item {
    pub(super) fn placed(&self) -> Placed {
        Placed {
            id: self.tup.id,
            deadline: self.tup.deadline,
        }
    }
}

impl Hash for Item {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.tup, &self.body).hash(to);
    }
}

impl Hash for Unsynced {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.item, self.digest).hash(to);
    }
}

/// One replica: DOM receiver, leader or follower, and gateway of its clients.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// The clocks of this step.
    pub(super) now: Now,
    pub(super) status: Status,
    pub(super) view: u64,
    /// The last view in which it was in normal operation.
    pub(super) lnv: u64,
    /// How often each member lost its promises.
    pub(super) cv: Vec<u64>,
    /// The first slot not delivered.
    pub(super) ap: Slot,
    /// Since when the log has something and does not move, on the own monotonic clock, ns.
    pub(super) stuck_since_ns: Option<u64>,
    /// The entries delivered.
    pub(super) done: Done,
    /// The log from `ap` on: of a follower, its synced part.
    pub(super) log: VecDeque<Item>,
    /// Where entries are in the log.
    pub(super) slots: BTreeMap<EntryId, Slot>,
    /// Slots were installed beyond the own log, maybe of a later view: nothing is vouched for.
    pub(super) is_unvouched: bool,
    /// `un`: entries that were said to be here, and that the leader has not placed.
    pub(super) un: BTreeMap<Tup, Unsynced>,
    /// Their deadlines.
    pub(super) un_of: BTreeMap<EntryId, u64>,
    /// `eb`.
    pub(super) early: Early,
    /// `lb`, and bodies that came otherwise.
    pub(super) bodies: Bodies,
    /// The undecided entries whose bytes are in the own log of records.
    pub(super) written: BTreeSet<EntryId>,
    /// Of the entries of this view; unknown where some of them were installed by the host, or before a
    /// restart.
    pub(super) sums: Option<Sums>,
    /// `hi` of the log; what is unsynced counts, too (`receive.rs`).
    pub(super) bounds: Bounds,
    /// Everything before is committed, as far as known.
    pub(super) cp: Slot,
    /// What the leader's log holds beyond the own.
    pub(super) placed: BTreeMap<Slot, Placed>,
    /// What the leader placed waits to be written with something else (`follower.rs`).
    pub(super) is_lazy: bool,
    /// Members whose link is down.
    pub(super) down: BTreeSet<usize>,
    /// The leader's sums, where its log was this long.
    pub(super) sums_told: Option<(Slot, Sums)>,
    pub(super) lead: Lead,
    pub(super) change: Change,
    pub(super) rejoin: Option<Rejoin>,
    /// With this record a restart finds the promises of the new life.
    pub(super) joined: Lsn,
    pub(super) gateway: Gateway,
    pub(super) reads: Reads,
    /// Of requests from each member's gateway.
    pub(super) delays: Vec<Delays>,
    /// Of requests from gateways apart.
    pub(super) apart: Callers,
    /// Log positions of the leader that wait for the disk.
    pub(super) unflushed: VecDeque<(Lsn, Slot)>,
    /// What was said to the own gateway, and waits for the disk.
    pub(super) own: VecDeque<(Lsn, Message)>,
    /// Records up to here are durable.
    pub(super) durable: Lsn,
    pub(super) armed: Armed,
    /// Repetitions since something was delivered.
    pub(super) backoff: u32,
    /// Views left since anything was decided, or read.
    pub(super) in_vain: u32,
    /// When each member that speaks in an earlier view was told of the own one.
    pub(super) views_told: Vec<Repeat>,
    /// The leader gave a sign of life since the timer was armed.
    pub(super) has_heard: bool,
    /// Somebody asked for what only the leader can place, and the leader was not heard since.
    pub(super) is_called: bool,
    /// Bodies were asked for since the timer was armed.
    pub(super) has_asked: bool,
    /// So was what follows the log, where it ended here.
    pub(super) fetched: Option<Slot>,
    /// So were the leader's sums.
    pub(super) has_asked_sums: bool,
}

impl Replica {
    pub(super) fn empty(config: &Config, ap: Slot, done: Done, now: Now, out: &Out<Self>) -> Self {
        let n = config.n();
        Replica {
            now,
            status: Status::Normal,
            view: 0,
            lnv: 0,
            cv: vec![0; n],
            ap,
            done,
            log: VecDeque::new(),
            slots: BTreeMap::new(),
            stuck_since_ns: None,
            is_unvouched: false,
            un: BTreeMap::new(),
            un_of: BTreeMap::new(),
            early: Early::default(),
            bodies: Bodies::default(),
            written: BTreeSet::new(),
            sums: Some(Sums::default()),
            bounds: Bounds::default(),
            cp: ap,
            placed: BTreeMap::new(),
            is_lazy: false,
            down: BTreeSet::new(),
            sums_told: None,
            lead: Lead::new(config, ap),
            change: Change::default(),
            rejoin: None,
            joined: Lsn(0),
            gateway: Gateway::new(config, config.members[config.me]),
            reads: Reads::default(),
            delays: vec![Delays::default(); n],
            apart: Callers::default(),
            unflushed: VecDeque::new(),
            own: VecDeque::new(),
            durable: out.persisted(),
            armed: Armed::default(),
            backoff: 0,
            in_vain: 0,
            views_told: vec![Repeat::default(); n],
            has_heard: false,
            is_called: false,
            has_asked: false,
            fetched: None,
            has_asked_sums: false,
            config: Arc::new(config.clone()),
        }
    }

    pub(super) fn leader(&self) -> usize {
        self.config.leader_of(self.view)
    }

    /// Whether it leads its view.
    pub(super) fn leads(&self) -> bool {
        self.status == Status::Normal && self.leader() == self.config.me
    }

    /// Whether it follows the leader of its view.
    pub(super) fn follows(&self) -> bool {
        self.status == Status::Normal && self.leader() != self.config.me
    }

    /// The first slot behind the log.
    pub(super) fn end(&self) -> Slot {
        Slot(self.ap.0 + self.log.len() as u64)
    }

    /// Whether an entry is delivered, in the log, or unsynced.
    pub(super) fn knows(&self, id: EntryId) -> bool {
        self.slots.contains_key(&id) || self.un_of.contains_key(&id) || self.done.contains(id)
    }

    pub(super) fn item(&self, body: Body, deadline: u64) -> Item {
        let tup = Tup {
            deadline,
            id: body.entry.id,
        };
        let covered = match self.config.rules.hashes_deadlines {
            true => tup,
            false => Tup { deadline: 0, ..tup },
        };
        Item {
            tup,
            hash: hash(&self.config.prf, covered),
            body,
        }
    }

    /// Adds to the end of the log.
    pub(super) fn push(&mut self, item: Item) {
        if let Some(sums) = &mut self.sums {
            sums.add(&item.body.footprint, item.hash);
        }
        self.bounds.raise(&item.body.footprint, item.tup);
        self.slots.insert(item.tup.id, self.end());
        self.log.push_back(item);
    }

    /// Takes an entry out of what is unsynced.
    pub(super) fn take_unsynced(&mut self, id: EntryId) -> Option<Body> {
        let deadline = self.un_of.remove(&id)?;
        let Unsynced { item, .. } = self.un.remove(&Tup { deadline, id })?;
        if let Some(sums) = &mut self.sums {
            sums.remove(&item.body.footprint, item.hash);
        }
        Some(item.body)
    }

    /// The digest of a reply about what touches this, as things are now.
    pub(super) fn digest(&self, sums: &Sums, body: &Body) -> u128 {
        let zero;
        let cv = match self.config.rules.counts_lives {
            true => &self.cv,
            false => {
                zero = vec![0; self.cv.len()];
                &zero
            }
        };
        let combined;
        let sums = match self.config.rules.lists_sums {
            true => sums,
            false => {
                combined = sums.combined(&body.footprint);
                &combined
            }
        };
        sums.digest(&self.config.prf, self.view, cv, &body.footprint)
    }

    /// Writes an entry and its place down.
    pub(super) fn write_item(&mut self, slot: Slot, item: &Item, out: &mut Out<Self>) -> Lsn {
        let view = self.view;
        if self.written.insert(item.tup.id) {
            return out.persist(Record::Append {
                view,
                slot,
                deadline: item.tup.deadline,
                body: item.body.clone(),
            });
        }
        let placed = item.placed();
        out.persist(Record::Sync { view, slot, placed })
    }

    /// Says something to a member, once everything so far is durable; to the own gateway, too.
    pub(super) fn say(&mut self, to: usize, message: Message, out: &mut Out<Self>) {
        if to == self.config.me {
            self.own.push_back((out.persisted(), message));
        } else {
            out.send(self.peer(to), message);
        }
    }

    /// What the own gateway may hear by now.
    pub(super) fn hear_own(&mut self, out: &mut Out<Self>) {
        let durable = self.durable;
        while let Some((_, message)) = self.own.pop_front_if(|(lsn, _)| *lsn <= durable) {
            self.on_reply(self.config.me, message, out);
        }
    }

    pub(super) fn peer(&self, member: usize) -> Peers {
        Peers::One(self.config.members[member])
    }

    /// Delivers what is committed.
    pub(super) fn deliver(&mut self, out: &mut Out<Self>) {
        while self.status == Status::Normal
            && self.ap < self.cp
            && let Some(item) = self.log.pop_front()
        {
            let (id, slot) = (item.tup.id, self.ap);
            self.slots.remove(&id);
            let outcome = self.lead.outcomes.remove(&slot);
            let is_said = outcome.is_none_or(|outcome| outcome.is_said() && self.is_counted(id));
            let to_tell = (!is_said).then(|| item.body.clone());
            let entry = item.body.entry;
            let is_new = !self.done.contains(id);
            if !is_new {
                out.emit(Event::Branch("double decision skipped"));
            }
            let entry = is_new.then_some(entry);
            self.done.advance(slot, entry.as_ref());
            self.ap = slot.next();
            self.forget(id);
            (self.backoff, self.in_vain) = (0, 0);
            out.deliver(slot, entry);
            if let Some(body) = to_tell {
                // Its gateway waits for results, and nobody had any before.
                self.tell(id.origin, &body, out);
            }
        }
    }

    /// An entry is decided: nobody waits for it any more.
    pub(super) fn forget(&mut self, id: EntryId) {
        self.take_unsynced(id);
        self.early.remove(id);
        self.bodies.remove(id);
        self.written.remove(&id);
        self.gateway.remove(id);
        self.end_count(id);
    }

    /// The host caught up: what is before `next` is decided, maybe by a later view.
    pub(super) fn on_installed(&mut self, next: Slot, base: Done, out: &mut Out<Self>) {
        if next <= self.ap {
            return;
        }
        let leads = self.leads();
        let end = self.end();
        let gone = (next.0 - self.ap.0).min(self.log.len() as u64) as usize;
        let gone: Vec<Item> = self.log.drain(..gone).collect();
        self.slots.retain(|_, slot| *slot >= next);
        self.done = base;
        self.ap = next;
        self.cp = self.cp.max(next);
        self.placed = self.placed.split_off(&next);
        self.lead.outcomes = self.lead.outcomes.split_off(&next);
        (self.backoff, self.in_vain) = (0, 0);
        for id in self.decided_here() {
            self.forget(id);
        }
        for item in gone {
            // A later view may have decided others there.
            self.adopt(item.body);
        }
        if self.config.touches.is_some() && self.config.rules.relocates_reads {
            // It may also have moved what commutes.
            self.reads.start_over();
        }
        if next > end {
            self.is_unvouched = true;
            self.sums = None;
        }
        if leads {
            // Only a later view can have decided more than the leader of this one.
            out.emit(Event::Branch("leader overtaken"));
            return self.start_change(self.view + 1, out);
        }
        self.go_on(out);
    }

    /// What is kept here of entries that are decided.
    fn decided_here(&self) -> Vec<EntryId> {
        let un = self.un_of.keys();
        let all = un
            .chain(self.written.iter())
            .chain(self.gateway.pending.keys());
        let all = all
            .copied()
            .chain(self.bodies.ids())
            .chain(self.early.ids());
        all.filter(|id| self.done.contains(*id)).collect()
    }

    /// Something came that others waited for: bodies, or decided slots.
    pub(super) fn go_on(&mut self, out: &mut Out<Self>) {
        match self.status {
            Status::Normal => self.sync_further(out),
            Status::ViewChange | Status::Recovering => {
                if let Some((from, start)) = self.change.pending.take() {
                    self.on_start_view(from, start, out);
                }
                self.try_start(out);
            }
        }
    }

    pub(super) fn misbehaved(&self, from: usize, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.members[from];
        out.emit(Event::Misbehaved { peer, what });
    }
}
