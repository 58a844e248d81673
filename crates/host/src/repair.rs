//! Making good what damage has taken from the own disk, with what peers have.
//!
//! A decided slot whose record is gone is fetched from a peer, as if this replica were behind. Those
//! after it are in the own log: they wait here until they can be applied. A machine that has lost
//! no promise starts only then, for it is told of everything decided that it had been told before.

use crate::api::HostEvent;
use crate::decided::Located;
use crate::host::Host;
use crate::log::Position;
use crate::retained_records::RetainedRecords;
use quorate_core::{Application, Base, Entry, Machine, Now, Past, Record, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// A decided slot behind missing ones.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) entry: Option<Entry>,
    pub(crate) located: Located,
    /// Where the log says that it was decided.
    pub(crate) noted: Position,
}

/// A machine that waits until nothing is missing that was decided when it ran last, and until peers have said what
/// they remember of it.
#[derive(Debug)]
struct Asleep<M: Machine> {
    config: M::Config,
    records: Vec<M::Record>,
    /// It starts at this slot.
    until: Slot,
}

/// What is being repaired.
#[derive(Debug)]
pub(crate) struct Repair<M: Machine> {
    ahead: BTreeMap<Slot, Known>,
    /// Slots that were missing.
    missing: u64,
    asleep: Option<Asleep<M>>,
}

impl<M: Machine> Repair<M> {
    pub(crate) fn new(ahead: BTreeMap<Slot, Known>, missing: u64) -> Self {
        Repair {
            ahead,
            missing,
            asleep: None,
        }
    }

    /// The machine waits until every slot before `until` is applied.
    pub(crate) fn wait(&mut self, config: M::Config, records: Vec<M::Record>, until: Slot) {
        self.asleep = Some(Asleep {
            config,
            records,
            until,
        });
    }

    /// The machine that waits will not be needed: its epoch is over.
    pub(crate) fn forget_machine(&mut self) {
        self.asleep = None;
    }

    /// Whether a slot is missing that was decided when this replica ran last.
    pub(crate) fn is_under_way(&self) -> bool {
        self.asleep.is_some() || !self.ahead.is_empty()
    }

    /// Where the log begins to tell of slots from this one on that wait here.
    pub(crate) fn first_noted(&self, slot: Slot) -> Option<Position> {
        self.ahead.range(slot..).map(|(_, known)| known.noted).min()
    }
}

/// Drops what is decided: records of decided slots, and those that only carry decided entries. Of
/// scalars the last remains.
pub(crate) fn still_needed<R: Record>(
    records: &mut Vec<R>,
    next: Slot,
    base: &impl Base,
    retained: &RetainedRecords<R>,
) {
    let mut scalars = BTreeSet::new();
    records.reverse();
    records.retain(|record| record.scalar().is_none_or(|number| scalars.insert(number)));
    records.reverse();
    records.retain(|record| match (record.slot(), record.entry()) {
        (Some(slot), _) => slot >= next,
        (None, Some(entry)) => retained.entry(entry.id).is_some() && !base.contains(entry.id),
        (None, None) => true,
    });
}

impl<M: Machine, A: Application> Host<M, A> {
    /// Whether this replica orders commands: it has all it needs of its past.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.machine.as_ref().is_some_and(M::is_serving)
    }

    /// Applies what the own log holds behind what was missing, and starts the machine once nothing
    /// is missing any more.
    pub(crate) fn go_on_from_own_log(&mut self, now: Now) {
        if !self.repair.is_under_way() {
            return;
        }
        let before = self.applied();
        while let Some(known) = self.repair.ahead.remove(&self.applied()) {
            self.apply(now, self.applied(), known.entry, Some(known.located));
        }
        let next = self.applied();
        self.repair.ahead = self.repair.ahead.split_off(&next);
        if next > before {
            self.installed(now);
        }
        let is_due = |asleep: &mut Asleep<M>| asleep.until <= next && !self.rollback.is_waiting();
        if let Some(asleep) = self.repair.asleep.take_if(is_due) {
            self.wake(now, asleep);
        }
        if !self.repair.is_under_way() && self.repair.missing > 0 {
            let slots = std::mem::take(&mut self.repair.missing);
            self.events.push(HostEvent::Repaired { next, slots });
        }
    }

    fn wake(&mut self, now: Now, asleep: Asleep<M>) {
        let Asleep {
            config,
            mut records,
            ..
        } = asleep;
        let next = self.applied();
        self.retained.installed(next, &self.base);
        still_needed(&mut records, next, &self.base, &self.retained);
        let past = Past::Intact {
            next,
            base: self.base.clone(),
            records,
        };
        self.start_machine(&config, past, now);
        self.tell_links(now);
    }
}
