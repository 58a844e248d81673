//! A cluster that runs, asked at any of its replicas.

use super::finding::Finding;
use crate::address::{host, host_port};
use crate::status::{Gathered, Seen, find};
use quorate_server::{EpochPage, StatusPage};
use std::collections::{BTreeMap, BTreeSet};

/// A flush that takes longer makes every write slow, in us.
const SLOW_FLUSH_US: f64 = 10_000.0;
/// Fewer flushes than this say little.
const FLUSHES_MIN: f64 = 5.0;

/// What is wrong, and what is worth knowing.
pub(super) fn examine(sights: &[Gathered]) -> Vec<Finding> {
    let known = find(sights);
    let mut found: Vec<Finding> = Vec::new();
    for problem in known.problems {
        found.push(Finding {
            replica_id: problem.replica_id,
            ..Finding::fault(problem.kind, problem.text)
        });
    }
    for note in known.notes {
        found.push(Finding {
            replica_id: note.replica_id,
            ..Finding::note(note.kind, note.text, "look at it if that is news to you")
        });
    }
    let pages: Vec<&StatusPage> = seen(sights).map(|seen| &seen.page).collect();
    found.extend(of_pages(&pages));
    found.extend(sights.iter().flat_map(between_looks));
    let answered = format!("{} of {} replicas answer", pages.len(), sights.len());
    if !pages.is_empty() {
        found.push(Finding::fine("replicas", answered));
    }
    found
}

fn seen(sights: &[Gathered]) -> impl Iterator<Item = &Seen> {
    sights.iter().filter_map(|sight| sight.seen.as_ref().ok())
}

/// What replicas say, held against each other.
fn of_pages(pages: &[&StatusPage]) -> Vec<Finding> {
    let found = [
        clusters(pages),
        versions(pages),
        views(pages),
        members(pages),
        machines(pages),
        durability(pages),
    ];
    found.into_iter().flatten().collect()
}

/// The replicas that say each thing, in words: `2.0 (replica 1), 2.1 (replicas 2, 3)`.
fn who_says<K: Ord + std::fmt::Display>(said: BTreeMap<K, Vec<u16>>) -> String {
    let all: Vec<String> = said
        .into_iter()
        .map(|(what, ids)| {
            let ids: Vec<String> = ids.iter().map(u16::to_string).collect();
            let noun = if ids.len() == 1 {
                "replica"
            } else {
                "replicas"
            };
            format!("{what} ({noun} {})", ids.join(", "))
        })
        .collect();
    all.join(", ")
}

/// What replicas say of one thing, if it is not the same.
fn differing<K: Ord + std::fmt::Display>(
    pages: &[&StatusPage],
    of: impl Fn(&StatusPage) -> K,
) -> Option<String> {
    let mut said: BTreeMap<K, Vec<u16>> = BTreeMap::new();
    for page in pages {
        said.entry(of(page)).or_default().push(page.replica_id);
    }
    (said.len() > 1).then(|| who_says(said))
}

fn clusters(pages: &[&StatusPage]) -> Option<Finding> {
    let differ = differing(pages, |page| page.cluster_id.clone())?;
    Some(Finding::problem(
        "cluster",
        format!("these are replicas of several clusters: {differ}"),
        "ask one cluster at a time; look at --initial-cluster and the data folders if it should be one",
    ))
}

fn versions(pages: &[&StatusPage]) -> Option<Finding> {
    let kind = "version";
    let remedy = "finish the upgrade: the cluster does what the oldest of them knows";
    if let Some(differ) = differing(pages, |page| page.version.clone()) {
        return Some(Finding::note(
            kind,
            format!("programs differ: {differ}"),
            remedy,
        ));
    }
    let differ = differing(pages, |page| page.wire_version)?;
    Some(Finding::note(
        kind,
        format!("replicas speak up to different wire versions: {differ}"),
        remedy,
    ))
}

/// What a replica takes the cluster to be.
fn view(page: &StatusPage) -> String {
    match page.epochs.last() {
        None => "none".to_owned(),
        Some(EpochPage {
            number,
            protocol,
            members,
            ..
        }) => format!("configuration {number} of {protocol} with members {members:?}"),
    }
}

fn views(pages: &[&StatusPage]) -> Option<Finding> {
    let differ = differing(pages, view)?;
    Some(Finding::note(
        "view",
        format!("replicas take the cluster for different ones: {differ}"),
        "one that is behind catches up by itself; if it does not, look at its links and its log",
    ))
}

/// How many members there are, by the replica that knows most.
fn members(pages: &[&StatusPage]) -> Option<Finding> {
    let epochs = pages.iter().filter_map(|page| page.epochs.last());
    let latest = epochs.max_by_key(|epoch| epoch.number)?;
    let count = latest.members.len();
    let kind = "members";
    match count {
        1 | 2 => Some(Finding::note(
            kind,
            format!("{count} of {count} members must run: no failure is survived"),
            "add members (quorate cluster add) until there are three",
        )),
        _ if count.is_multiple_of(2) => Some(Finding::note(
            kind,
            format!(
                "{count} members survive no more failures than {}",
                count - 1
            ),
            "add one, or remove one; with erasure codes the number goes with the code",
        )),
        _ => None,
    }
}

/// Whether all members are on one machine, which may fail as a whole.
fn machines(pages: &[&StatusPage]) -> Option<Finding> {
    let members = &pages.first()?.members;
    let hosts: BTreeSet<String> = members
        .iter()
        .filter_map(|member| {
            let at = host_port("peer-urls", quorate_server::first_url(&member.peer_url)).ok()?;
            Some(host(&at).to_owned())
        })
        .collect();
    (members.len() > 1 && hosts.len() == 1).then(|| {
        Finding::note(
            "machines",
            format!(
                "all members are at {}",
                hosts.first().map_or("", String::as_str)
            ),
            "that is for trying out: on one machine they fail together",
        )
    })
}

fn durability(pages: &[&StatusPage]) -> Option<Finding> {
    let page = pages.iter().find(|page| page.durability == "memory")?;
    Some(Finding::note(
        "durability",
        format!(
            "{} keeps everything in memory: it is gone when too many replicas stop at once",
            page.protocol
        ),
        "a cluster with --durability disk keeps it; the choice is made when a cluster begins",
    ))
}

/// What happened at a replica between two looks.
fn between_looks(sight: &Gathered) -> Vec<Finding> {
    let (Ok(now), Some(before)) = (&sight.seen, &sight.before) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let lost = lost(before, now);
    if lost > 0.0 {
        found.push(Finding::problem(
            "loss",
            format!(
                "{lost} messages to replicas that it is connected to were thrown away within a moment: links take less \
                 than is sent"
            ),
            "look at the network, at replicas that are frozen, and at `quorate status` for what limits",
        ));
    }
    let (spent, before) = (now.reading.time_at("log"), before.reading.time_at("log"));
    let flushes = spent.1 - before.1;
    let mean_us = (spent.0 - before.0) / flushes.max(1.0) * 1e6;
    if flushes >= FLUSHES_MIN && mean_us > SLOW_FLUSH_US {
        found.push(Finding::note(
            "flush",
            format!(
                "a flush of the log takes {:.0} ms: every write waits for that",
                mean_us / 1e3
            ),
            "give the log a fast disk of its own (--wal-dir)",
        ));
    }
    let id = now.page.replica_id;
    found.into_iter().map(|finding| finding.at(id)).collect()
}

/// Messages that were thrown away between two looks, to peers that it was connected to at both.
fn lost(before: &Seen, now: &Seen) -> f64 {
    let of = |seen: &Seen, peer: &str, name| {
        let all = seen.reading.of_each_peer(name);
        all.get(peer).copied().unwrap_or(0.0)
    };
    let dropped = "quorate_peer_dropped_frames_total";
    let all = now.reading.of_each_peer(dropped);
    let connected = all.iter().filter(|(peer, _)| {
        let is_up = |seen| of(seen, peer, "quorate_peer_connected") > 0.0;
        is_up(before) && is_up(now)
    });
    let added = connected.map(|(peer, count)| count - of(before, peer, dropped));
    added.sum::<f64>().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Reading;
    use quorate_server::MemberPage;
    use std::time::Instant;

    fn page(replica_id: u16, members: &[u16]) -> StatusPage {
        let member = |id: &u16| MemberPage {
            replica_id: *id,
            name: String::new(),
            peer_url: format!("http://10.0.0.{id}:2380"),
            client_url: String::new(),
            is_learner: false,
        };
        StatusPage {
            version: "1.0".into(),
            replica_id,
            durability: "disk".into(),
            members: members.iter().map(member).collect(),
            epochs: vec![EpochPage {
                number: 1,
                first_slot: 0,
                protocol: "rabia".into(),
                params: BTreeMap::new(),
                members: members.to_vec(),
                forced: false,
            }],
            ..StatusPage::default()
        }
    }

    /// The kinds of what is found if the last of some replicas is changed.
    fn kinds(members: &[u16], change: fn(&mut StatusPage)) -> Vec<&'static str> {
        let mut pages: Vec<StatusPage> = members.iter().map(|id| page(*id, members)).collect();
        change(pages.last_mut().unwrap());
        let pages: Vec<&StatusPage> = pages.iter().collect();
        of_pages(&pages).iter().map(|found| found.kind).collect()
    }

    #[test]
    fn replicas_are_held_against_each_other() {
        let three = &[1, 2, 3];
        assert_eq!(kinds(three, |_| {}), [""; 0]);
        let other = |page: &mut StatusPage| page.cluster_id = "7".into();
        assert_eq!(kinds(three, other), ["cluster"]);
        assert_eq!(
            kinds(three, |page| page.version = "0.9".into()),
            ["version"]
        );
        assert_eq!(kinds(three, |page| page.wire_version = 3), ["version"]);
        assert_eq!(kinds(three, |page| page.epochs[0].number = 2), ["view"]);
        assert_eq!(kinds(&[1, 2], |_| {}), ["members"]);
        assert_eq!(kinds(&[1, 2, 3, 4], |_| {}), ["members"]);
        let memory = |page: &mut StatusPage| page.durability = "memory".into();
        assert_eq!(kinds(three, memory), ["durability"]);
    }

    #[test]
    fn members_of_one_machine_fail_together() {
        let mut alone = page(1, &[1, 2, 3]);
        for member in &mut alone.members {
            member.peer_url = format!("http://127.0.0.1:{}", 2380 + member.replica_id);
        }
        assert_eq!(machines(&[&alone]).unwrap().kind, "machines");
        assert_eq!(machines(&[&page(1, &[1, 2, 3])]), None);
    }

    #[test]
    fn what_is_lost_and_what_is_slow_shows_between_two_looks() {
        let at = |dropped: u32, flushes: u32, seconds: f64| Seen {
            page: page(2, &[1, 2, 3]),
            reading: Reading::parse(&format!(
                "quorate_peer_connected{{peer=\"1\"}} 1\n\
                 quorate_peer_connected{{peer=\"3\"}} 0\n\
                 quorate_peer_dropped_frames_total{{peer=\"1\"}} {dropped}\n\
                 quorate_peer_dropped_frames_total{{peer=\"3\"}} {flushes}\n\
                 quorate_latency_seconds_sum{{place=\"log\"}} {seconds}\n\
                 quorate_latency_seconds_count{{place=\"log\"}} {flushes}\n"
            )),
            at: Instant::now(),
        };
        let kinds = |now| {
            let sight = Gathered {
                id: Some(2),
                url: String::new(),
                seen: Ok(now),
                before: Some(at(4, 10, 0.1)),
            };
            let found = between_looks(&sight);
            found.iter().map(|one| one.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(at(4, 20, 0.2)), [""; 0]);
        assert_eq!(kinds(at(5, 20, 0.2)), ["loss"]);
        assert_eq!(kinds(at(4, 20, 0.4)), ["flush"]);
    }
}
