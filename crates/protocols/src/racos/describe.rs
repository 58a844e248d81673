//! Messages, records and states in the paper's words, one line each.

use super::Replica;
use super::messages::{Manifest, Message, Record, SegAck, Spread, Undecided};
use crate::rabia::weak_mvc;
use crate::shared::lives;
use quorate_core::Introspect;

/// A message on one line.
pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Mvc(weak_mvc::Message::Batch { entry }) if entry.bulk_len() > 0 => {
            format!("candidate {:?}", entry.id)
        }
        Message::Mvc(message) => weak_mvc::describe::message(message),
        Message::Spread(Spread {
            manifest,
            round,
            is_attached,
        }) => {
            let what = if *is_attached { "spread" } else { "held?" };
            format!("{what} {}, round {round}", name(manifest))
        }
        Message::SegAck(SegAck {
            id,
            code,
            life,
            round,
            is_here,
            ..
        }) => {
            let what = if *is_here { "holds" } else { "has none of" };
            format!("{what} {id:?} under {code}, life {life:?}, round {round}")
        }
        Message::Roster { life, next, open } => {
            format!("roster of life {life:?} at {next:?}: open are {open:?}")
        }
        Message::RosterAck { life } => format!("roster of life {life:?} heeded"),
        Message::Lost { loss, number } => {
            let lives::Life { number: loss, boot } = loss;
            format!("lost my disk, number {loss} of {boot:?}, question {number}")
        }
        Message::Undecided(Undecided {
            number,
            count,
            manifest,
            ..
        }) => {
            let what = manifest.as_ref().map(name);
            format!(
                "to loss, {number}: of {count}, {}",
                what.unwrap_or("none".into())
            )
        }
    }
}

/// A record on one line.
pub(super) fn record(record: &Record) -> String {
    match record {
        Record::Mvc(record) => weak_mvc::describe::record(record),
        Record::Manifest {
            manifest,
            is_held,
            is_candidate,
        } => {
            let held = if *is_held { "segment" } else { "no segment" };
            let bit = if *is_candidate { ", candidate" } else { "" };
            format!("manifest {}, {held}{bit}", name(manifest))
        }
        Record::Life { life } => format!("life {life:?}"),
        Record::Roster {
            member, life, open, ..
        } => {
            format!("roster of {member}, life {life:?}: open are {open:?}")
        }
        Record::Loss { member, loss } => {
            format!("{member} lost its disk, number {}", loss.number)
        }
    }
}

fn name(manifest: &Manifest) -> String {
    let Manifest { entry, code, life } = manifest;
    format!("{:?} under {code}, life {life:?}", entry.id)
}

/// What a replica knows, a line per slot and per value.
pub(super) fn state(replica: &Replica) -> Vec<String> {
    let mut lines = weak_mvc::describe::state(&replica.mvc);
    lines.extend(replica.spreading.values().map(|spreading| {
        let what = match spreading.is_announced {
            true => "announced",
            false => "spread",
        };
        let acks = spreading.acks.len();
        format!(
            "{} {what}, {acks} others hold it",
            name(&spreading.manifest)
        )
    }));
    lines
}

/// Why nothing happens.
pub(super) fn explain(replica: &Replica) -> String {
    let mut text = replica.mvc.explain();
    let held = replica
        .segments
        .iter()
        .filter(|(_, segment)| segment.is_held);
    text.push_str(&format!("; {} undecided segments held", held.count()));
    for line in state(replica)
        .into_iter()
        .filter(|line| line.contains("hold it"))
    {
        text.push_str("; ");
        text.push_str(&line);
    }
    if !replica.backlog.is_empty() {
        text.push_str("; long values wait to be spread");
    }
    if let Some(rejoin) = &replica.rejoin {
        text.push_str("; ");
        text.push_str(&rejoin.describe());
    }
    text
}
