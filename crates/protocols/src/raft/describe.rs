//! Messages, records and states in the paper's words, one line each, for conversations and for whoever looks
//! for what is stuck.

use super::Replica;
use super::messages::{Append, LogEnd, LogEntry, Message, Record};
use super::role::Role;
use quorate_core::{MemberIndex, Slot};

/// A message on one line.
pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Offer { entry } => format!("offer {:?}", entry.id),
        Message::PreVote {
            campaign,
            last,
            delivered,
        } => format!("pre-vote {}{}", campaign.number, log_end(last, *delivered)),
        Message::PreVoteOk { campaign, term } => {
            format!("to pre-vote {}: yes, t{term}", campaign.number)
        }
        Message::Vote {
            term,
            last,
            delivered,
        } => format!("vote t{term}?{}", log_end(last, *delivered)),
        Message::Voted { term, lives } => format!("voted t{term}{}", lives.describe_later()),
        Message::Append(append) => append_line(append),
        Message::Appended { term, upto, lives } => {
            format!("appended t{term} to {upto:?}{}", lives.describe_later())
        }
        Message::Behind(behind) => format!(
            "behind t{}: not {:?}, from {:?}, delivered {:?}",
            behind.term, behind.rejected, behind.hint, behind.delivered
        ),
        Message::Newer { term } => format!("newer t{term}"),
        Message::Led { upto } => format!("led, decided to {upto:?}"),
        Message::Ask { next, until } => format!("ask from {next:?} until {until:?}"),
        Message::ReadQ(query) => format!("query {}", query.number),
        Message::ReadA { query, term, mark } => {
            let mark = mark.map(|mark| format!(", mark {mark:?}"));
            let number = query.number;
            format!("to query {number}: t{term}{}", mark.unwrap_or_default())
        }
        Message::Rejoin { life, next } => format!("rejoin in life {} from {next:?}", life.number),
        Message::RejoinA(answer) => format!(
            "to rejoin: t{}, end {:?}{}",
            answer.floor,
            answer.end,
            answer.lives.describe_later()
        ),
    }
}

fn log_end(last: &LogEnd, delivered: Slot) -> String {
    let LogEnd { term, end } = last;
    format!(" log t{term} to {end:?}, delivered {delivered:?}")
}

fn append_line(append: &Append) -> String {
    let Append {
        term,
        from,
        term_before,
        entries,
        commit,
    } = append;
    let before = term_before.map_or("decided".into(), |term| format!("t{term}"));
    let entries = entries.iter().map(|one| format!(" {}", entry(one)));
    let entries: String = entries.collect();
    format!("append t{term} {from:?} behind {before}:{entries}, committed {commit:?}")
}

/// A record on one line.
pub(super) fn record(record: &Record) -> String {
    match record {
        Record::Vote { term, voted_for } => format!("vote t{term}{}", for_whom(*voted_for)),
        Record::Append {
            slot,
            at,
            entry: one,
        } => format!("append {slot:?} {} under t{at}", entry(one)),
        Record::Cut { from, at } => format!("cut {from:?} under t{at}"),
        Record::Lives { lives, is_member } => {
            let member = if *is_member { "" } else { ", not a member yet" };
            format!("lives{}{member}", lives.describe_later())
        }
    }
}

fn for_whom(voted_for: Option<MemberIndex>) -> String {
    voted_for.map_or(String::new(), |member| format!(" for {member}"))
}

fn entry(one: &LogEntry) -> String {
    let name = one.name().map_or("no-op".into(), |id| format!("{id:?}"));
    format!("{name}@t{}", one.term)
}

/// What a replica is and knows, then a line per slot.
pub(super) fn state(replica: &Replica) -> Vec<String> {
    let role = match &replica.role {
        Role::Follower => match replica.leadership.leader {
            Some(leader) => format!("follows {leader}"),
            None => "follows nobody".into(),
        },
        Role::Canvassing { granted } => format!("asks for pre-votes, has {granted}"),
        Role::Candidate(candidate) => format!("asks for votes, has {}", candidate.granted),
        Role::Leader(leader) => format!("leads, no-op {:?}", leader.noop),
    };
    let voted = for_whom(replica.voted_for);
    let head = format!("t{}{voted}, {role}", replica.term);
    let slots = replica.log.iter();
    let slots = slots.map(|(slot, one)| format!("{slot:?} {}", entry(one)));
    std::iter::once(head).chain(slots).collect()
}

/// All that is known, on one line.
pub(super) fn explain(replica: &Replica) -> String {
    let waiting = format!(
        "{} own entries and {} commands wait",
        replica.offers.len(),
        replica.backlog.len()
    );
    let known = format!("decided as far as known to {:?}", replica.claim.upto);
    format!("{}; {waiting}; {known}", state(replica).join("; "))
}
