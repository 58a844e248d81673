//! What snapshot and log say happened before, taken in record by record.

mod witness;

use crate::api::HostConfig;
use crate::apply::Applier;
use crate::attachment_check::{AttachmentCheck, LeftOut, decode_left_out};
use crate::decided::{DecidedLog, Located};
use crate::epochs;
use crate::flaw::Flaw;
use crate::fragments::FragmentStore;
use crate::log::{FoundRecord, Gap, Kind, Piece, RECORD_HEADER_BYTES};
use crate::open_error::OpenError;
use crate::position::Position;
use crate::records::{Decided, Learned};
use crate::repair::{Known, still_needed};
use crate::retained_records::RetainedRecords;
use crate::rollback::Noted;
use crate::snapshot::{Kept, Loaded};
use bytes::Bytes;
use quorate_core::{
    Application, Base, Boot, Carry, Decoder, Entry, EntryId, Machine, Record, Slot, Wire, WireError,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
pub(crate) use witness::Witness;
pub use witness::{Exported, Outcome};

/// Records kept before those that no longer matter are dropped.
const PRUNE_AT: usize = 4096;

/// What is rebuilt while the log is read.
pub(crate) struct Replay<'a, M: Machine, A: Application> {
    pub(crate) config: &'a HostConfig<M::Config>,
    pub(crate) applier: Applier<A>,
    pub(crate) base: M::Base,
    pub(crate) decided: DecidedLog,
    pub(crate) retained: RetainedRecords<M::Record>,
    /// The snapshots on the disk that may still be needed, ascending.
    pub(crate) kept: VecDeque<Kept>,
    pub(crate) records: Vec<M::Record>,
    /// Decided slots behind some that are missing.
    pub(crate) ahead: BTreeMap<Slot, Known>,
    /// The first slot behind all that are known to be decided.
    pub(crate) until: Slot,
    /// Where acknowledged records are missing.
    pub(crate) gaps: Vec<Gap>,
    /// Own records about epochs, and where they are.
    pub(crate) epochs: Vec<(Position, epochs::Record)>,
    /// How far promises went, those of peers and the own.
    pub(crate) noted: Noted,
    /// Where the last record is that says so.
    pub(crate) note: Option<Position>,
    losses: Losses,
    attachment_check: AttachmentCheck,
    /// Entries that records of other machines carry: of epochs that are over, or of another protocol.
    others: BTreeMap<EntryId, (Located, Entry)>,
    prune_at: usize,
    /// Who wants to see every slot that is applied.
    witness: Option<Witness<'a, A>>,
}

/// What is known of records that were lost, and of the promises among them.
#[derive(Default)]
struct Losses {
    /// Some start found that promises were lost, and began without any.
    began_anew: bool,
    /// No record of the machine says yet that it knows.
    unknown: bool,
    /// Promises that concern all slots may be among what was lost.
    concern_all: bool,
    /// The first slot behind all that the log says are decided, so far.
    seen: Slot,
    /// A gap behind which no further slot was decided yet, and the first slot not decided before.
    open: Option<Slot>,
    /// The slot decided next behind the last gap: what was lost is about slots within the
    /// machine's reach of it.
    decided_next: Option<Slot>,
}

impl Losses {
    fn gap(&mut self, gap: &Gap) {
        self.concern_all |= gap.may_concern_all;
        self.open = Some(self.seen);
    }

    /// Slots below are decided again where they were fetched to fill a gap.
    fn decided(&mut self, slot: Slot) {
        if self.open.take_if(|seen| slot >= *seen).is_some() {
            self.decided_next = self.decided_next.max(Some(slot));
        }
        self.seen = self.seen.max(slot.next());
    }
}

impl<'a, M: Machine, A: Application> Replay<'a, M, A> {
    pub(crate) fn new(config: &'a HostConfig<M::Config>, app: A) -> Self {
        let first = config.genesis.first_slot;
        let limits = &config.limits;
        Replay {
            applier: Applier::new(app, config),
            base: M::Base::default(),
            decided: DecidedLog::new(first, limits.recent_bytes_max),
            retained: RetainedRecords::new(),
            kept: VecDeque::new(),
            records: Vec::new(),
            ahead: BTreeMap::new(),
            until: first,
            gaps: Vec::new(),
            epochs: Vec::new(),
            noted: Noted::of_life(config.incarnation, config.listed_as),
            note: None,
            losses: Losses::default(),
            attachment_check: AttachmentCheck::default(),
            others: BTreeMap::new(),
            prune_at: PRUNE_AT,
            witness: None,
            config,
        }
    }

    /// Begins with a snapshot; `kept` are that one and older ones.
    pub(crate) fn begin_with(&mut self, loaded: Loaded<M, A>, kept: VecDeque<Kept>) {
        (self.applier, self.base) = loaded.into_applier(&self.applier);
        self.kept = kept;
        self.until = self.applier.next();
    }

    /// From now on somebody is told of every slot that is applied.
    pub(crate) fn tell(&mut self, mut witness: Option<Witness<'a, A>>) {
        if let Some(witness) = &mut witness {
            witness(self.applier.app(), None);
        }
        self.witness = witness;
    }

    /// Takes what the log holds next.
    pub(crate) fn visit(&mut self, piece: Piece) -> Result<(), OpenError> {
        match piece {
            Piece::Record(found) => return self.visit_record(found),
            Piece::Gap(gap) => {
                self.losses.gap(&gap);
                // What was noted last may be lost.
                self.noted.peers.clear();
                self.gaps.push(gap);
            }
            Piece::Doubt => self.losses.concern_all = true,
        }
        Ok(())
    }

    /// The log lacks its beginning, or all of it.
    pub(crate) fn headless(&mut self) {
        self.losses.concern_all |= !self.losses.began_anew;
    }

    /// The fragment store is gone. What was written last there cannot be told from what never came to be written, so a
    /// record that refers to it may have been said.
    pub(crate) fn without_fragments(&mut self) {
        self.losses.concern_all |= self.attachment_check.refers_to_any();
    }

    /// Every slot before this one was decided.
    pub(crate) fn reached(&mut self, until: Slot) {
        self.until = self.until.max(until);
    }

    /// Whether promises may be among the records that were lost: those about slots that are decided
    /// do not count any more.
    pub(crate) fn lacks_promises(&self) -> bool {
        if self.config.limits.flaw == Some(Flaw::DamageTakenForTorn) {
            return false;
        }
        let losses = &self.losses;
        let reach = M::reach(&self.config.machine);
        let may_matter =
            |slot: Slot| reach.is_none_or(|reach| slot.0.saturating_add(reach) > self.until.0);
        losses.unknown
            || losses.concern_all
            || losses.open.is_some()
            || losses.decided_next.is_some_and(may_matter)
    }

    /// The slots that are decided and missing, in ranges without their ends.
    pub(crate) fn missing(&self) -> Vec<(Slot, Slot)> {
        let mut from = self.applier.next();
        let mut missing = Vec::new();
        for slot in self.ahead.keys().copied().chain([self.until]) {
            if from < slot {
                missing.push((from, slot));
            }
            from = slot.next();
        }
        missing
    }

    fn visit_record(&mut self, found: FoundRecord) -> Result<(), OpenError> {
        let at = found.at;
        let unreadable = |what: String| OpenError::Unreadable { at, what };
        let seat = &self.config.seat;
        if found.group != seat.group.0 {
            return Err(unreadable(format!("a record of group {}", found.group)));
        }
        self.take(found).map_err(unreadable)
    }

    /// The log ends at `tail`.
    pub(crate) fn end(&mut self, tail: Position) {
        let next = self.applier.next();
        if self.decided.next() != next {
            self.decided.restart(next);
        }
        self.until = self.until.max(next);
        self.retained.installed(next, &self.base);
        self.prune();
        for kept in &mut self.kept {
            if kept.from == UNKNOWN {
                kept.from = tail;
            }
        }
    }

    fn take(&mut self, found: FoundRecord) -> Result<(), String> {
        let len = RECORD_HEADER_BYTES + found.body.len() as u32;
        let located = Located { at: found.at, len };
        let wire = |e: WireError| format!("a valid record does not decode: {e}");
        match found.kind {
            Kind::Mark => {
                self.attachment_check.mark(found.boot, &found.body);
                Ok(())
            }
            Kind::Boot => {
                let boot = Boot(Decoder::new(found.body.clone()).u64().map_err(wire)?);
                self.noted.start(boot, found.at);
                let left_out = decode_left_out(found.body).map_err(wire)?;
                self.leave_out(&left_out);
                Ok(())
            }
            Kind::Release => Ok(()),
            Kind::Lost => self.lose(found).map_err(wire),
            Kind::Progress => {
                self.noted = Noted::from_bytes(found.body).map_err(wire)?;
                self.note = Some(found.at);
                Ok(())
            }
            Kind::Epoch => {
                let record = epochs::Record::from_bytes(found.body).map_err(wire)?;
                self.epochs.push((found.at, record));
                Ok(())
            }
            // The seal before it was lost, and so may be promises.
            Kind::Machine if found.epoch > self.applier.newest().number => {
                self.losses.concern_all = true;
                Ok(())
            }
            Kind::Machine if !self.is_own(found.epoch) => {
                let entry = self.applier.entry_of(found.epoch, found.body);
                // Of one that nobody remembers any more, the slots are in a snapshot.
                if let Ok(Some(entry)) = entry {
                    self.others.insert(entry.id, (located, entry));
                }
                Ok(())
            }
            Kind::Machine => {
                self.losses.unknown = false;
                let record = self.read_record(found.body).map_err(wire)?;
                self.attachment_check.note(&record, found.at, found.boot);
                self.keep(record, located);
                Ok(())
            }
            Kind::Learned => {
                let Learned { slot, entry } = Learned::from_bytes(found.body).map_err(wire)?;
                self.decide(found.at, slot, Some(entry), located);
                Ok(())
            }
            Kind::Decided => {
                let Decided { slot, entry: id } = Decided::from_bytes(found.body).map_err(wire)?;
                let Some(id) = id else {
                    self.decide(found.at, slot, None, Located::NOOP);
                    return Ok(());
                };
                match self.take_entry(id) {
                    Some((located, entry)) => self.decide(found.at, slot, Some(entry), located),
                    None => self.decide_unknown(slot),
                }
                Ok(())
            }
        }
    }

    /// An earlier start found that promises were lost.
    fn lose(&mut self, found: FoundRecord) -> Result<(), WireError> {
        // Older programs did not count.
        let losses = match found.body.is_empty() {
            true => None,
            false => Some(Decoder::new(found.body).varint()?),
        };
        self.noted.lose(losses, found.at);
        self.forget_promises();
        // What follows says so, unless it was cut off.
        let epoch = epochs::ANY_EPOCH;
        self.epochs
            .push((found.at, epochs::Record::Started { epoch }));
        Ok(())
    }

    /// Whether the records of this epoch's machine are those of the machine to be started.
    fn is_own(&self, epoch: u64) -> bool {
        let newest = self.applier.newest();
        epoch == newest.number && newest.protocol == self.config.seat.epoch.protocol
    }

    /// A record of the machine to be started.
    fn read_record(&self, body: Bytes) -> Result<M::Record, WireError> {
        let mut input = Decoder::new(body);
        let record = M::record(&self.config.seat.epoch.protocol, &mut input)?;
        input.finish()?;
        Ok(record)
    }

    /// The entry of this name, and where it is.
    fn take_entry(&mut self, id: EntryId) -> Option<(Located, Entry)> {
        let own = self
            .retained
            .entry_place(id)
            .zip(self.retained.entry(id).cloned());
        own.or_else(|| self.others.remove(&id))
    }

    /// A start found that promises were lost, and began without any.
    pub(crate) fn forget_promises(&mut self) {
        self.losses = Losses {
            began_anew: true,
            seen: self.losses.seen,
            unknown: true,
            ..Losses::default()
        };
        self.records.clear();
        self.retained = RetainedRecords::new();
    }

    /// Makes the records what they are with the fragments that are here. Damage may have taken some: the record
    /// stands without. Where the flush that brought both never came to its end, nobody was told of the record,
    /// nor of what rests on it, and it is as if they had not been: says which these are.
    pub(crate) fn leave_out_unsaid(&mut self, fragments: &FragmentStore) -> Vec<LeftOut> {
        let left_out = self.attachment_check.judge(&mut self.records, fragments);
        self.leave_out(&left_out);
        left_out
    }

    /// Leaves out records with these attachments, and what rests on entries of which no record is left.
    fn leave_out(&mut self, left_out: &[LeftOut]) {
        if left_out.is_empty() {
            return;
        }
        self.attachment_check.forget(left_out);
        self.records.retain(|record| {
            let attached = record.attachment();
            let of = attached.map(|attachment| (attachment.entry.id, attachment.code));
            of.is_none_or(|of| !left_out.contains(&of))
        });
        let mut gone: BTreeSet<EntryId> = left_out.iter().map(|(id, _)| *id).collect();
        for entry in self.records.iter().filter_map(Record::entry) {
            gone.remove(&entry.id);
        }
        gone.iter().for_each(|id| self.retained.forget_entry(*id));
        let rests_on = |record: &M::Record| M::rests_on(&self.config.machine, record);
        let was_said = |id: EntryId| !gone.contains(&id);
        self.records
            .retain(|record| rests_on(record).is_none_or(was_said));
    }

    fn keep(&mut self, record: M::Record, located: Located) {
        if let Some(slot) = record.slot() {
            self.mark_kept(slot, located.at);
        }
        self.retained
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

    /// A slot was decided, and its entry was released, or lost. If it is not covered by a snapshot,
    /// it is missing.
    fn decide_unknown(&mut self, slot: Slot) {
        self.pass(slot, None);
        if slot < self.applier.next() && slot >= self.decided.next() {
            self.decided.restart(slot.next());
        }
    }

    fn pass(&mut self, slot: Slot, entry: Option<&Entry>) {
        self.losses.decided(slot);
        self.until = self.until.max(slot.next());
        self.retained.decided(slot, entry.map(|entry| entry.id));
    }

    /// A slot was decided. Those that the snapshot covers only leave their places; those behind
    /// missing ones wait for them.
    fn decide(&mut self, at: Position, slot: Slot, entry: Option<Entry>, located: Located) {
        self.mark_kept(slot, at);
        self.pass(slot, entry.as_ref());
        let next = self.applier.next();
        if slot < next {
            self.decide_covered(slot, located);
        } else if slot == next {
            self.apply(slot, entry, located);
            while let Some(known) = self.ahead.remove(&self.applier.next()) {
                self.apply(self.applier.next(), known.entry, known.located);
            }
        } else {
            let known = Known {
                entry,
                located,
                noted: at,
            };
            self.ahead.entry(slot).or_insert(known);
        }
    }

    /// A slot out of its order was fetched again: its place, but not its entry, was lost.
    fn decide_covered(&mut self, slot: Slot, located: Located) {
        if slot < self.decided.next() {
            return;
        }
        if slot > self.decided.next() {
            self.decided.restart(slot);
        }
        self.decided.push_place(slot, located);
    }

    fn apply(&mut self, slot: Slot, entry: Option<Entry>, located: Located) {
        if self.decided.next() != slot {
            self.decided.restart(slot);
        }
        let epoch_before = self.applier.newest().number;
        self.apply_and_tell(slot, entry.as_ref());
        self.base.advance(slot, entry.as_ref());
        self.decided.push(slot, entry, Some(located));
        if self.applier.newest().number > epoch_before {
            self.seal();
        }
    }

    /// The epoch ends here, and what its machine promised counts no more.
    fn seal(&mut self) {
        self.base = M::Base::default();
        self.records.clear();
        self.retained = RetainedRecords::new();
        self.attachment_check = AttachmentCheck::default();
        self.others.clear();
        self.losses = Losses {
            began_anew: true,
            seen: self.losses.seen,
            ..Losses::default()
        };
    }

    fn apply_and_tell(&mut self, slot: Slot, entry: Option<&Entry>) {
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

    fn prune(&mut self) {
        let next = self.applier.next();
        still_needed(&mut self.records, next, &self.base, &self.retained);
    }
}

/// Where the log of a snapshot begins, before that was found.
pub(crate) const UNKNOWN: Position = Position {
    segment: 0,
    offset: 0,
};
