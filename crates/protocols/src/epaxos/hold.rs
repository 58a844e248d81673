//! What is held: entries until the time at which members keep them, for `far_us` at most on the own monotonic clock.
//!
//! It is volatile, and conflicts with nothing yet. Clocks decide when an entry is kept, and nothing else: a clock that
//! is off makes entries slow.

use super::Replica;
use super::messages::{PreAccept, Timer};
use super::state::Phase;
use crate::shared::ballot::Ballot;
use crate::shared::held::{Held, Released};
use crate::shared::lags::{Lags, Probe};
use quorate_core::{Due, EntryId, Event, MemberIndex, Out};
use std::hash::{Hash, Hasher};

/// An entry that is held.
#[derive(Clone, Debug)]
pub(super) struct HeldEntry {
    pub(super) it: PreAccept,
    /// What its coordinator learns by from the answer.
    probe: Probe,
}

impl Hash for HeldEntry {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.it.entry.id, &self.it.deps, self.it.quorum).hash(to);
    }
}

/// The entries that are held, and how long messages take to members.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) held: Held<HeldEntry>,
    pub(super) lags: Lags,
    /// Whether the timer runs.
    is_armed: bool,
}

/// Without how long messages take: that depends on clocks.
impl Hash for Queue {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.held, self.is_armed).hash(to);
    }
}

impl Replica {
    /// Holds a new entry until its time, or keeps it at once: without a time, or too late, or one of too many.
    pub(super) fn hold(&mut self, from: MemberIndex, it: PreAccept, out: &mut Out<Self>) {
        let id = it.entry.id;
        let probe = Probe {
            sent_ns: it.sent_ns,
            arrived_ns: self.now.clock_ns,
        };
        let is_early = it.keep_at_ns > self.now.clock_ns;
        let is_new = self
            .instances
            .get(&id)
            .is_none_or(|known| known.phase == Phase::Unknown && known.ballot == Ballot::default());
        let is_own = from == self.config.seating.me;
        let has_place = is_own || self.queue.held.len() < self.config.instances_max;
        if is_early && is_new && has_place {
            if self.queue.held.get(id).is_none() {
                let until_ns = it.keep_at_ns;
                let held = HeldEntry { it, probe };
                self.queue.held.insert(id, held, until_ns, self.now.mono_ns);
            }
            return;
        }
        if is_new && it.keep_at_ns > 0 {
            out.emit(Event::Branch("entry kept late"));
        }
        // Said again, it is not held.
        self.queue.held.remove(id);
        self.keep(from, it, probe, out);
    }

    /// Keeps all whose time has come, in the order of those times.
    pub(super) fn keep_due(&mut self, out: &mut Out<Self>) {
        let Some(queueing) = self.config.queueing else {
            return;
        };
        let (clock_ns, mono_ns) = (self.now.clock_ns, self.now.mono_ns);
        while let Some(Released { it, .. }) =
            self.queue.held.pop_due(clock_ns, mono_ns, queueing.far_ns)
        {
            self.keep_held(it, out);
        }
    }

    fn keep_held(&mut self, held: HeldEntry, out: &mut Out<Self>) {
        let HeldEntry { it, probe } = held;
        let id = it.entry.id;
        let coordinator = self.config.seating.member(id.origin);
        let Some(from) = coordinator.filter(|_| !self.done.entries.contains(id)) else {
            return;
        };
        if from == self.config.seating.me && !self.may_vote(it.deps.after) {
            // The host caught up meanwhile. Nothing but a ballot ends an entry that its coordinator does not keep.
            self.learn_entry(it.entry);
            return self.recover_instance(id, out);
        }
        self.keep(from, it, probe, out);
    }

    /// Somebody goes on with an instance: its entry is known here from now on, and not kept any more.
    pub(super) fn end_hold(&mut self, id: EntryId) {
        if let Some(held) = self.queue.held.remove(id) {
            self.learn_entry(held.it.entry);
        }
    }

    /// The host caught up: what is delivered by that is held no more.
    pub(super) fn end_holds_of_delivered(&mut self) {
        let ids = self.queue.held.ids();
        let delivered: Vec<EntryId> = ids.filter(|id| self.done.entries.contains(*id)).collect();
        delivered.into_iter().for_each(|id| self.end_hold(id));
    }

    /// Has the timer run while something is held: the first time may have come earlier, or the clock may have moved.
    pub(super) fn watch_held(&mut self, out: &mut Out<Self>) {
        let (clock_ns, mono_ns) = (self.now.clock_ns, self.now.mono_ns);
        let queueing = self.config.queueing;
        let held = &self.queue.held;
        match queueing.and_then(|it| held.wait(clock_ns, mono_ns, it.far_ns)) {
            Some(wait_ns) => {
                let wait_ns = wait_ns.max(held.wait_min_ns());
                self.queue.is_armed = true;
                out.arm(Timer::Hold, Due::After(wait_ns));
            }
            None if std::mem::take(&mut self.queue.is_armed) => out.disarm(Timer::Hold),
            None => {}
        }
    }

    /// The time for something to be kept has come: every step ends with what is due.
    pub(super) fn on_hold(&mut self) {
        self.queue.is_armed = false;
        self.queue.held.note_alarm();
    }
}
