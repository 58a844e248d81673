//! What snapshot and log say happened before, taken in record by record.

use crate::api::{HostConfig, OpenError};
use crate::apply::Applier;
use crate::decided::{DecidedLog, Located};
use crate::export::{Exported, Outcome, Witness};
use crate::log::{Found, Kind, Position, RECORD_HEADER_BYTES};
use crate::pins::Pins;
use crate::records::{Decided, Learned};
use crate::snapshot::{Kept, Loaded};
use quorate_core::{Application, Base, Entry, Machine, Record, Slot, Wire, WireError};
use std::collections::{BTreeSet, VecDeque};

/// Records kept before those that no longer matter are dropped.
const PRUNE_AT: usize = 4096;

/// What is rebuilt while the log is read.
pub(crate) struct Replay<'a, M: Machine, A: Application> {
    pub(crate) config: &'a HostConfig<M::Config>,
    pub(crate) applier: Applier<A>,
    pub(crate) base: M::Base,
    pub(crate) decided: DecidedLog,
    pub(crate) pins: Pins<M::Record>,
    /// The snapshots on the disk that may still be needed, ascending.
    pub(crate) kept: VecDeque<Kept>,
    pub(crate) records: Vec<M::Record>,
    prune_at: usize,
    /// Boots and releases: every log that was ever in use holds one.
    pub(crate) signs_of_life: u64,
    /// Who wants to see every slot that is applied.
    witness: Option<Witness<'a, A>>,
}

impl<'a, M: Machine, A: Application> Replay<'a, M, A> {
    pub(crate) fn new(config: &'a HostConfig<M::Config>, app: A) -> Self {
        let first = config.seat.epoch.first_slot;
        let limits = &config.limits;
        Replay {
            applier: Applier::new(app, first, limits),
            base: M::Base::default(),
            decided: DecidedLog::new(first, limits.recent_bytes_max),
            pins: Pins::new(),
            kept: VecDeque::new(),
            records: Vec::new(),
            prune_at: PRUNE_AT,
            signs_of_life: 0,
            witness: None,
            config,
        }
    }

    /// Begins with a snapshot; `kept` are that one and older ones.
    pub(crate) fn begin_with(&mut self, loaded: Loaded<M, A>, kept: VecDeque<Kept>) {
        (self.applier, self.base) = loaded.into_applier(&self.applier);
        self.kept = kept;
    }

    /// From now on somebody is told of every slot that is applied.
    pub(crate) fn tell(&mut self, mut witness: Option<Witness<'a, A>>) {
        if let Some(witness) = &mut witness {
            witness(self.applier.app(), None);
        }
        self.witness = witness;
    }

    /// Takes the next record of the log.
    pub(crate) fn visit(&mut self, found: Found) -> Result<(), OpenError> {
        let at = found.at;
        let damaged = |what: String| OpenError::Damaged { at, what };
        let seat = &self.config.seat;
        if found.group != seat.group.0 || found.epoch != seat.epoch.number {
            let what = format!("a record of group {} epoch {}", found.group, found.epoch);
            return Err(damaged(what));
        }
        self.take(found).map_err(damaged)
    }

    /// The log ends at `tail`.
    pub(crate) fn end(&mut self, tail: Position) {
        let next = self.applier.next();
        if self.decided.next() != next {
            self.decided.restart(next);
        }
        self.pins.installed(next, &self.base);
        self.prune();
        for kept in &mut self.kept {
            if kept.from == UNKNOWN {
                kept.from = tail;
            }
        }
    }

    fn take(&mut self, found: Found) -> Result<(), String> {
        let len = RECORD_HEADER_BYTES + found.body.len() as u32;
        let located = Located { at: found.at, len };
        let wire = |e: WireError| format!("a valid record does not decode: {e}");
        match found.kind {
            Kind::Mark => Ok(()),
            Kind::Boot | Kind::Release => {
                self.signs_of_life += 1;
                Ok(())
            }
            Kind::Machine => {
                self.keep(M::Record::from_bytes(found.body).map_err(wire)?, located);
                Ok(())
            }
            Kind::Learned => {
                let Learned { slot, entry } = Learned::from_bytes(found.body).map_err(wire)?;
                self.decide(found.at, slot, Some(entry), located)
            }
            Kind::Decided => {
                let Decided { slot, entry: id } = Decided::from_bytes(found.body).map_err(wire)?;
                let Some(id) = id else {
                    return self.decide(found.at, slot, None, Located::NOOP);
                };
                let entry = self.pins.entry(id).cloned();
                let located = self.pins.entry_place(id);
                match (entry, located) {
                    (Some(entry), Some(located)) => {
                        self.decide(found.at, slot, Some(entry), located)
                    }
                    _ if slot < self.applier.next() => {
                        // Its bytes were released, or it is about to be.
                        self.decided.restart(slot.next());
                        self.pins.decided(slot, None);
                        Ok(())
                    }
                    _ => Err(format!("{id:?} was decided but is not there")),
                }
            }
        }
    }

    fn keep(&mut self, record: M::Record, located: Located) {
        if let Some(slot) = record.slot() {
            self.mark_kept(slot, located.at);
        }
        self.pins
            .appended(record.clone(), located, self.applier.next());
        self.records.push(record);
        if self.records.len() >= self.prune_at {
            self.prune();
            self.prune_at = self.records.len() * 2 + PRUNE_AT;
        }
    }

    /// A record about a slot is here: the log from here on is needed with older snapshots.
    fn mark_kept(&mut self, slot: Slot, at: Position) {
        for kept in &mut self.kept {
            if kept.from == UNKNOWN && slot >= kept.slot {
                kept.from = at;
            }
        }
    }

    /// A slot was decided. Those that the snapshot covers only leave their places.
    fn decide(
        &mut self,
        at: Position,
        slot: Slot,
        entry: Option<Entry>,
        located: Located,
    ) -> Result<(), String> {
        let next = self.applier.next();
        self.mark_kept(slot, at);
        if slot > next {
            return Err(format!(
                "slot {slot} is decided where slot {next} should be, and no snapshot covers those \
                 between"
            ));
        }
        if self.decided.next() != slot {
            self.decided.restart(slot);
        }
        self.pins
            .decided(slot, entry.as_ref().map(|entry| entry.id));
        if slot < next {
            self.decided.push_place(slot, located);
            return Ok(());
        }
        self.apply(slot, entry.as_ref());
        self.base.advance(slot, entry.as_ref());
        self.decided.push(slot, entry, Some(located));
        Ok(())
    }

    fn apply(&mut self, slot: Slot, entry: Option<&Entry>) {
        let Some(witness) = &mut self.witness else {
            return self.applier.apply(slot, entry, |_, _| {});
        };
        let mut outcomes = Vec::new();
        let note = |_, applied| outcomes.push(Outcome::new(slot, applied));
        self.applier.apply(slot, entry, note);
        let outcomes = &outcomes;
        let exported = Exported {
            slot,
            entry,
            outcomes,
        };
        witness(self.applier.app(), Some(exported));
    }

    /// Drops what is decided: records of decided slots, and those that only carry decided entries.
    /// Of scalars the last remains.
    fn prune(&mut self) {
        let next = self.applier.next();
        let (pins, base) = (&self.pins, &self.base);
        let mut scalars = BTreeSet::new();
        self.records.reverse();
        self.records
            .retain(|record| record.scalar().is_none_or(|number| scalars.insert(number)));
        self.records.reverse();
        self.records
            .retain(|record| match (record.slot(), record.entry()) {
                (Some(slot), _) => slot >= next,
                (None, Some(entry)) => pins.entry(entry.id).is_some() && !base.contains(entry.id),
                (None, None) => true,
            });
    }
}

/// Where the log of a snapshot begins, before that was found.
pub(crate) const UNKNOWN: Position = Position {
    segment: 0,
    offset: 0,
};
