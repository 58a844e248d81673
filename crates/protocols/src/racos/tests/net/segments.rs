//! Who has which segment: what hosts do, and what is checked of it.

use super::{Net, base};
use crate::racos::{Life, Record};
use quorate_core::{Attachment, Base as _, Carry, Entry, EntryId, Input, Lsn, Wire, hollow_share};

impl Net {
    /// A segment that is on the disk is not written again.
    pub(super) fn count_written(&mut self, me: usize, record: &Record) {
        self.written += record.to_bytes().len() as u64;
        let is_kept = |entry: &Entry| {
            let same = |kept: &Record| {
                kept.attachment()
                    .is_some_and(|kept| kept.entry.id == entry.id)
            };
            self.nodes[me].disk.iter().any(|(_, kept)| same(kept))
        };
        let attachment = record.attachment();
        let new = attachment.filter(|attachment| !is_kept(attachment.entry));
        self.written += segment_len(new);
    }

    /// The host keeps the segments of what is decided and live: everything is.
    pub(super) fn keep_decided(&mut self, me: usize, entry: Option<&Entry>) {
        if let Some(entry) = entry.filter(|entry| entry.bulk_len() > 0)
            && self.holds(me, entry.id)
        {
            self.nodes[me].kept.insert(entry.id);
        }
    }

    /// Whether a replica's disk has its segment.
    pub(super) fn holds(&self, me: usize, id: EntryId) -> bool {
        let node = &self.nodes[me];
        let is_it = |(lsn, record): &(Lsn, Record)| match record {
            Record::Manifest {
                manifest,
                is_held: true,
                ..
            } => *lsn == Lsn(0) && manifest.entry.id == id,
            _ => false,
        };
        node.kept.contains(&id) || node.disk.iter().any(is_it)
    }

    pub(super) fn check_holders(&self, entry: &Entry, what: &str) {
        let config = &self.nodes[0].config;
        let (k, f) = (self.code_of(entry.id), config.mvc.thresholds.f);
        let all = 0..self.nodes.len();
        let lost = |me: &usize| self.nodes[*me].is_lost;
        let holders = all
            .filter(|me| lost(me) || self.holds(*me, entry.id))
            .count();
        let id = entry.id;
        assert!(holders >= k + f, "C1: {id:?} {what}, {holders} hold it");
    }

    /// Every decided value has `k + f` holders, less those that lost their disks and do not vote.
    pub(super) fn check_segments(&self) {
        let recent = self.decided.iter().rev().take(8).flatten();
        recent
            .filter(|entry| entry.bulk_len() > 0)
            .for_each(|entry| self.check_holders(entry, "is decided"));
    }

    /// What hosts do beside: the machine gets what it wants gathered, and segments of decided values that
    /// are lacking are rebuilt, as far as `k` others are up and have theirs.
    pub(in crate::racos::tests) fn rebuild(&mut self, me: usize) {
        if self.nodes[me].machine.is_none() {
            return;
        }
        let log = self.nodes[me].log.clone();
        for entry in log.iter().flatten().filter(|entry| entry.bulk_len() > 0) {
            if self.can_gather(entry.id) {
                self.nodes[me].kept.insert(entry.id);
            }
        }
        let gathers = std::mem::take(&mut self.nodes[me].gathers);
        for entry in gathers {
            if log.iter().flatten().any(|decided| decided.id == entry.id) {
                continue;
            }
            if self.can_gather(entry.id) {
                let share = Some(hollow_share(&entry, 1, 0));
                self.step(me, Input::Held(entry.with_share(share)));
            } else {
                self.nodes[me].gathers.push(entry);
            }
        }
    }

    pub(super) fn can_gather(&self, id: EntryId) -> bool {
        let up = (0..self.nodes.len()).filter(|me| self.nodes[*me].machine.is_some());
        up.filter(|me| self.holds(*me, id)).count() >= self.code_of(id)
    }

    /// How many segments rebuild a value.
    pub(in crate::racos::tests) fn code_of(&self, id: EntryId) -> usize {
        let code = self.codes.get(&id).copied();
        code.unwrap_or(self.nodes[0].config.code).into()
    }

    /// Undecided segments on a disk.
    pub(in crate::racos::tests) fn undecided(&self, me: usize) -> Vec<(EntryId, Life)> {
        let done = base(&self.decided);
        let open = self.nodes[me]
            .disk
            .iter()
            .filter_map(|(_, record)| match record {
                Record::Manifest { manifest, .. } => Some((manifest.entry.id, manifest.life)),
                _ => None,
            });
        open.filter(|(id, _)| !done.contains(*id)).collect()
    }
}

/// Bytes of one member's segment.
pub(super) fn segment_len(attachment: Option<Attachment<'_>>) -> u64 {
    attachment.map_or(0, |Attachment { entry, code }| {
        entry.bulk_len().div_ceil(u64::from(code))
    })
}
