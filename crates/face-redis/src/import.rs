//! Another server's data, as whoever follows that one has it ordered.

use crate::RedisApplication;
use crate::quoted::quoted;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use quorate_core::{Principal, Wire};
use quorate_face_common::json;
use quorate_redis_effects::{Command, Import, Outcome};
use quorate_server::Handle;

/// What this replica knows of the stream that another server's goes into.
pub(crate) struct Target {
    pub(crate) epoch: u64,
    pub(crate) import: Option<Import>,
    /// The feature level that imports into it take.
    pub(crate) level: u32,
}

/// Orders a command of an import; what it came to, in JSON. `served` hears of the epoch in which clients are served
/// again.
pub(crate) async fn order(
    handle: &Handle<RedisApplication>,
    stream: Target,
    body: Bytes,
    served: impl FnOnce(u64),
) -> Response {
    let conflict = |why: &str| answer(StatusCode::CONFLICT, "refused", why, (0, 0));
    let is_cutover = match Command::from_bytes(body.clone()) {
        Ok(Command::Import { .. } | Command::Imported { .. }) => false,
        Ok(Command::Cutover { .. }) => true,
        // Those of an executor are its own.
        Ok(Command::Effects { .. }) if stream.import.is_some() => false,
        Ok(Command::Effects { .. }) => return unknown("this replica knows of no import"),
        Ok(Command::Claim { .. }) | Err(_) => return conflict("that is no command of an import"),
    };
    match handle.status().await {
        Err(failure) => return unknown(&failure.to_string()),
        Ok(status) => {
            if let Some(why) = status.lacks_level("imports", stream.level) {
                return match status.rises_to(stream.level) {
                    true => unknown(&why),
                    false => conflict(&why),
                };
            }
        }
    }
    let ordered = handle.write(body, Principal::default()).await;
    let outcome = match ordered.map(Outcome::from_bytes) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => return unknown(&error.to_string()),
        Err(failure) => return unknown(&failure.to_string()),
    };
    let done = |outcome: &str, place| answer(StatusCode::OK, outcome, "", place);
    match outcome {
        Outcome::Claimed { epoch, len } => {
            if is_cutover {
                served(epoch);
            }
            done("begun", (epoch, len))
        }
        Outcome::Accepted { len } => done("accepted", (stream.epoch, len)),
        Outcome::Beyond { len } => done("beyond", (stream.epoch, len)),
        Outcome::Elsewhere { epoch, len } => done("elsewhere", (epoch, len)),
        Outcome::Void { epoch, .. } | Outcome::Stale { epoch, .. } => done("void", (epoch, 0)),
        Outcome::NoSpace => unknown("the group has no room for more: alarms say why"),
        Outcome::Unfit { needed } => conflict(&format!("the servers here have to follow {needed}")),
        Outcome::Malformed => conflict("a replica does not know this command"),
    }
}

/// What nobody knows the end of, or what may be done later.
fn unknown(why: &str) -> Response {
    answer(StatusCode::SERVICE_UNAVAILABLE, "unknown", why, (0, 0))
}

fn answer(code: StatusCode, outcome: &str, why: &str, (epoch, len): (u64, u64)) -> Response {
    let why = quoted(why);
    let text = format!(r#"{{"outcome":"{outcome}","epoch":{epoch},"len":{len},"why":{why}}}"#);
    json(code, text)
}

/// How far an import is, as fields of the page for operators.
pub(crate) fn fields(import: Option<Import>) -> [(&'static str, String); 4] {
    let (state, id, source, len) = match import {
        None => ("none", String::new(), 0, 0),
        Some(Import::Loading) => ("loading", String::new(), 0, 0),
        Some(Import::Following(follows)) => {
            let id = String::from_utf8_lossy(&follows.id).into_owned();
            ("following", id, follows.source, follows.len)
        }
    };
    [
        ("import", quoted(state)),
        ("import_id", quoted(&id)),
        ("import_source", source.to_string()),
        ("import_len", len.to_string()),
    ]
}
