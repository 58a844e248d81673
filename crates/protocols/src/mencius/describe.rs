//! Messages, records and states in the paper's words, one line each, for conversations and for whoever looks
//! for what is stuck.

use super::Replica;
use super::lanes::Span;
use super::messages::{Header, Learned, Message, Record, Shown};
use super::state::{Held, Lead, OWNERS, Value, name};
use crate::shared::ballot::Ballot;
use quorate_core::MemberIndex;

/// A message on one line.
pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Suggest {
            slot,
            ballot,
            entry,
            learned,
            header,
        } => format!(
            "suggest {slot:?}{} {:?}{}{}",
            at(*ballot),
            entry.id,
            told(learned),
            besides(header)
        ),
        Message::Noops {
            span,
            ballot,
            header,
        } => format!("no-ops {}{}{}", slots(*span), at(*ballot), besides(header)),
        Message::Accept {
            ballot,
            spans,
            header,
        } => format!("accept{}{}{}", all(spans), at(*ballot), besides(header)),
        Message::Skip { header } => format!("skip{}", besides(header)),
        Message::Learn { learned, header } => format!("learn{}{}", told(learned), besides(header)),
        Message::Decided { slot, entry } => format!("decided {slot:?} {:?}", entry.id),
        Message::Prepare { lane, ballot, from } => {
            format!("prepare lane {lane} {ballot:?} from {from:?}")
        }
        Message::Promise {
            lane,
            ballot,
            shown: all,
            delivered,
        } => {
            let shown: String = all.iter().map(shown).collect();
            format!("promise lane {lane} {ballot:?}:{shown}; delivered {delivered:?}")
        }
        Message::Nack { lane, promised, .. } => format!("no: lane {lane} has {promised:?}"),
        Message::Ask { next, until } => format!("ask from {next:?} until {until:?}"),
        Message::ReadQ(query) => format!("query {}", query.number),
        Message::ReadA { query, mark } => format!("to query {}: mark {mark:?}", query.number),
    }
}

fn at(ballot: Ballot) -> String {
    match ballot == OWNERS {
        true => String::new(),
        false => format!(" {ballot:?}"),
    }
}

fn slots(Span { first, last }: Span) -> String {
    match first == last {
        true => format!("{first:?}"),
        false => format!("{first:?}-{last:?}"),
    }
}

fn all(spans: &[Span]) -> String {
    spans
        .iter()
        .map(|span| format!(" {}", slots(*span)))
        .collect()
}

fn told(learned: &Learned) -> String {
    let values = learned.values.iter();
    let values: String = values
        .map(|(slot, id)| format!(" {slot:?}={id:?}"))
        .collect();
    match learned.is_empty() {
        true => String::new(),
        false => format!("; decided{values}, no-ops{}", all(&learned.noops)),
    }
}

fn besides(header: &Header) -> String {
    let skips = &header.skips;
    format!(
        "; skips {:?} to {:?} but {:?}",
        skips.from, skips.below, skips.except
    )
}

fn shown(shown: &Shown) -> String {
    let how = shown
        .ballot
        .map_or("decided".into(), |ballot| format!("{ballot:?}"));
    format!(" {} {} {how}", slots(shown.span), value(&shown.value))
}

fn value(value: &Value) -> String {
    name(value).map_or("no-op".into(), |id| format!("{id:?}"))
}

/// A record on one line.
pub(super) fn record(record: &Record) -> String {
    match record {
        Record::Accept {
            slot,
            ballot,
            entry,
        } => format!("accept {slot:?}{} {:?}", at(*ballot), entry.id),
        Record::Noops { span, ballot } => format!("no-ops {}{}", slots(*span), at(*ballot)),
        Record::Promise { lane, ballot } => format!("promise lane {lane} {ballot:?}"),
        Record::Reserve { until } => format!("reserve until {until:?}"),
        Record::Lost => "promises lost".to_owned(),
    }
}

/// What a replica is and knows, then a line per slot.
pub(super) fn state(replica: &Replica) -> Vec<String> {
    let own = &replica.own;
    let role = if replica.is_silent {
        "learns only"
    } else {
        "takes part"
    };
    let head = format!(
        "{role}, delivered to {:?}, seen to {:?}, own slots from {:?}, next {:?}",
        replica.next, replica.seen, own.from, own.next
    );
    let lanes = (0..replica.lanes.len()).map(|position| lane(replica, MemberIndex::new(position)));
    let slots = replica.slots.iter().map(|(slot, of)| {
        let is_proposed = replica.proposals.get(slot);
        let proposed = is_proposed.map(|proposal| {
            format!(
                ", proposed{}, accepted by {}",
                at(proposal.ballot),
                proposal.accepted_by
            )
        });
        format!("{slot:?} {}{}", held(of), proposed.unwrap_or_default())
    });
    std::iter::once(head).chain(lanes).chain(slots).collect()
}

fn lane(replica: &Replica, lane: MemberIndex) -> String {
    let state = &replica.lanes[lane];
    let lead = match &state.lead {
        Lead::None => String::new(),
        Lead::Preparing(preparing) => {
            format!(
                ", asks by {:?}, has {}",
                preparing.ballot, preparing.promised_by
            )
        }
        Lead::Leading(leading) => {
            format!(
                ", leads by {:?}, filled to {:?}",
                leading.ballot, leading.filled
            )
        }
    };
    let (promised, highest) = (state.promised, state.highest);
    format!("lane {lane}: promised {promised:?}, heard of {highest:?}{lead}")
}

fn held(held: &Held) -> String {
    let accepted = held.accepted.as_ref();
    let accepted = accepted.map(|(ballot, of)| format!("accepted {}{}", value(of), at(*ballot)));
    let decided = held
        .decided
        .as_ref()
        .map(|of| format!("decided {}", value(of)));
    let claimed = held.claimed.map(|id| format!("said to be {id:?}"));
    let known: Vec<String> = [accepted, decided, claimed].into_iter().flatten().collect();
    known.join(", ")
}

/// All that is known, on one line.
pub(super) fn explain(replica: &Replica) -> String {
    let waiting = format!(
        "{} own entries and {} commands wait",
        replica.offers.len(),
        replica.backlog.len()
    );
    let known = format!("delivered elsewhere to {:?}", replica.claim.upto);
    format!("{}; {waiting}; {known}", state(replica).join("; "))
}
