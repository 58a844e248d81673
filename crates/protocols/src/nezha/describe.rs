//! Messages, records and states in the paper's words, one line each.

use super::Replica;
use super::messages::{Message, Placed, Record};
use super::replica::Status;
use quorate_core::{EntryId, MemberIndex, Slot};

/// A message on one line.
pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Request { body, .. } => format!("request {:?}", body.entry.id),
        Message::FastReply(reply) => match &reply.outcome {
            None => format!("fast-reply v{} {:?}", reply.view, reply.id),
            Some(outcome) => format!(
                "fast-reply v{} {:?} as {:?}",
                reply.view, reply.id, outcome.slot
            ),
        },
        Message::Synced { view, upto, .. } => format!("synced v{view} to {upto:?}"),
        Message::LogMod(log_mod) => format!(
            "log-mod v{} from {:?}: {}, cp {:?}{}",
            log_mod.view,
            log_mod.first,
            names(&log_mod.entries),
            log_mod.cp,
            if log_mod.sums.is_some() { ", sums" } else { "" }
        ),
        Message::Fetch {
            view,
            from,
            wants_sums,
        } => {
            let sums = if *wants_sums { " and sums" } else { "" };
            format!("fetch v{view} from {from:?}{sums}")
        }
        Message::FetchBodies { ids } => format!("fetch bodies {ids:?}"),
        Message::Bodies { bodies } => {
            let ids: Vec<EntryId> = bodies.iter().map(|body| body.entry.id).collect();
            format!("bodies {ids:?}")
        }
        Message::VcReq { view, cv } => format!("view-change-req v{view}{}", lives(cv)),
        Message::Vc(vc) => format!(
            "view-change v{} lnv {} from {:?}: {}, unsynced {}{}",
            vc.view,
            vc.lnv,
            vc.first,
            names(&vc.log),
            names(&vc.un),
            lives(&vc.cv)
        ),
        Message::StartView(start) => format!(
            "start-view v{} from {:?}: {}, cp {:?}{}",
            start.view,
            start.first,
            names(&start.log),
            start.cp,
            lives(&start.cv)
        ),
        Message::ReadQ(query) => format!("read? {}", query.number),
        Message::ReadA { query, view, end } => {
            format!("read! {} v{view}{}", query.number, at(*end))
        }
        Message::CvReq { .. } => "crash-vector-req".to_owned(),
        Message::CvRep { cv, .. } => format!("crash-vector-rep {cv:?}"),
        Message::RecReq { cv, .. } => format!("recovery-req {cv:?}"),
        Message::RecRep { view, cv, .. } => format!("recovery-rep v{view} {cv:?}"),
        Message::StateReq { view, cv, .. } => format!("state-req v{view} {cv:?}"),
    }
}

/// A record on one line.
pub(super) fn record(record: &Record) -> String {
    match record {
        Record::Append {
            view, slot, body, ..
        } => format!("append v{view} {slot:?} {:?}", body.entry.id),
        Record::Sync { view, slot, placed } => format!("sync v{view} {slot:?} {:?}", placed.id),
        Record::Unsynced { view, body, .. } => format!("unsynced v{view} {:?}", body.entry.id),
        Record::View { view } => format!("view v{view}"),
        Record::Start { view, first, log } => {
            format!("start v{view} from {first:?}: {}", names(log))
        }
        Record::Life { cv, is_recovering } => {
            let what = if *is_recovering { "recovering" } else { "life" };
            format!("{what} {cv:?}")
        }
    }
}

/// What a replica knows and has not delivered.
pub(super) fn state(replica: &Replica) -> Vec<String> {
    let log: Vec<EntryId> = replica.log.items.iter().map(|item| item.tup.id).collect();
    let un: Vec<EntryId> = replica.unsynced.iter().map(|un| un.item.tup.id).collect();
    let pending: Vec<&EntryId> = replica.gateway.pending.keys().collect();
    let role = match replica.status {
        Status::Normal if replica.leads() => "leads",
        Status::Normal if replica.is_unvouched => "follows without vouching",
        Status::Normal => "follows",
        Status::ViewChange => "waits for",
        Status::Recovering => "recovers towards",
    };
    let (view, lnv) = (replica.view, replica.lnv);
    vec![
        format!(
            "{role} v{view} (lnv {lnv}), {:?}, cp {:?}",
            replica.ap, replica.cp
        ),
        format!("log {log:?}, unsynced {un:?}"),
        format!(
            "early {:?}, late {:?}",
            ids(replica.early.ids()),
            ids(replica.bodies.ids())
        ),
        format!(
            "pending {pending:?}, placed {:?}",
            replica.following.placed.keys()
        ),
    ]
}

/// For people who wonder why nothing happens.
pub(super) fn explain(replica: &Replica) -> String {
    let state = state(replica).join("; ");
    let change = &replica.change;
    let said: Vec<&MemberIndex> = change.said.keys().collect();
    format!(
        "{state}; said {said:?}, start pending {}, rejoin {:?}, sums {}, acks {:?}, durable {:?}, \
         reads {:?}, armed {:?}",
        change.pending.is_some(),
        replica.rejoin,
        replica.log.sums.is_some(),
        replica.lead.acks,
        replica.lead.durable,
        replica.reads,
        replica.watch.armed
    )
}

fn ids(ids: impl Iterator<Item = EntryId>) -> Vec<EntryId> {
    ids.collect()
}

fn names(log: &[Placed]) -> String {
    let ids: Vec<EntryId> = log.iter().map(|placed| placed.id).collect();
    format!("{ids:?}")
}

fn lives(cv: &[u64]) -> String {
    match cv.iter().all(|count| *count == 0) {
        true => String::new(),
        false => format!(", lives {cv:?}"),
    }
}

fn at(end: Option<Slot>) -> String {
    end.map_or(String::new(), |end| format!(", log to {end:?}"))
}
