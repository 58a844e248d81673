//! Messages, records and states in the paper's words, one line each, for conversations and for whoever looks for what
//! is stuck.

use super::Replica;
use super::messages::{Message, Record, Reply, StartView, Sync, Value, ViewChange};
use quorate_core::Slot;

/// A message on one line.
pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Stamp { session, entry } => format!("stamp in {session}: {:?}", entry.id),
        Message::Marked {
            session,
            number,
            entry,
        } => format!("marked {session}.{number} {:?}", entry.id),
        Message::Reply(reply) => said_of(reply),
        Message::Lookup { view, from, until } => format!("lookup {view:?} {from:?} to {until:?}"),
        Message::Gap { view, from, until } => format!("gap {view:?} {from:?} to {until:?}"),
        Message::GapA { view, until } => format!("gap reply {view:?} to {until:?}"),
        Message::ViewChangeReq(view) => format!("view change request {view:?}"),
        Message::ViewChange(change) => left(change),
        Message::StartView(StartView {
            view, first, log, ..
        }) => format!("start view {view:?}{}", values(*first, log)),
        Message::Sync(Sync {
            view,
            from,
            upto,
            noops,
        }) => format!("sync {view:?} {from:?} to {upto:?}, no-ops {noops:?}"),
        Message::SyncA { view, upto } => format!("sync reply {view:?} to {upto:?}"),
        Message::Synced { view, upto } => format!("sync commit {view:?} to {upto:?}"),
        Message::Ask(view) => format!("ask {view:?}"),
        Message::ReadQ(query) => format!("query {}", query.number),
        Message::ReadA {
            query, view, end, ..
        } => {
            let end = end.map_or(String::new(), |end| format!(", the log ends at {end:?}"));
            format!("to query {}: {view:?}{end}", query.number)
        }
    }
}

fn said_of(reply: &Reply) -> String {
    let results = reply.results.as_ref();
    let results = results.map_or(String::new(), |all| format!(", {} results", all.len()));
    format!(
        "reply {:?} {:?} {:?}{results}",
        reply.view, reply.slot, reply.id
    )
}

fn left(change: &ViewChange) -> String {
    let log = values(change.first, &change.log);
    format!(
        "view change {:?} from {:?}{log}",
        change.view, change.last_normal
    )
}

fn values(first: Slot, log: &[Value]) -> String {
    let all: String = log.iter().map(|one| format!(" {}", value(one))).collect();
    format!(", from {first:?}:{all}")
}

fn value(value: &Value) -> String {
    let name = value.as_ref().map(|entry| format!("{:?}", entry.id));
    name.unwrap_or_else(|| "no-op".to_owned())
}

/// A record on one line.
pub(super) fn record(record: &Record) -> String {
    match record {
        Record::Place {
            view,
            slot,
            value: held,
        } => format!("place {view:?} {slot:?} {}", value(held)),
        Record::Again { view, slot, entry } => format!("again {view:?} {slot:?} {:?}", entry.id),
        Record::View {
            view, last_normal, ..
        } => format!("view {view:?}, last normal {last_normal:?}"),
        Record::Lost => "promises lost".to_owned(),
    }
}

/// What a replica is and knows, then a line per slot.
pub(super) fn state(replica: &Replica) -> Vec<String> {
    let part = match (replica.is_silent, replica.is_normal(), replica.is_leader()) {
        (true, ..) => "learns only",
        (_, false, _) => "waits for it to start",
        (_, _, true) => "leads",
        _ => "follows",
    };
    let (view, lead) = (replica.view, &replica.lead);
    let mut lines = vec![format!(
        "{view:?}, {part}, last normal {:?}, delivered to {:?}, alike to {:?}, decided to {:?}",
        replica.last_normal, replica.log.next, lead.matched, lead.synced
    )];
    if let Some(gap) = &replica.gaps.commit {
        let (from, until) = (gap.from, gap.until);
        lines.push(format!("gap {from:?} to {until:?}, had by {}", gap.had_by));
    }
    for (slot, held) in replica.log.iter() {
        lines.push(format!("{slot:?} {}", value(held)));
    }
    for (number, entry) in &replica.early {
        lines.push(format!("stamp {number} is early: {:?}", entry.id));
    }
    lines
}

/// All that is known, on one line.
pub(super) fn explain(replica: &Replica) -> String {
    let gateway = &replica.gateway;
    let (open, unanswered) = (gateway.offers.len(), gateway.unanswered.len());
    let elsewhere = replica.claim.upto;
    let known = state(replica).join("; ");
    format!("{known}; {open} own entries open, {unanswered} unanswered; elsewhere to {elsewhere:?}")
}
