//! Messages, records and states in the paper's words, one line each.

use super::Replica;
use super::messages::{Known, Message, Record, Shown, Vote};
use super::state::Role;
use quorate_core::{EntryId, Slot};

/// A message on one line.
pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Propose(entry) => format!("propose {:?}", entry.id),
        Message::FastVote(vote) => {
            format!(
                "fast vote {:?} {:?} {:?}",
                vote.slot, vote.entry, vote.ballot
            )
        }
        Message::Accept(accept) => {
            let name = name(accept.value.as_ref().map(|entry| entry.id));
            format!("accept {:?} {name} {:?}", accept.slot, accept.ballot)
        }
        Message::Accepted(ballot, slot) => format!("accepted {slot:?} {ballot:?}"),
        Message::Commit(commit) => {
            let told = told(commit.first, &commit.names);
            format!("any from {:?} {:?}{told}", commit.any, commit.ballot)
        }
        Message::Prepare(ballot, from) => format!("prepare {ballot:?} from {from:?}"),
        Message::Promise(promise) => {
            let votes = promise.shown.iter();
            let votes: String = votes.map(|one| format!("; {}", vote_in(one))).collect();
            let (ballot, delivered) = (promise.ballot, promise.delivered);
            format!("promise {ballot:?}, delivered to {delivered:?}{votes}")
        }
        Message::Nack(promised) => format!("no: {promised:?}"),
        Message::Ask(next) => format!("ask from {next:?}"),
        Message::ReadQ(query) => format!("query {}", query.number),
        Message::ReadA(query, Known { ballot, mark }) => {
            let mark = mark.map_or(String::new(), |mark| format!(", mark {mark:?}"));
            format!("to query {}: {ballot:?}{mark}", query.number)
        }
    }
}

fn name(name: Option<EntryId>) -> String {
    name.map_or("no-op".into(), |id| format!("{id:?}"))
}

fn told(first: Slot, names: &[Option<EntryId>]) -> String {
    let names: Vec<String> = names.iter().map(|of| name(*of)).collect();
    if names.is_empty() {
        return format!("; decided to {first:?}");
    }
    format!("; decided from {first:?}: {}", names.join(", "))
}

fn vote(vote: &Vote) -> String {
    let how = if vote.is_classic { "accepted" } else { "voted" };
    format!("{how} {} {:?}", name(vote.name()), vote.ballot)
}

fn vote_in(shown: &Shown) -> String {
    format!("{:?} {}", shown.slot, vote(&shown.vote))
}

/// A record on one line.
pub(super) fn record(record: &Record) -> String {
    match record {
        Record::Vote(shown) => vote_in(shown),
        Record::Promise(ballot) => format!("promise {ballot:?}"),
        Record::Lost => "promises lost".to_owned(),
    }
}

/// What a replica is and knows, then a line per slot.
pub(super) fn state(replica: &Replica) -> Vec<String> {
    let role = match &replica.role {
        _ if replica.is_silent => "learns only".to_owned(),
        Role::Follower => match replica.trust.leader {
            Some(leader) => format!("follows {leader}"),
            None => "follows nobody".to_owned(),
        },
        Role::Candidate(candidate) => {
            format!("has {} promises of others", candidate.promises.len())
        }
        Role::Leader(_) => "leads".to_owned(),
    };
    let any = replica.any.map(|any| format!(", votes from {any:?}"));
    let head = format!(
        "{role} by {:?}{}, delivered to {:?}, free {:?}",
        replica.promised,
        any.unwrap_or_default(),
        replica.next,
        replica.free
    );
    let votes = replica.votes.iter();
    let votes = votes.map(|(slot, of)| format!("{slot:?} {}{}", vote(of), counted(replica, *slot)));
    let decided = replica.decided.iter();
    let decided = decided.map(|(slot, of)| format!("{slot:?} decided {}", name(*of)));
    std::iter::once(head).chain(votes).chain(decided).collect()
}

fn counted(replica: &Replica, slot: Slot) -> String {
    let tally = replica
        .leader()
        .and_then(|leader| leader.tallies.get(&slot));
    let Some(tally) = tally else {
        return String::new();
    };
    let votes = tally.votes.iter();
    let votes: String = votes.map(|(at, id)| format!(", {at} for {id:?}")).collect();
    let asked = if tally.is_classic {
        format!(", asked, accepted by {}", tally.accepted_by)
    } else {
        String::new()
    };
    format!("{votes}{asked}")
}

/// All that is known, on one line.
pub(super) fn explain(replica: &Replica) -> String {
    let wait = format!(
        "{} entries heard of, {} own ones and {} commands wait",
        replica.heard.len(),
        replica.clients.offers.len(),
        replica.clients.backlog.len()
    );
    let elsewhere = format!("delivered elsewhere to {:?}", replica.fetcher.upto());
    format!("{}; {wait}; {elsewhere}", state(replica).join("; "))
}
