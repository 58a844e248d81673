//! What hosts do for payloads, without their bytes: who has which fragment is what matters.

use super::net::Watched;
use crate::rs_paxos::{Fragments, Record, Replica};
use quorate_core::{Carry, Entry, Record as _};
use quorate_testkit::Cluster;

type Net = Cluster<Replica, Watched>;

/// Whoever attaches something has all of it, or exactly that.
pub(super) fn check_sender<T: Carry>(said: &T, to: usize) {
    let Some(attachment) = said.attachment() else {
        return;
    };
    let share = attachment.entry.share();
    let share = share.expect("who attaches payloads has something of them at hand");
    let is_it = share.code == attachment.code && usize::from(share.index) == to;
    assert!(share.is_whole() || is_it, "{share:?} for {attachment:?}");
}

/// What a replica's disk has of an entry's payloads.
fn on_disk(net: &Net, me: usize, entry: &Entry) -> Fragments {
    let node = &net.nodes[me];
    let written = node.disk.iter().filter(|(lsn, _)| *lsn <= node.flushed);
    let mut found = Fragments::default();
    for (_, record) in written {
        if let Record::Accept {
            code,
            is_held: true,
            ..
        } = record
            && record.entry() == Some(entry)
        {
            found.add(*code);
        }
    }
    found
}

/// The codes under which so many of these replicas have fragments.
fn holders(net: &Net, among: impl Iterator<Item = usize>, entry: &Entry) -> [usize; 10] {
    let mut holders = [0; 10];
    for me in among {
        let found = on_disk(net, me, entry);
        (1..10).for_each(|code| holders[code] += usize::from(found.has(code as u8)));
    }
    holders
}

/// Whether a replica and those it reaches have an entry's payloads between them.
pub(super) fn can_rebuild(net: &Net, me: usize, entry: &Entry) -> bool {
    let is_reached = |other: &usize| {
        let is_linked = !net.cut.contains(&(*other, me)) && !net.cut.contains(&(me, *other));
        *other == me || net.nodes[*other].machine.is_some() && is_linked
    };
    let reached = (0..net.nodes.len()).filter(is_reached);
    let holders = holders(net, reached, entry);
    (1..10).any(|code| holders[code] >= code)
}

/// A value is chosen: every read quorum can rebuild it (I3).
pub(super) fn check_rebuildable(net: &Net, entry: &Entry) {
    if entry.bulk_len() == 0 {
        return;
    }
    let n = net.nodes.len();
    let outside = n - net.nodes[0].config.thresholds.read;
    let holders = holders(net, 0..n, entry);
    let is_safe = (1..10).any(|code| holders[code] >= outside + code);
    assert!(
        is_safe,
        "every read quorum can rebuild {entry:?} (I3): {holders:?}"
    );
}
