//! Messages, records and state on a line, for people.

use super::Replica;
use super::messages::{Message, Record, Said};
use super::state::{Deps, Instance, Lead, Phase};
use crate::shared::ballot::Ballot;
use quorate_core::{Entry, EntryId, MemberSet};

/// A message on one line.
pub(super) fn message(message: &Message) -> String {
    match &message.said {
        Said::PreAccept(it) => {
            let quorum = by(it.quorum);
            format!("pre-accept {:?}{}{quorum}", it.entry.id, behind(&it.deps))
        }
        Said::PreAcceptA(id, deps, _) => format!("pre-accepted {id:?}{}", behind(deps)),
        Said::Accept(it) => {
            let value = value(it.value.as_ref());
            format!(
                "accept {:?}{} {value}{}",
                it.id,
                at(it.ballot),
                behind(&it.deps)
            )
        }
        Said::AcceptA(id, ballot) => format!("accepted {id:?}{}", at(*ballot)),
        Said::Commit(it) if it.is_void => format!("commit {:?} void", it.id),
        Said::Commit(it) => format!("commit {:?}{}", it.id, behind(&it.deps)),
        Said::Recover(id, ballot) => format!("recover {id:?}{}", at(*ballot)),
        Said::RecoverA(it) => {
            let coordinating = if it.is_coordinating {
                ", coordinates"
            } else {
                ""
            };
            let accepted = at(it.accepted);
            let deps = behind(&it.deps);
            let phase = phase(it.phase, it.is_void);
            format!(
                "joined {:?}{}: {phase}{accepted}{deps}{coordinating}",
                it.id,
                at(it.ballot)
            )
        }
        Said::Nack(id, ballot) => format!("no: {id:?} is{}", at(*ballot)),
        Said::Validate(it) => {
            format!(
                "validate {:?}{}{}",
                it.entry.id,
                at(it.ballot),
                behind(&it.deps)
            )
        }
        Said::ValidateA(it) => {
            let conflicts = it.conflicts.iter().map(|conflict| conflict.id);
            let names = names(conflicts);
            format!("validated {:?}{}: against it{names}", it.id, at(it.ballot))
        }
        Said::Waiting(id, kept_by, deps) => {
            let deps = behind(deps);
            format!("waiting for what contradicts {id:?}{deps}, kept by {kept_by}")
        }
        Said::Ask(ids) => format!("ask{}", names(ids.iter().copied())),
        Said::ReadQ(question) => format!("form an entry for reads {}", question.number),
        Said::ReadA(question, slot) => format!("entry for reads {} in {slot:?}", question.number),
        Said::Progress(is_question) => {
            let header = message.header;
            let question = if *is_question { ", and you?" } else { "" };
            format!(
                "delivered to {:?}, durably to {:?}{question}",
                header.delivered, header.durable
            )
        }
    }
}

/// A record on one line.
pub(super) fn record(record: &Record) -> String {
    match record {
        Record::Instance(kept) => {
            let phase = phase(kept.phase, kept.is_void);
            format!(
                "{:?}{} {phase}{}",
                kept.id,
                at(kept.ballot),
                behind(&kept.deps)
            )
        }
        Record::Delivered(slot) => format!("delivered to {slot:?}"),
        Record::Lost => "promises lost".to_owned(),
    }
}

/// What a replica is and knows, then a line per instance.
pub(super) fn state(replica: &Replica) -> Vec<String> {
    let role = if replica.is_silent {
        "learns only"
    } else {
        "takes part"
    };
    let head = format!(
        "{role}, delivered to {:?}, knows what is delivered from {:?}, floor {:?}",
        replica.next,
        replica.table.since(),
        replica.floor()
    );
    let all = replica.instances.iter();
    let all = all.map(|(id, instance)| format!("{id:?} {}", one(instance)));
    std::iter::once(head).chain(all).collect()
}

/// All that is known, on one line.
pub(super) fn explain(replica: &Replica) -> String {
    format!(
        "{}; {} entries held, {} own, {} commands and {} reads wait, {} executed ahead; delivered elsewhere to {:?}",
        state(replica).join("; "),
        replica.queue.held.len(),
        replica.offers.len(),
        replica.backlog.len(),
        replica.reads.count(),
        replica.ahead.len(),
        replica.fetcher.upto()
    )
}

fn one(instance: &Instance) -> String {
    let lead = match &instance.lead {
        Lead::None => String::new(),
        Lead::PreAccepting(count) => format!(", kept by {}", count.heard()),
        Lead::Accepting(accepting) => format!(", accepted by {}", accepting.accepted_by),
        Lead::Recovering(answers) => format!(", recovers, {} joined", answers.len()),
        Lead::Validating(it) if it.is_waiting => format!(", waits for {:?}", it.conflicts),
        Lead::Validating(it) => format!(", validates, {} of {}", it.heard, it.quorum),
    };
    let lacking = if instance.entry.is_none() {
        ", without entry"
    } else {
        ""
    };
    let phase = phase(instance.phase, instance.is_void);
    format!(
        "{phase}{}{}{lacking}{lead}",
        at(instance.ballot),
        behind(&instance.deps)
    )
}

fn phase(phase: Phase, is_void: bool) -> String {
    let name = match phase {
        Phase::Unknown => "unknown",
        Phase::PreAccepted => "pre-accepted",
        Phase::Accepted => "accepted",
        Phase::Committed => "committed",
    };
    format!("{name}{}", if is_void { " void" } else { "" })
}

fn value(entry: Option<&Entry>) -> &'static str {
    match entry {
        Some(_) => "as it is",
        None => "void",
    }
}

fn at(ballot: Ballot) -> String {
    match ballot == Ballot::default() {
        true => String::new(),
        false => format!(" {ballot:?}"),
    }
}

/// The fast quorum that must keep an entry, if one is named.
fn by(quorum: MemberSet) -> String {
    match quorum.is_empty() {
        true => String::new(),
        false => format!(" by {quorum}"),
    }
}

fn behind(deps: &Deps) -> String {
    let names = names(deps.ids.iter().copied());
    format!(" behind {:?}{names}", deps.after)
}

fn names(ids: impl Iterator<Item = EntryId>) -> String {
    ids.map(|id| format!(" {id:?}")).collect()
}
