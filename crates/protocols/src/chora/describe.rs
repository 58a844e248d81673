//! Messages, records and states in the paper's words, one line each, for conversations and for
//! whoever looks for what is stuck.

use super::Replica;
use super::log::Position;
use super::messages::{Logged, Message, Proposal, Pulse, Reason, Record, Value};
use super::role::Role;
use quorate_core::MemberIndex;
use std::fmt::Write;

/// A message on one line.
pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Pulse(pulse) => self::pulse(pulse),
        Message::Forward { entry } => format!("forward {:?}", entry.id),
        Message::PreVc(question) => {
            let reason = match question.reason {
                Reason::Stalled => "",
                Reason::Restarted => ", restarted",
                Reason::Planned => ", planned",
            };
            format!(
                "pre-vc {}, {}{reason}",
                question.campaign,
                ends(question.position)
            )
        }
        Message::PreVcOk { campaign, view, .. } => format!("to pre-vc {campaign}: yes, in v{view}"),
        Message::Vcr {
            view,
            position,
            only,
        } => {
            let only = only.map_or(String::new(), |only| format!(", for {only} alone"));
            format!("vcr v{view}, {}{only}", ends(*position))
        }
        Message::Vote { view, lives } => format!("vote v{view}{}", lives.describe_later()),
        Message::ReadQ(query) => format!("query {}", query.number),
        Message::ReadA { query, end } => format!("to query {}: end {end:?}", query.number),
        Message::Rejoin { life, next } => format!("rejoin in life {} from {next:?}", life.number),
        Message::RejoinA(answer) => format!(
            "to rejoin: v{}, end {:?}{}",
            answer.floor,
            answer.end,
            answer.lives.describe_later()
        ),
    }
}

fn pulse(pulse: &Pulse) -> String {
    let header = &pulse.header;
    let mut said = match &pulse.proposal {
        Some(proposal) => self::proposal(proposal),
        None if !pulse.nack.is_empty() => "nack".into(),
        None if !pulse.recover.is_empty() => "recover".into(),
        None => "ack".into(),
    };
    for slots in &pulse.nack {
        let _ = write!(said, " {slots:?}");
    }
    for logged in &pulse.recover {
        let _ = write!(said, " {}", self::logged(logged));
    }
    let _ = write!(said, " | v{} ack {:?}", header.view, header.ack);
    if header.commit.0 > 0 {
        let _ = write!(said, " commit {:?}", header.commit);
    }
    if header.asks {
        said += ", asks";
    }
    said + &header.lives.describe_later()
}

fn proposal(proposal: &Proposal) -> String {
    let Proposal {
        skip_from,
        slot,
        value,
    } = proposal;
    match value {
        None => format!("skip {skip_from:?}..{slot:?}"),
        Some(value) if skip_from == slot => format!("propose {slot:?} {}", self::value(value)),
        Some(value) => format!(
            "propose {slot:?} {}, skip from {skip_from:?}",
            self::value(value)
        ),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Noop => "no-op".into(),
        Value::Entry(entry) => format!("{:?}", entry.id),
        Value::Init(init) => {
            let pattern: Vec<String> = init.pattern.iter().map(MemberIndex::to_string).collect();
            format!("view-init v{} of [{}]", init.view, pattern.join(" "))
        }
    }
}

fn logged(logged: &Logged) -> String {
    format!(
        "{:?}={}@v{}",
        logged.slot,
        value(&logged.value),
        logged.eview
    )
}

fn ends(position: Position) -> String {
    format!("log to {:?} in v{}", position.end, position.eview)
}

/// A record on one line.
pub(super) fn record(record: &Record) -> String {
    match record {
        Record::View { view, voted: None } => format!("view v{view}"),
        Record::View {
            view,
            voted: Some(member),
        } => format!("view v{view}, vote for {member}"),
        Record::Append(logged) => format!("append {}", self::logged(logged)),
        Record::Lives {
            lives,
            is_member,
            mute,
        } => {
            let member = if *is_member { "" } else { ", not a member yet" };
            let mute = mute.map_or(String::new(), |view| format!(", silent up to v{view}"));
            format!("lives{}{member}{mute}", lives.describe_later())
        }
    }
}

/// What a replica is and knows, then a line per slot.
pub(super) fn state(replica: &Replica) -> Vec<String> {
    let role = match replica.role {
        Role::Follower => "follows".into(),
        Role::Canvassing { granted, .. } => {
            format!("asks for a view, has {}", granted)
        }
        Role::Candidate { votes } => format!("asks for votes, has {}", votes),
        Role::Initiator => "began it".into(),
    };
    let pattern = match &replica.init {
        Some(init) => value(&Value::Init(init.clone())),
        None => format!("no view-init, start {:?}", replica.start),
    };
    let mode = match replica.rounds.is_pulsing() {
        true => format!(", round {}", replica.rounds.number()),
        false => String::new(),
    };
    let mute = if replica.is_mute_proposer() {
        ", silent in own slots"
    } else {
        ""
    };
    let head = format!(
        "v{}, {role}, {pattern}, verified {:?}, durable {:?}, latest {:?}, next own {:?}{mute}{mode}",
        replica.view,
        replica.verified,
        replica.disk.end(),
        replica.traffic.latest,
        replica.own.next
    );
    let acked: Vec<String> = replica
        .traffic
        .acked
        .iter()
        .map(|ack| format!("{ack:?}"))
        .collect();
    let acked = format!("acknowledged: {}", acked.join(" "));
    let log = replica.log.entries().take(20).map(logged);
    let waiting = replica.pending.values().take(20);
    let waiting = waiting.map(|entry| format!("{} waits", logged(entry)));
    [head, acked]
        .into_iter()
        .chain(log)
        .chain(waiting)
        .collect()
}

/// All that is known, on one line.
pub(super) fn explain(replica: &Replica) -> String {
    let waiting = format!(
        "{} own entries, {} to propose and {} commands wait",
        replica.clients.open.len(),
        replica.queue.len(),
        replica.clients.backlog.len()
    );
    format!("{}; {waiting}", state(replica).join("; "))
}
