//! Messages, records and states in the paper's words, one line each, for conversations and for
//! whoever looks for what is stuck.

use super::Replica;
use super::messages::{Claim, Message, Promise, Record, SlotVote, has_bulk};
use super::role::{Instance, Role};
use crate::shared::ballot::Ballot;
use crate::shared::leadership::Trust;
use quorate_core::{Entry, EntryId, Slot};
use std::fmt::Write;

/// A message on one line.
pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::Forward { entry } => format!("forward {:?}", entry.id),
        Message::PreVote { campaign, next, .. } => format!("pre-vote {campaign} from {next:?}"),
        Message::PreVoteOk {
            campaign, promised, ..
        } => {
            format!("to pre-vote {campaign}: yes, promised {promised:?}")
        }
        Message::Prepare { ballot, from } => format!("prepare {ballot:?} from {from:?}"),
        Message::Promise(part) => promise(part),
        Message::Nack { ballot, promised } => format!("not {ballot:?}: promised {promised:?}"),
        Message::Accept(accept) => format!(
            "accept {:?} {:?} {}{}{}",
            accept.slot,
            accept.ballot,
            entry(&accept.value),
            code_of(&accept.value, accept.code, accept.is_attached),
            chosen(accept.claim)
        ),
        Message::Accepted {
            ballot,
            slot,
            code,
            lives,
        } => {
            let code = if *code == 1 {
                String::new()
            } else {
                format!(" X{code}")
            };
            format!(
                "accepted {slot:?} {ballot:?}{code}{}",
                lives.describe_later()
            )
        }
        Message::Spread {
            entry,
            code,
            is_attached,
        } => {
            let how = if *is_attached { "" } else { " without" };
            format!("spread {:?} X{code}{how}", entry.id)
        }
        Message::Has {
            entry,
            code,
            is_here,
        } => {
            let has = if *is_here { "has" } else { "has not" };
            format!("{has} {entry:?} X{code}")
        }
        Message::Lacks { ballot, slot, code } => format!("lacks {slot:?} {ballot:?} X{code}"),
        Message::Commit {
            ballot,
            claim,
            earlier,
        } => {
            let earlier: Vec<String> = earlier.iter().map(|id| name(*id)).collect();
            let before = if earlier.is_empty() {
                String::new()
            } else {
                format!(", before it {}", earlier.join(" "))
            };
            format!("commit {ballot:?}{}{before}", chosen(*claim))
        }
        Message::Ask { next, until } => format!("ask from {next:?} until {until:?}"),
        Message::ReadQ {
            number,
            wants_lease,
            ..
        } => {
            let lease = if *wants_lease { ", lease wanted" } else { "" };
            format!("query {number}{lease}")
        }
        Message::ReadA { number, answer, .. } => {
            let mark = answer.mark.map(|mark| format!(", mark {mark:?}"));
            let mark = mark.unwrap_or_default();
            let leased = if answer.is_leased { ", leased" } else { "" };
            let granted = if answer.is_granted {
                ", lease granted"
            } else {
                ""
            };
            let promised = answer.promised;
            format!("to query {number}: promised {promised:?}{mark}{leased}{granted}")
        }
        Message::Rejoin { life, next } => format!("rejoin in life {} from {next:?}", life.number),
        Message::RejoinA(answer) => format!(
            "to rejoin: promised {:?}, end {:?}{}",
            answer.floor,
            answer.end,
            answer.lives.describe_later()
        ),
    }
}

fn promise(part: &Promise) -> String {
    let mut said = format!("promise {:?}", part.ballot);
    for vote in &part.votes {
        let SlotVote {
            slot,
            ballot,
            value,
            fragments,
        } = vote;
        let _ = write!(said, " {slot:?}={}@{ballot:?}", entry(value));
        if has_bulk(value.as_ref()) {
            let _ = write!(said, " {fragments:?}");
        }
    }
    match part.until {
        Some(until) => format!("{said}, more from {until:?}{}", part.lives.describe_later()),
        None => format!("{said}{}", part.lives.describe_later()),
    }
}

/// A record on one line.
pub(crate) fn record(record: &Record) -> String {
    match record {
        Record::Promise { ballot } => format!("promise {ballot:?}"),
        Record::Candidacy { ballot } => format!("own ballot {ballot:?}"),
        Record::Accept {
            slot,
            ballot,
            value,
            code,
            is_held,
        } => {
            let code = code_of(value, *code, *is_held);
            format!("accept {slot:?} {ballot:?} {}{code}", entry(value))
        }
        Record::Again { slot, ballot } => format!("accept {slot:?} {ballot:?} again"),
        Record::Lives { lives, is_member } => {
            let member = if *is_member { "" } else { ", not a member yet" };
            format!("lives{}{member}", lives.describe_later())
        }
    }
}

/// What a replica is and knows, then a line per slot.
pub(crate) fn state(replica: &Replica) -> Vec<String> {
    let role = match &replica.role {
        Role::Follower => match replica.leadership.leader {
            Some(leader) => format!("follows {leader} in {:?}", replica.leadership.ballot),
            None => "follows nobody".into(),
        },
        Role::Canvassing { granted } => format!("asks for votes, has {granted}"),
        Role::Candidate(candidate) => {
            let wanted = candidate.wanted.iter();
            let wanted = wanted.filter(|(_, whole)| whole.is_none());
            wanted.fold("gathers promises".into(), |said, (id, _)| {
                format!("{said}, and {id:?}")
            })
        }
        Role::Leader(leader) => format!("leads, next {:?}", leader.next),
    };
    let trust = match replica.leadership.trust {
        Trust::Stale => ", doubts",
        Trust::None | Trust::Fresh => "",
    };
    let head = format!("promised {:?}, {role}{trust}", replica.promised);
    let slots = (replica.ap.0..).map(Slot).zip(&replica.slots);
    let slots = slots.map(|(slot, instance)| slot_state(slot, instance));
    std::iter::once(head).chain(slots).collect()
}

fn slot_state(slot: Slot, instance: &Instance) -> String {
    let Some(accepted) = &instance.accepted else {
        return format!("{slot:?} nothing accepted");
    };
    let value = entry(&accepted.value);
    let chosen = if instance.is_chosen { ", chosen" } else { "" };
    let has_bulk = has_bulk(accepted.value.as_ref());
    let mut said = format!("{slot:?} {value}@{:?}", accepted.ballot);
    if has_bulk {
        let _ = write!(said, " {:?}", accepted.fragments);
    }
    for tally in instance
        .tallies
        .iter()
        .filter(|tally| !tally.acks.is_empty())
    {
        let code = if has_bulk {
            format!("X{} ", tally.code)
        } else {
            String::new()
        };
        let _ = write!(said, ", {code}durable at {}", tally.acks);
    }
    said + chosen
}

/// The code of a value with payloads, and whether its fragment is not there.
fn code_of(value: &Option<Entry>, code: u8, is_there: bool) -> String {
    match (has_bulk(value.as_ref()), is_there) {
        (false, _) => String::new(),
        (true, true) => format!(" X{code}"),
        (true, false) => format!(" X{code} without"),
    }
}

fn chosen(Claim { since, upto }: Claim) -> String {
    if since == upto {
        return String::new();
    }
    format!(", chosen {since:?}..{upto:?}")
}

fn entry(value: &Option<Entry>) -> String {
    name(value.as_ref().map(|entry| entry.id))
}

fn name(value: Option<EntryId>) -> String {
    value.map_or("no-op".into(), |id| format!("{id:?}"))
}

/// All that is known, on one line.
pub(super) fn explain(replica: &Replica) -> String {
    let waiting = format!(
        "{} own entries and {} commands wait",
        replica.offers.len(),
        replica.backlog.len()
    );
    let highest: Ballot = replica.claim.ballot;
    let known = format!("last claim {highest:?}{}", chosen(replica.claim.claim));
    format!("{}; {waiting}; {known}", state(replica).join("; "))
}
