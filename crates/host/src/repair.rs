//! Making good what damage has taken from the own disk, with what peers have.
//!
//! A decided slot whose record is gone is fetched from a peer, as if this replica were behind. Those
//! after it are in the own log: they wait here until they can be applied. A machine that has lost
//! no promise starts only then, for it is told of everything decided that it had been told before.

use crate::context::Context;
use crate::decided::Located;
use crate::position::Position;
use crate::retained_records::RetainedRecords;
use quorate_core::{Application, Base, Entry, Machine, Past, Record, Slot};
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

/// A machine that waited and is to be started now.
pub(crate) struct Woken<M: Machine> {
    pub(crate) config: M::Config,
    pub(crate) past: Past<M>,
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

    /// Takes the slot that is applied next, if it waits here.
    pub(crate) fn take_next(&mut self, next: Slot) -> Option<Known> {
        self.ahead.remove(&next)
    }

    /// Every slot before this one is applied.
    pub(crate) fn forget_before(&mut self, next: Slot) {
        self.ahead = self.ahead.split_off(&next);
    }

    /// Says how many slots came from peers, once, when nothing is missing any more.
    pub(crate) fn take_missing(&mut self) -> Option<u64> {
        if self.is_under_way() || self.missing == 0 {
            return None;
        }
        Some(std::mem::take(&mut self.missing))
    }

    /// Wakes the machine that waits, if it need not any more.
    pub(crate) fn wake<A: Application>(&mut self, context: &mut Context<M, A>) -> Option<Woken<M>> {
        let next = context.applied();
        let is_waiting = context.rollback.is_waiting();
        let is_due = |asleep: &mut Asleep<M>| asleep.until <= next && !is_waiting;
        let Asleep {
            config,
            mut records,
            ..
        } = self.asleep.take_if(is_due)?;
        let (base, retained) = (context.base.clone(), &mut context.storage.retained);
        retained.installed(next, &base);
        still_needed(&mut records, next, &base, retained);
        let past = Past::Intact {
            next,
            base,
            records,
        };
        Some(Woken { config, past })
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
