//! Quorum reads: a reader asks members how far they have voted, and answers once it is as far.

use super::{Body, Fault, Mutant, World, numbers};
use quorate_core::Slot;
use std::collections::BTreeSet;

/// A read under way.
#[derive(Clone, Debug)]
pub(super) struct Read {
    reader: usize,
    /// The epoch it is asked in.
    epoch: u64,
    /// What it has to see: everything that was answered or read before it began.
    floor: Slot,
    answered: BTreeSet<usize>,
    mark: Slot,
}

impl World {
    pub(super) fn begin_read(&mut self, reader: usize) {
        self.read = Some(Read {
            reader,
            epoch: self.nodes[reader].current(),
            floor: self.seen,
            answered: BTreeSet::new(),
            mark: Slot(0),
        });
    }

    /// A member tells the reader how far it has voted in the read's epoch; a sealed one does not.
    pub(super) fn ask(&mut self, place: usize) {
        let Some(mut read) = self.read.take() else {
            return;
        };
        let node = &self.nodes[place];
        let is_member = self
            .epoch(read.epoch)
            .is_some_and(|epoch| epoch.has(node.me));
        let is_lax = self.has(Mutant::SealNotMarked);
        let is_in_epoch = node.current() == read.epoch && node.running() == Some(read.epoch);
        if is_member && node.is_up() && (is_in_epoch || is_lax) {
            read.mark = read.mark.max(self.mark(place, read.epoch));
            read.answered.insert(place);
        }
        self.read = Some(read);
    }

    /// A vote for anything, a reconfiguration included, raises the mark.
    fn mark(&self, place: usize, epoch: u64) -> Slot {
        let is_lax = self.has(Mutant::SealNotMarked);
        let counts = |body: &Body| !is_lax || !matches!(body, Body::Order(order) if order.seals());
        let voted = self.nodes[place].votes.iter();
        let voted = voted.filter(|((of, _), _)| *of == epoch);
        let voted = voted.filter(|(_, (_, value))| {
            value.is_none_or(|request| counts(&self.requests[usize::from(request)]))
        });
        let voted = voted.map(|((_, slot), _)| slot.next()).max();
        let base = self.epoch(epoch).map_or(Slot(0), |epoch| epoch.first_slot);
        voted.unwrap_or(base)
    }

    /// The reader answers, if it may. E8: it sees what was answered before it was asked.
    pub(super) fn finish_read(&mut self) -> Result<(), Fault> {
        let Some(read) = self.read.clone() else {
            return Ok(());
        };
        let node = &self.nodes[read.reader];
        if !node.is_up() {
            self.read = None;
            return Ok(());
        }
        let quorum = self.epoch(read.epoch).map_or(usize::MAX, |epoch| {
            numbers(epoch).failures + usize::from(!self.has(Mutant::ReadQuorumShort))
        });
        let has_moved = node.current() != read.epoch;
        if has_moved && !self.has(Mutant::OldReadQuorum) {
            // It starts again in the newer epoch; what it has to see stays.
            self.begin_read(read.reader);
            if let Some(again) = &mut self.read {
                again.floor = read.floor;
            }
            return Ok(());
        }
        let next = node.live.next;
        if read.answered.len() < quorum || next < read.mark {
            return Ok(());
        }
        self.read = None;
        self.counts.reads += 1;
        if next < read.floor {
            return Err(format!(
                "stale read: {next} slots are seen, {} were before",
                read.floor
            ));
        }
        self.seen = self.seen.max(next);
        Ok(())
    }
}
