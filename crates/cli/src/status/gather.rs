//! Asks all replicas of a cluster, found from any of them.

use super::scrape::Reading;
use crate::endpoints::{Asked, place};
use quorate_server::{StatusPage, first_url};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// One replica, or an endpoint nothing is known of.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    /// The replica's number, if any replica told it.
    pub(super) id: Option<u16>,
    /// The URL at which clients reach the replica.
    pub(super) url: String,
    /// What the replica said, or why it did not.
    pub(super) seen: Result<Seen, String>,
}

/// The status page and metrics that a replica sent, and when.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) page: StatusPage,
    pub(super) reading: Reading,
    pub(super) at: Instant,
}

/// Asks the endpoints given, and all members they know of.
pub(super) fn gather(asked: &Asked) -> Vec<Gathered> {
    let mut sights: BTreeMap<String, Gathered> = BTreeMap::new();
    let mut to_ask: BTreeSet<String> = asked.places.iter().cloned().collect();
    // Those given, then the members those named.
    for _ in 0..2 {
        for sight in ask_all(asked, &to_ask) {
            sights.insert(sight.url.clone(), sight);
        }
        let members = members(sights.values());
        let urls = members.values().filter(|url| !url.is_empty());
        to_ask = urls
            .filter(|url| !sights.contains_key(*url))
            .cloned()
            .collect();
    }
    arrange(sights)
}

/// One row per replica, by number; endpoints that could be no member's come last.
fn arrange(sights: BTreeMap<String, Gathered>) -> Vec<Gathered> {
    let members = members(sights.values());
    let mut rows: BTreeMap<(u16, String), Gathered> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for (url, mut sight) in sights {
        let named = members.iter().find(|(_, member)| **member == url);
        sight.id = sight.id.or(named.map(|(id, _)| *id));
        match sight.id {
            // One replica may be reached under several names.
            Some(id) if !known.insert(id) => {}
            Some(id) => drop(rows.insert((id, String::new()), sight)),
            None => drop(rows.insert((u16::MAX, url), sight)),
        }
    }
    for (id, url) in members {
        rows.entry((id, String::new())).or_insert_with(|| Gathered {
            id: Some(id),
            url,
            seen: Err("no replica told where clients reach it: add it to --endpoints".to_owned()),
        });
    }
    rows.into_values().collect()
}

/// The URL at which clients reach each member, as far as the replicas that answered know.
fn members<'a>(sights: impl Iterator<Item = &'a Gathered>) -> BTreeMap<u16, String> {
    let mut members: BTreeMap<u16, String> = BTreeMap::new();
    for page in sights.filter_map(|sight| sight.seen.as_ref().ok()) {
        for member in &page.page.members {
            let url = members.entry(member.replica_id).or_default();
            if url.is_empty() && !member.client_url.is_empty() {
                *url = place(first_url(&member.client_url)).to_owned();
            }
        }
    }
    members
}

fn ask_all(asked: &Asked, urls: &BTreeSet<String>) -> Vec<Gathered> {
    std::thread::scope(|scope| {
        let asking: Vec<_> = urls
            .iter()
            .map(|url| scope.spawn(move || ask(asked, url)))
            .collect();
        let answers = asking.into_iter().filter_map(|one| one.join().ok());
        answers.collect()
    })
}

fn ask(asked: &Asked, url: &str) -> Gathered {
    let seen = || {
        let page = asked.status_page(url)?;
        let reading = Reading::parse(&asked.get(url, "/metrics")?);
        Ok(Seen {
            page,
            reading,
            at: Instant::now(),
        })
    };
    let seen = seen().map_err(|why: String| {
        // The row says where already.
        let why = why.strip_prefix(url).unwrap_or(&why);
        why.trim_start_matches(": ").to_owned()
    });
    Gathered {
        id: seen.as_ref().ok().map(|seen| seen.page.replica_id),
        url: url.to_owned(),
        seen,
    }
}
