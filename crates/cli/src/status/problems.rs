//! What is wrong with a cluster, and what to do: everything that an operator should not have to look for.

use super::gather::{Gathered, Seen};
use super::table::bytes;
use quorate_server::{Role, StatusPage};
use serde::Serialize;
use std::collections::BTreeSet;

/// Something that is wrong, or worth knowing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(crate) struct Problem {
    /// The replica that has it; `None` if it is of the cluster, or of an endpoint that could be nobody's.
    pub(crate) replica_id: Option<u16>,
    /// The kind of trouble; `docs/reference/status.md` lists them.
    pub(crate) kind: &'static str,
    /// What is wrong, and what to do.
    pub(crate) text: String,
}

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) problems: Vec<Problem>,
    pub(crate) notes: Vec<Problem>,
}

/// Fewer bytes than this are little for a log that is written in segments of 64 MiB, and for snapshots beside it.
const LOW_DISK_BYTES: u64 = 512 << 20;
/// Clocks that may be further off make deadlines longer than the round trips that they are to save, in ns.
const CLOCK_ERROR_NS: u64 = 10_000_000;
/// The protocol that orders by clocks.
const BY_CLOCKS: &str = "nezha";

/// Looks for what is wrong.
pub(crate) fn find(sights: &[Gathered]) -> Found {
    let mut found = Found::default();
    let seen: Vec<&Seen> = sights
        .iter()
        .filter_map(|one| one.seen.as_ref().ok())
        .collect();
    for sight in sights {
        match &sight.seen {
            Ok(seen) => of_replica(&seen.page, &mut found),
            Err(why) => of_silence(sight, why, &seen, &mut found),
        }
    }
    broken_links(&seen, &mut found);
    found.problems.sort();
    found.problems.dedup();
    found
}

/// Somebody who could not be asked.
fn of_silence(sight: &Gathered, why: &str, seen: &[&Seen], found: &mut Found) {
    let id = sight.id;
    let member = seen
        .iter()
        .flat_map(|seen| &seen.page.members)
        .find(|member| Some(member.replica_id) == id);
    // Others notice a moment later than here that nobody listens any more.
    let is_connected = !why.contains("refused")
        && (seen.iter()).any(|seen| id.is_some_and(|id| seen.page.links_up.contains(&id)));
    let (kind, text) = match (sight.is_frozen(), is_connected) {
        (true, _) => (
            "frozen",
            format!(
                "it is frozen, or far too busy: {} takes connections, and there was {why}; look at its process and its \
                 machine, and start it again",
                sight.url
            ),
        ),
        (false, true) => (
            "unreachable",
            format!(
                "other replicas are connected to it, and it could not be asked from here ({}: {why})",
                place(&sight.url)
            ),
        ),
        (false, false) => (
            "down",
            format!("it is down ({}: {why}); start it again", place(&sight.url)),
        ),
    };
    let problem = Problem {
        replica_id: id,
        kind,
        text,
    };
    match member {
        Some(member) if member.is_learner => found.notes.push(Problem {
            kind: "learner",
            text: format!("it is a learner, which has no vote, and does not answer: {why}"),
            ..problem
        }),
        _ if kind == "unreachable" => found.notes.push(problem),
        _ => found.problems.push(problem),
    }
}

fn place(url: &str) -> &str {
    match url {
        "" => "its address is unknown",
        url => url,
    }
}

/// What a replica says of itself.
fn of_replica(page: &StatusPage, found: &mut Found) {
    let mut add = |kind, text: String| {
        found.problems.push(Problem {
            replica_id: Some(page.replica_id),
            kind,
            text,
        });
    };
    for alarm in &page.alarms {
        add(kind_of(alarm), alarm.clone());
    }
    if page.role == Role::Rejoining {
        let text = "it lost what it had promised, and does not vote until it has learned from the others how far that \
                    went";
        add("rejoining", text.to_owned());
    }
    let is_low = page.disk_free_bytes.filter(|free| *free < LOW_DISK_BYTES);
    if let Some(free) = is_low
        && !page.alarms.iter().any(|alarm| kind_of(alarm) == "no-space")
    {
        let text = format!(
            "its disk has only {} left: free some space there",
            bytes(free)
        );
        add("disk-low", text);
    }
    let clock = page.clock.as_ref().filter(|_| page.protocol == BY_CLOCKS);
    let off = match clock.map(|clock| clock.error_ns) {
        None => None,
        Some(None) => Some("nobody bounds how far its clock is off".to_owned()),
        Some(Some(error_ns)) if error_ns > CLOCK_ERROR_NS => {
            Some(format!("its clock may be {} ms off", error_ns / 1_000_000))
        }
        Some(Some(_)) => None,
    };
    if let Some(off) = off {
        let text = format!(
            "{off}, which makes {} slow: run a time daemon (chrony, ptp4l), or declare a bound with --clock",
            page.protocol
        );
        add("clock", text);
    }
}

/// The kind of an alarm, by the word that it begins with.
fn kind_of(alarm: &str) -> &'static str {
    match alarm.split(':').next() {
        Some("NOSPACE") => "no-space",
        Some("CORRUPT") => "corrupt",
        Some("NOQUORUM") => "no-quorum",
        Some("EXPIRY") => "certificate",
        _ => "alarm",
    }
}

/// Members that run and do not reach each other.
fn broken_links(seen: &[&Seen], found: &mut Found) {
    let votes = |page: &&StatusPage| page.role != Role::Learner;
    let pages = seen.iter().map(|seen| &seen.page).filter(votes);
    let running: BTreeSet<u16> = pages.clone().map(|page| page.replica_id).collect();
    for page in pages {
        let others = page.members.iter().map(|member| member.replica_id);
        let others = others.filter(|id| *id != page.replica_id && running.contains(id));
        let missed: Vec<String> = others
            .filter(|id| !page.links_up.contains(id))
            .map(|id| id.to_string())
            .collect();
        if !missed.is_empty() {
            found.problems.push(Problem {
                replica_id: Some(page.replica_id),
                kind: "link",
                text: format!(
                    "it has no connection to replica {}, which runs: look at the network and at peer URLs",
                    missed.join(", ")
                ),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scrape::Reading;
    use super::*;
    use quorate_server::{ClockPage, MemberPage};
    use std::time::Instant;

    /// A healthy replica among three.
    fn page(replica_id: u16) -> StatusPage {
        let member = |replica_id| MemberPage {
            replica_id,
            name: String::new(),
            peer_url: String::new(),
            client_url: format!("http://h:{replica_id}"),
            is_learner: replica_id > 3,
        };
        StatusPage {
            replica_id,
            members: (1..=3).map(member).collect(),
            links_up: (1..=3).filter(|id| *id != replica_id).collect(),
            protocol: "rabia".into(),
            disk_free_bytes: Some(1 << 40),
            has_quorum: true,
            ..StatusPage::default()
        }
    }

    fn answered(page: StatusPage) -> Gathered {
        Gathered {
            id: Some(page.replica_id),
            url: format!("h:{}", page.replica_id),
            seen: Ok(Seen {
                page,
                reading: Reading::default(),
                at: Instant::now(),
            }),
            before: None,
        }
    }

    fn silent(id: u16, why: &str) -> Gathered {
        Gathered {
            id: Some(id),
            url: format!("h:{id}"),
            seen: Err(why.to_owned()),
            before: None,
        }
    }

    /// What is found if the third replica is like this.
    fn third(third: Gathered) -> Vec<(Option<u16>, &'static str)> {
        let found = find(&[answered(page(1)), answered(page(2)), third]);
        let named = found.problems.into_iter();
        named.map(|one| (one.replica_id, one.kind)).collect()
    }

    #[test]
    fn each_kind_of_trouble_is_found() {
        assert_eq!(third(answered(page(3))), []);
        assert_eq!(third(silent(3, "no answer in 2 s")), [(Some(3), "frozen")]);
        assert_eq!(third(silent(3, "Connection refused")), [(Some(3), "down")]);
        // The others have it among their connections.
        assert_eq!(third(silent(3, "no connection in 2 s")), []);
        let alarmed = |alarm: &str| {
            answered(StatusPage {
                alarms: vec![alarm.to_owned()],
                ..page(3)
            })
        };
        for (alarm, kind) in [
            ("NOSPACE: full", "no-space"),
            ("CORRUPT: differs", "corrupt"),
            ("NOQUORUM: 1 of 3", "no-quorum"),
            ("EXPIRY: soon", "certificate"),
        ] {
            assert_eq!(third(alarmed(alarm)), [(Some(3), kind)]);
        }
        let rejoining = StatusPage {
            role: Role::Rejoining,
            ..page(3)
        };
        assert_eq!(third(answered(rejoining)), [(Some(3), "rejoining")]);
        let low = StatusPage {
            disk_free_bytes: Some(1 << 20),
            ..page(3)
        };
        assert_eq!(third(answered(low)), [(Some(3), "disk-low")]);
        let cut_off = StatusPage {
            links_up: vec![2],
            ..page(3)
        };
        assert_eq!(third(answered(cut_off)), [(Some(3), "link")]);
    }

    #[test]
    fn clocks_matter_where_they_order() {
        let with = |protocol: &str, error_ns: Option<u64>| {
            let clock = ClockPage {
                source: "kernel".into(),
                is_synchronised: error_ns.is_some(),
                error_ns,
                estimated_error_ns: None,
            };
            third(answered(StatusPage {
                protocol: protocol.into(),
                clock: Some(clock),
                ..page(3)
            }))
        };
        assert_eq!(with("rabia", None), []);
        assert_eq!(with("nezha", None), [(Some(3), "clock")]);
        assert_eq!(with("nezha", Some(20_000_000)), [(Some(3), "clock")]);
        assert_eq!(with("nezha", Some(1_000_000)), []);
    }

    /// Scenario: one replica is down, and the others have noticed; a learner was never started.
    #[test]
    fn a_member_that_is_down_is_a_problem_and_a_learner_is_none() {
        let others = [1, 2].map(|id| {
            let mut page = page(id);
            page.links_up.retain(|peer| *peer != 3);
            page.members.push(MemberPage {
                replica_id: 4,
                is_learner: true,
                ..page.members[0].clone()
            });
            answered(page)
        });
        let why = "Connection refused";
        let sights = [&others[..], &[silent(3, why), silent(4, why)]].concat();
        let found = find(&sights);
        assert_eq!(found.problems.len(), 1);
        assert_eq!(
            (found.problems[0].replica_id, found.problems[0].kind),
            (Some(3), "down")
        );
        assert_eq!(
            (found.notes[0].replica_id, found.notes[0].kind),
            (Some(4), "learner")
        );
    }
}
