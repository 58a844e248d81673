//! Messages, records and states in the paper's words, one line each.

use super::Replica;
use super::lanes::{Lane, Lead};
use super::messages::{Held, LaneNo, Learn, Message, Named, Place, Record, Stamp, Votes};

fn lane_name(no: LaneNo) -> String {
    format!("lane {}", no.0 + 1)
}

fn names<'a>(named: impl Iterator<Item = &'a Named>) -> String {
    let each = named.map(|named| format!(", {:?} {:?}", named.stamp, named.id));
    each.collect()
}

fn learnt(learn: &Learn) -> String {
    let Learn { from, through, .. } = learn;
    let lane = lane_name(learn.lane);
    let named = names(learn.named.iter());
    format!("{lane} decided {from:?} to {through:?}{named}")
}

fn voted(votes: &Votes) -> String {
    let named = names(votes.named.iter());
    format!("no accept time {:?} {:?}{named}", votes.nat, votes.ballot)
}

/// A message on one line.
pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Propose(of) => format!("propose {:?} {:?}", of.stamp, of.entry.id),
        Message::Vote(of) => {
            let how = if of.is_for { "accepts" } else { "rejects" };
            let Named { stamp, id } = of.named;
            format!("{how} {stamp:?} {id:?} {:?}", of.ballot)
        }
        Message::Beat(of) => {
            let learned = of.learned.iter().map(learnt);
            let parts: Vec<String> = learned.chain(of.votes.as_ref().map(voted)).collect();
            format!("beat: {}", parts.join("; "))
        }
        Message::Accept(of) => {
            let placed = of.placed.iter();
            let placed: String = placed
                .map(|one| format!(", {:?} {:?}", one.stamp, one.entry.id))
                .collect();
            let (lane, prev, through) = (lane_name(of.lane), of.prev, of.through);
            format!(
                "accept {lane} {prev:?} to {through:?} {:?}{placed}",
                of.ballot
            )
        }
        Message::Accepted(of) => {
            let lane = lane_name(of.lane);
            format!("accepted {lane} to {:?} {:?}", of.through, of.ballot)
        }
        Message::Prepare(no, ballot) => format!("prepare {} {ballot:?}", lane_name(*no)),
        Message::Promise(of) => {
            let shown = of.shown.iter();
            let shown: String = shown
                .map(|one| format!("; {}", held_at(one.stamp, &one.held)))
                .collect();
            let (lane, next) = (lane_name(of.lane), of.mark.next);
            format!(
                "promise {lane} {:?}, delivered to {next:?}{shown}",
                of.ballot
            )
        }
        Message::Nack(no, promised) => format!("no: {} {promised:?}", lane_name(*no)),
        Message::Ask(of) => format!("ask from {:?}, until {:?}", of.mark.next, of.until),
        Message::Mark(of) => format!("time of {:?}: {:?}", of.next, of.walk),
        Message::ReadQ(query) => format!("query {}", query.number),
        Message::ReadA(query, latest) => format!("to query {}: {latest:?}", query.number),
    }
}

fn held_at(stamp: Stamp, held: &Held) -> String {
    let how = if held.is_classic { "accepted" } else { "voted" };
    format!("{stamp:?} {how} {:?} {:?}", held.id, held.ballot)
}

fn placed(place: &Place) -> String {
    let how = if place.is_classic {
        "accepted"
    } else {
        "voted"
    };
    let lane = lane_name(place.lane);
    format!(", {how} {lane} {:?} {:?}", place.stamp, place.ballot)
}

/// A record on one line.
pub(super) fn record(record: &Record) -> String {
    match record {
        Record::Entry(entry, places) => {
            let places: String = places.iter().map(placed).collect();
            format!("{:?}{places}", entry.id)
        }
        Record::Lane(of) => {
            let steps = of.steps.iter();
            let steps: String = steps
                .map(|step| format!(", accepted to {:?} {:?}", step.through, step.ballot))
                .collect();
            format!("{} promise {:?}{steps}", lane_name(of.lane), of.promised)
        }
        Record::Reserve(until) => format!("stamps to {until:?}"),
        Record::Lost => "promises lost".to_owned(),
    }
}

fn of_lane(lane: &Lane) -> Vec<String> {
    let role = match &lane.lead {
        Lead::None => "follows".to_owned(),
        Lead::Preparing(phase) => format!("has {} promises of others", phase.promises.len()),
        Lead::Leading(leading) => format!("leads, asked to {:?}", leading.asked),
    };
    let round = lane
        .round
        .map(|round| format!(", no accept time {:?}", round.nat));
    let (name, round) = (lane_name(lane.no), round.unwrap_or_default());
    let head = format!(
        "{name} {role} {:?}, decided to {:?}{round}",
        lane.promised, lane.decided
    );
    let held = lane.held.iter().map(|(stamp, held)| held_at(*stamp, held));
    std::iter::once(head).chain(held).collect()
}

/// What a replica is and knows, then a line per lane and position.
pub(super) fn state(replica: &Replica) -> Vec<String> {
    let part = if replica.is_silent {
        "learns only"
    } else {
        "takes part"
    };
    let (next, walk) = (replica.next, replica.walk);
    let head = format!("{part}, delivered to {next:?}, which is {walk:?}");
    let lanes = replica.lanes.iter().flat_map(of_lane);
    std::iter::once(head).chain(lanes).collect()
}

/// All that is known, on one line.
pub(super) fn explain(replica: &Replica) -> String {
    let wait = format!(
        "{} own entries and {} commands wait, {} positions, {} entries without a gateway",
        replica.clients.offers.len(),
        replica.clients.backlog.len(),
        replica.waits.len(),
        replica.gateway.orphans.len()
    );
    let elsewhere = format!("delivered elsewhere to {:?}", replica.fetcher.upto());
    format!("{}; {wait}; {elsewhere}", state(replica).join("; "))
}
