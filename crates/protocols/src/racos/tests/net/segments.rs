//! Who has which segment: what hosts do, and what is checked of it.

use super::{Inner, Net};
use crate::racos::{Life, Record};
use quorate_core::{Attachment, Base as _, Carry, Entry, EntryId, Input, Lsn, Wire, hollow_share};

/// Bytes of a record that is written; a segment that is on the disk is not written again.
pub(super) fn written_len(cluster: &Inner, me: usize, record: &Record) -> u64 {
    let is_kept = |entry: &Entry| {
        let same = |kept: &Record| {
            kept.attachment()
                .is_some_and(|kept| kept.entry.id == entry.id)
        };
        cluster.nodes[me].disk.iter().any(|(_, kept)| same(kept))
    };
    let attachment = record.attachment();
    let new = attachment.filter(|attachment| !is_kept(attachment.entry));
    record.to_bytes().len() as u64 + segment_len(new)
}

/// Whether a replica's disk has its segment.
pub(super) fn holds(cluster: &Inner, me: usize, id: EntryId) -> bool {
    let node = &cluster.nodes[me];
    let is_it = |(lsn, record): &(Lsn, Record)| match record {
        Record::Manifest {
            manifest,
            is_held: true,
            ..
        } => *lsn <= node.flushed && manifest.entry.id == id,
        _ => false,
    };
    cluster.watch.kept[me].contains(&id) || node.disk.iter().any(is_it)
}

pub(super) fn check_holders(cluster: &Inner, entry: &Entry, what: &str) {
    let config = &cluster.nodes[0].config;
    let (k, f) = (code_of(cluster, entry.id), config.mvc.thresholds.f);
    let all = 0..cluster.nodes.len();
    let lost = |me: &usize| cluster.nodes[*me].is_lost;
    let holders = all
        .filter(|me| lost(me) || holds(cluster, *me, entry.id))
        .count();
    let id = entry.id;
    assert!(holders >= k + f, "C1: {id:?} {what}, {holders} hold it");
}

/// Every decided value has `k + f` holders, less those that lost their disks and do not vote.
pub(super) fn check_decided(cluster: &Inner) {
    let recent = cluster.chosen.values().rev().take(8).flatten();
    recent
        .filter(|entry| entry.bulk_len() > 0)
        .for_each(|entry| check_holders(cluster, entry, "is decided"));
}

fn can_gather(cluster: &Inner, id: EntryId) -> bool {
    let up = (0..cluster.nodes.len()).filter(|me| cluster.nodes[*me].machine.is_some());
    up.filter(|me| holds(cluster, *me, id)).count() >= code_of(cluster, id)
}

/// How many segments rebuild a value.
fn code_of(cluster: &Inner, id: EntryId) -> usize {
    let code = cluster.watch.codes.get(&id).copied();
    code.unwrap_or(cluster.nodes[0].config.code).into()
}

impl Net {
    /// What hosts do beside: the machine gets what it wants gathered, and segments of decided values that
    /// are lacking are rebuilt, as far as `k` others are up and have theirs.
    pub(in crate::racos::tests) fn rebuild(&mut self, me: usize) {
        if self.nodes[me].machine.is_none() {
            return;
        }
        let log = self.nodes[me].log.clone();
        for entry in log.iter().flatten().filter(|entry| entry.bulk_len() > 0) {
            if can_gather(self, entry.id) {
                self.watch.kept[me].insert(entry.id);
            }
        }
        let gathers = std::mem::take(&mut self.nodes[me].gathers);
        for entry in gathers {
            if log.iter().flatten().any(|decided| decided.id == entry.id) {
                continue;
            }
            if can_gather(self, entry.id) {
                let share = Some(hollow_share(&entry, 1, 0));
                self.step(me, Input::Held(entry.with_share(share)));
            } else {
                self.nodes[me].gathers.push(entry);
            }
        }
    }

    /// How many segments rebuild a value.
    pub(in crate::racos::tests) fn code_of(&self, id: EntryId) -> usize {
        code_of(self, id)
    }

    /// Segments on a disk of values that the replica does not know to be decided or void.
    pub(in crate::racos::tests) fn undecided(&self, me: usize) -> Vec<(EntryId, Life)> {
        let done = &self.nodes[me].base;
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
