//! Which changes of the group came about.

use crate::subject::Subject;
use crate::world::World;
use quorate_core::{Epoch, Machine, ReplicaId};

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Counts the changes that led to epochs which have decided a slot by now.
    pub(crate) fn count_changes(&mut self, index: usize) {
        let Some(host) = &self.nodes[index].host else {
            return;
        };
        if host.look().epoch().number <= self.counted {
            return;
        }
        let chain = &host.look().epochs().chain;
        let epochs: Vec<&Epoch> = chain.epochs().collect();
        for pair in epochs.windows(2) {
            let [before, after] = pair else { continue };
            if after.number > self.counted && host.look().applied() > after.first_slot {
                self.counted = after.number;
                for kind in kinds(before, after) {
                    *self.totals.changes.entry(kind).or_default() += 1;
                }
            }
        }
    }
}

/// What changed from one epoch to the next, in words.
fn kinds(before: &Epoch, after: &Epoch) -> Vec<String> {
    let mut kinds = Vec::new();
    let protocols = (protocol(before), protocol(after));
    if protocols.0 != protocols.1 {
        kinds.push(format!("{} -> {}", protocols.0, protocols.1));
    } else if before.params != after.params {
        kinds.push(format!("other parameters of {}", protocols.0));
    }
    let has = |epoch: &Epoch, id: ReplicaId| epoch.index_of(id).is_some();
    let count = |one: &Epoch, other: &Epoch| {
        let members = one.members.iter().filter(|member| !has(other, member.id));
        members.count()
    };
    let what = match (count(after, before), count(before, after)) {
        (0, 0) if before.members != after.members => "other life",
        (0, 0) if kinds.is_empty() => "renewed",
        (0, 0) => return kinds,
        (_, 0) => "member added",
        (0, _) => "member removed",
        _ => "member replaced",
    };
    kinds.push(format!("{what} under {}", protocols.0));
    kinds
}

/// A protocol and its code.
fn protocol(epoch: &Epoch) -> String {
    match epoch.params.get("k") {
        Some(k) => format!("{} {},{k}", epoch.protocol, epoch.n()),
        None => epoch.protocol.clone(),
    }
}
