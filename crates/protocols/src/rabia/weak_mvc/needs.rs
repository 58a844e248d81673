//! Batches that are named in slots and not held here: when they are asked for, and whom.

use super::Replica;
use super::messages::{Message, Timer};
use super::slot::Instance;
use super::voice::SlotValue;
use crate::shared::under_way::is_long;
use quorate_core::pace::{ACK_NS_MAX, Pace};
use quorate_core::{Due, Entry, EntryId, Event, MemberSet, Out, Peers, ReplicaId};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

/// The batches that are named in slots and not held.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    named: BTreeMap<EntryId, Need>,
    /// Whether the timer runs that asks for batches which should have come.
    is_armed: bool,
    /// How long batches take that others name before they come.
    pace: Pace,
}

/// A batch named in a slot and not held.
#[derive(Clone, Debug)]
struct Need {
    /// Members known to hold the batch.
    holders: MemberSet,
    /// How often the batch was asked for.
    asked: u32,
    /// When the batch was named first, on the own clock.
    since_ns: u64,
    /// When the batch is asked for again, on the own clock.
    due_ns: u64,
}

impl Hash for Need {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.holders, self.asked).hash(to);
    }
}

impl Hash for Needs {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.named, self.is_armed).hash(to);
    }
}

impl Needs {
    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Gives up needs that no stored slot names, but not before everybody was asked `patience` times: when
    /// every replica has another head, slots forfeit faster than a batch can be fetched, and only
    /// fetching makes the heads equal.
    pub(super) fn give_up(&mut self, slots: &VecDeque<Instance>, patience: u32) {
        let is_named = |id: EntryId| {
            slots
                .iter()
                .any(|slot| slot.decided == SlotValue::Request(id) || slot.support(id) > 0)
        };
        self.named
            .retain(|id, need| need.asked < patience || is_named(*id));
    }

    /// The names of the batches needed.
    pub(super) fn ids(&self) -> impl Iterator<Item = &EntryId> {
        self.named.keys()
    }

    /// A batch is not needed any more.
    pub(super) fn forget(&mut self, id: EntryId) {
        self.named.remove(&id);
    }

    /// Forgets the batches for which this does not hold.
    pub(super) fn retain(&mut self, is_needed: impl Fn(EntryId) -> bool) {
        self.named.retain(|id, _| is_needed(*id));
    }

    /// A batch came. Says whether it was needed.
    pub(super) fn came(&mut self, entry: &Entry, now_ns: u64) -> bool {
        let need = self.named.remove(&entry.id);
        let is_needed = need.is_some();
        if is_long(entry) {
            let late_ns = need.map_or(0, |need| now_ns.saturating_sub(need.since_ns));
            self.pace.note(late_ns, ACK_NS_MAX);
        }
        is_needed
    }

    /// Batches whose time to come, or to be asked for again, is over.
    fn due(&self, now_ns: u64, is_unasked: bool) -> Vec<EntryId> {
        let due = self
            .named
            .iter()
            .filter(|(_, need)| need.due_ns <= now_ns && (!is_unasked || need.asked == 0));
        due.map(|(id, _)| *id).collect()
    }
}

impl Replica {
    /// A batch is named but may not be here. From its origin it should have come before its
    /// name; from others the name may have overtaken it.
    pub(super) fn lack(&mut self, id: EntryId, holders: MemberSet, out: &mut Out<Self>) {
        if self.pool.holds(id) || self.done.entries.contains(id) {
            return;
        }
        let origin = self.config.member(id.origin);
        // From an origin that is out of reach nothing is on its way.
        let is_coming = origin.is_some_and(|origin| self.presence.up().contains(origin));
        let patience_ns = if is_coming {
            self.needs.pace.patience_ns()
        } else {
            0
        };
        let need = self.needs.named.entry(id).or_insert(Need {
            holders: MemberSet::EMPTY,
            asked: 0,
            since_ns: self.now_ns,
            due_ns: self.now_ns + patience_ns,
        });
        need.holders |= holders;
        if need.asked > 0 {
            return;
        }
        if origin.is_some_and(|origin| holders.contains(origin)) {
            self.ask_for(id, out);
        } else if !self.needs.is_armed {
            self.needs.is_armed = true;
            let wait_ns = patience_ns.max(self.config.need_delay_ns);
            out.arm(Timer::Need, Due::After(wait_ns));
        }
    }

    /// Batches that should have come by now are asked for.
    pub(super) fn on_need_timer(&mut self, out: &mut Out<Self>) {
        let now_ns = self.now_ns;
        let unasked = self.needs.named.values().filter(|need| need.asked == 0);
        let later = unasked
            .map(|need| need.due_ns)
            .filter(|due_ns| *due_ns > now_ns);
        let next_ns = later.min();
        let ids = self.needs.due(now_ns, true);
        self.needs.is_armed = next_ns.is_some();
        if let Some(next_ns) = next_ns {
            out.arm(Timer::Need, Due::After(next_ns - now_ns));
        }
        ids.into_iter().for_each(|id| self.ask_for(id, out));
    }

    /// An origin is out of reach: what it was to bring is asked for elsewhere.
    pub(super) fn hasten_needs(&mut self, origin: ReplicaId, out: &mut Out<Self>) {
        let now_ns = self.now_ns;
        let needs = self.needs.named.iter_mut();
        let lost = needs.filter(|(id, _)| id.origin == origin);
        let is_some_lost = lost.map(|(_, need)| need.due_ns = now_ns).count() > 0;
        if is_some_lost {
            self.on_need_timer(out);
        }
    }

    /// Asks for batches again whose time is over.
    pub(super) fn ask_for_needs_again(&mut self, now_ns: u64, out: &mut Out<Self>) {
        let ids = self.needs.due(now_ns, false);
        ids.into_iter().for_each(|id| self.ask_for(id, out));
    }

    /// Asks one member for a batch: each known holder in turn, then everybody in turn.
    fn ask_for(&mut self, id: EntryId, out: &mut Out<Self>) {
        let others = self.config.others();
        let (pace, now_ns) = (self.needs.pace, self.now_ns);
        let need = self.needs.named.get_mut(&id);
        let need = need.expect("what is asked for is needed");
        let holders = need.holders & others;
        let (known, round) = (holders.len(), need.asked as usize);
        need.asked += 1;
        need.due_ns = pace.again_ns(need.since_ns, now_ns);
        let from = if known > 0 && round % (known + 1) < known {
            holders.iter().nth(round % (known + 1))
        } else {
            others.iter().nth(round % others.len().max(1))
        };
        if let Some(from) = from {
            out.emit(Event::Branch("need sent"));
            let message = Message::Need {
                from: self.ap,
                ids: vec![id],
            };
            out.send_early(Peers::One(self.config.members[from]), message);
        }
    }
}
