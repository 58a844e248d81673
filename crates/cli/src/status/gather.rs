//! Asks all replicas of a cluster, found from any of them.

use super::scrape::Reading;
use crate::endpoints::{Asked, place};
use quorate_server::{MemberPage, StatusPage, first_url};
use quorate_tooling::scrape::NO_ANSWER;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

/// One replica, or an endpoint nothing is known of.
#[derive(Clone, Debug)]
pub(crate) struct Gathered {
    /// The replica's number, if any replica told it.
    pub(crate) id: Option<u16>,
    /// The URL at which clients reach the replica.
    pub(crate) url: String,
    /// What the replica said, or why it did not.
    pub(crate) seen: Result<Seen, String>,
    /// What the replica said a while before, if it was asked then.
    pub(crate) before: Option<Seen>,
}

/// The status page and metrics that a replica sent, and when.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) page: StatusPage,
    pub(crate) reading: Reading,
    pub(crate) at: Instant,
}

impl Gathered {
    /// Whether it takes connections, by the kernel's grace, and does not answer.
    pub(super) fn is_frozen(&self) -> bool {
        matches!(&self.seen, Err(why) if why.contains(NO_ANSWER))
    }
}

/// What is heard of a replica that is being asked.
enum News {
    /// The members that it named, of which some may be unknown yet.
    Members(Vec<String>),
    /// All of what it said.
    Sight(Box<Gathered>),
}

/// Asks the endpoints given, and all members that they know of, each as soon as it is known: so one that does not
/// answer holds up nothing but itself. With a pause, each is asked twice, so far apart.
pub(crate) fn gather(asked: &Asked, pause: Option<Duration>) -> Vec<Gathered> {
    let (tell, told) = mpsc::channel();
    let mut sights = BTreeMap::new();
    std::thread::scope(|scope| {
        let mut known = BTreeSet::new();
        let mut outstanding = 0;
        let mut to_ask = asked.places.clone();
        loop {
            to_ask.retain(|url| known.insert(url.clone()));
            outstanding += to_ask.len();
            for url in to_ask.drain(..) {
                let tell = tell.clone();
                scope.spawn(move || ask(asked, &url, pause, &tell));
            }
            if outstanding == 0 {
                return;
            }
            match told.recv() {
                Ok(News::Members(urls)) => to_ask = urls,
                Ok(News::Sight(sight)) => {
                    outstanding -= 1;
                    sights.insert(sight.url.clone(), *sight);
                }
                // Cannot be: this function holds a sender.
                Err(_) => return,
            }
        }
    });
    arrange(sights)
}

/// Takes what was seen of each replica before, which figures are compared with.
pub(super) fn follow(sights: &mut [Gathered], before: Vec<Gathered>) {
    let mut before: BTreeMap<String, Seen> = before
        .into_iter()
        .filter_map(|sight| Some((sight.url, sight.seen.ok()?)))
        .collect();
    for sight in sights {
        sight.before = before.remove(&sight.url);
    }
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
            before: None,
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
            if let Some(told) = client_place(member).filter(|_| url.is_empty()) {
                *url = told;
            }
        }
    }
    members
}

/// Asks a replica, and tells what it says.
fn ask(asked: &Asked, url: &str, pause: Option<Duration>, tell: &Sender<News>) {
    let first = look(asked, url);
    if let Ok(seen) = &first {
        let urls = seen.page.members.iter().map(client_place);
        let urls = urls.flatten().collect();
        // Whoever listens waits until all that were asked have told.
        let _ = tell.send(News::Members(urls));
    }
    let (seen, before) = match (first, pause) {
        (Ok(first), Some(pause)) => {
            std::thread::sleep(pause);
            (look(asked, url), Some(first))
        }
        (first, _) => (first, None),
    };
    let sight = Gathered {
        id: seen.as_ref().ok().map(|seen| seen.page.replica_id),
        url: url.to_owned(),
        seen,
        before,
    };
    let _ = tell.send(News::Sight(Box::new(sight)));
}

fn look(asked: &Asked, url: &str) -> Result<Seen, String> {
    let look = || -> Result<Seen, String> {
        let page = asked.status_page(url)?;
        let reading = Reading::parse(&asked.get(url, "/metrics")?);
        Ok(Seen {
            page,
            reading,
            at: Instant::now(),
        })
    };
    look().map_err(|why| {
        // The row says where already.
        let why = why.strip_prefix(url).unwrap_or(&why);
        why.trim_start_matches(": ").to_owned()
    })
}

/// Where clients reach a member, if it said so.
fn client_place(member: &MemberPage) -> Option<String> {
    let url = place(first_url(&member.client_url));
    (!url.is_empty()).then(|| url.to_owned())
}
