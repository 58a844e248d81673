//! The numbers that a replica and the others of its cluster have.

use super::host::lead_to_the_same;
use super::roster::{self, Numbered, Roster};
use super::translate::{Cluster, Plan};
use super::urls::{Scheme, Url, joined};
use quorate_server::{
    Meta, Numbers, ReplicaState, SupportedVersions, find_numbers, holds_data, read_meta,
};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// What a replica begins or goes on as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) number: u16,
    /// The members as far as they are known, this one among them.
    pub(super) members: Vec<Numbered>,
    pub(super) is_new: bool,
    /// Whether the folder says all this already.
    pub(super) is_of_folder: bool,
}

/// How long the addresses of the two lists of this member's URLs may take to become the same, as in etcd.
const RESOLVED_WITHIN: Duration = Duration::from_secs(30);
/// How long a change of the members may take to reach those who are asked.
const ADDED_WITHIN: Duration = Duration::from_secs(10);
/// The pause between two questions, to other replicas or to those who know names.
const PAUSE: Duration = Duration::from_millis(500);

/// Finds the replica's place: in its data folder, or else among the members that it is told of.
///
/// # Errors
/// What is wrong with the folder or with what the replica was told.
pub(super) fn find(plan: &Plan) -> Result<Place, String> {
    let dir = &plan.data_dir;
    if !holds_data(dir).map_err(|error| error.to_string())? {
        return begin(plan);
    }
    let meta = read_meta(dir).map_err(|error| error.to_string())?;
    match meta.state {
        // It has agreed to nothing: what it is told now counts.
        ReplicaState::Joining => begin(plan),
        _ => Ok(go_on(plan, &meta)),
    }
}

/// The place that the folder says. What it began with is not asked for again.
fn go_on(plan: &Plan, meta: &Meta) -> Place {
    let number = meta.replica.0;
    let is_me = |member: &Numbered| member.number == number;
    let by_names = || {
        let Cluster::Listed(roster) = &plan.cluster else {
            return None;
        };
        let members = roster.numbered();
        let mut own = members.iter().filter(|member| is_me(member));
        let is_so = own.any(|member| member.name == plan.name);
        is_so.then_some(members)
    };
    let kept = roster::load(&plan.data_dir).or_else(by_names);
    let mut members = kept.unwrap_or_default();
    if !members.iter().any(is_me) {
        members.push(own(plan, number));
    }
    Place {
        number,
        members,
        is_new: meta.state == ReplicaState::Confirmed && plan.is_new,
        is_of_folder: true,
    }
}

/// The place of a replica without data.
fn begin(plan: &Plan) -> Result<Place, String> {
    let roster = match &plan.cluster {
        Cluster::Listed(roster) => roster.clone(),
        Cluster::Discovered(domain) => {
            let found = || domain.roster(&plan.name, &plan.advertise_peer);
            soon(|| {
                found().map_err(|why| NotYet {
                    why,
                    may_change: true,
                })
            })?
        }
    };
    let Some(urls) = roster.members.get(&plan.name) else {
        return Err(format!(
            "couldn't find local name {:?} in the initial cluster configuration",
            plan.name
        ));
    };
    match plan.is_new {
        true => {
            soon(|| check_advertised(plan, urls))?;
            let numbers = ask(plan, &roster)?;
            let known = known(plan, &roster, &numbers);
            Ok(known.unwrap_or_else(|| first(plan, &roster)))
        }
        false => join(plan, &roster),
    }
}

/// Tries until it works or the time is over in which names of hosts should be known.
fn soon<T>(attempt: impl Fn() -> Result<T, NotYet>) -> Result<T, String> {
    let since = Instant::now();
    let mut is_said = false;
    loop {
        match attempt() {
            Ok(found) => return Ok(found),
            Err(NotYet { why, may_change }) => {
                if !may_change || since.elapsed() > RESOLVED_WITHIN {
                    return Err(why);
                }
                if !is_said {
                    is_said = true;
                    tracing::warn!("{why}: tried again until names are known");
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// Why something does not work.
struct NotYet {
    why: String,
    /// Whether it may work once names of hosts are known.
    may_change: bool,
}

/// The place in a cluster that nobody has begun.
fn first(plan: &Plan, roster: &Roster) -> Place {
    let members = roster.numbered();
    let mut own = members.iter().filter(|member| member.name == plan.name);
    Place {
        number: own.next().map_or(1, |member| member.number),
        members,
        is_new: true,
        is_of_folder: false,
    }
}

/// The place in a cluster that runs.
fn join(plan: &Plan, roster: &Roster) -> Result<Place, String> {
    if roster.members.len() < 2 {
        return Err(
            "--initial-cluster-state existing: --initial-cluster names no other member that could be asked".into(),
        );
    }
    let mut first_answer = None;
    let mut is_said = false;
    loop {
        let numbers = ask(plan, roster)?;
        if let Some(number) = plan.own_number() {
            return Ok(place(plan, roster, number, &numbers));
        }
        if let Some(place) = known(plan, roster, &numbers) {
            return Ok(place);
        }
        if numbers.is_running {
            let since: &mut Instant = first_answer.get_or_insert_with(Instant::now);
            if since.elapsed() > ADDED_WITHIN {
                let url = plan.advertise_peer.first().map(Url::to_string);
                return Err(format!(
                    "the cluster that runs has no member at {}: add it first (etcdctl member add {} --peer-urls=URL), \
                     or correct --initial-advertise-peer-urls",
                    url.unwrap_or_default(),
                    plan.name
                ));
            }
        } else if !is_said {
            is_said = true;
            tracing::warn!(
                "no member that --initial-cluster names answers: they are asked again until one does"
            );
        }
        std::thread::sleep(PAUSE);
    }
}

/// Asks the other members which number each has.
fn ask(plan: &Plan, roster: &Roster) -> Result<Numbers, String> {
    let others = roster.members.iter();
    let others = others.filter(|(name, _)| **name != plan.name);
    let places: Vec<String> = others
        .flat_map(|(_, urls)| urls.iter().map(|url| url.place.clone()))
        .collect();
    if places.is_empty() {
        return Ok(Numbers::default());
    }
    let numbers = find_numbers(&places, SupportedVersions::SHIPPED, &plan.peer_security);
    numbers.map_err(|error| error.to_string())
}

/// The place of a replica that the others know by its address.
fn known(plan: &Plan, roster: &Roster, numbers: &Numbers) -> Option<Place> {
    let mut own = plan.advertise_peer.iter();
    let number = own.find_map(|url| numbers.at(&url.place))?;
    Some(place(plan, roster, number.0, numbers))
}

/// The place under a number, among those that the others told of.
fn place(plan: &Plan, roster: &Roster, number: u16, numbers: &Numbers) -> Place {
    let named = |address: &str| {
        let mut members = roster.members.iter();
        members.find_map(|(name, urls)| {
            let url = urls.iter().find(|url| url.place == address)?;
            Some((name.clone(), url.to_string()))
        })
    };
    // All of a cluster speak TLS to each other, or none does.
    let with_scheme = |address: &str| {
        let own = plan.advertise_peer.first();
        let scheme = own.map_or(Scheme::Http, |url| url.scheme);
        let place = address.to_owned();
        Url { scheme, place }.to_string()
    };
    let others = numbers.addresses.iter().filter(|(id, _)| id.0 != number);
    let others = others.map(|(id, address)| {
        let (name, url) =
            named(address).unwrap_or_else(|| (format!("replica-{id}"), with_scheme(address)));
        Numbered {
            number: id.0,
            name,
            url,
        }
    });
    Place {
        number,
        members: others.chain([own(plan, number)]).collect(),
        is_new: false,
        is_of_folder: false,
    }
}

fn own(plan: &Plan, number: u16) -> Numbered {
    let url = plan.advertise_peer.first().map(Url::to_string);
    Numbered {
        number,
        name: plan.name.clone(),
        url: url.unwrap_or_default(),
    }
}

/// Compares the member's URLs in the list with those that it advertises.
fn check_advertised(plan: &Plan, listed: &[Url]) -> Result<(), NotYet> {
    let advertised = &plan.advertise_peer;
    if lead_to_the_same(listed, advertised) {
        return Ok(());
    }
    let is_name = |host: &str| host.parse::<IpAddr>().is_err();
    let mut all = listed.iter().chain(advertised);
    let may_change = all.any(|url| url.host().is_some_and(is_name));
    let lacking = |these: &[Url], those: &[Url]| -> Vec<String> {
        let lacking = these.iter().filter(|url| !those.contains(url));
        lacking.map(|url| format!("{}={url}", plan.name)).collect()
    };
    let (of_list, of_flag) = (lacking(listed, advertised), lacking(advertised, listed));
    let why = match of_list.is_empty() {
        false => format!(
            "--initial-cluster has {} but missing from --initial-advertise-peer-urls={}",
            of_list.join(","),
            joined(advertised)
        ),
        true => format!(
            "--initial-advertise-peer-urls has {} but missing from --initial-cluster={}={}",
            of_flag.join(","),
            plan.name,
            joined(listed)
        ),
    };
    Err(NotYet { why, may_change })
}
