//! What bodies touch: which of them may change places, and which may be carried out ahead of their decision.

use crate::body::{Call, Request};
use crate::followed::STREAM_TAG;
use crate::keyspace::{Keyspace, NEVER};
use crate::table::{Command, find};
use crate::text::Sought;
use crate::users::USERS_TAG;
use bytes::Bytes;
use quorate_core::Wire;
use xxhash_rust::xxh3::xxh3_64;

/// Numbers of buckets. More of them would be more to keep for every view, fewer would have keys that differ
/// conflict.
const BUCKETS: u64 = 1 << 16;

/// What the command with this body touches; `None` for everything. See [`quorate_core::CommandProperties::touches`].
///
/// A key has one bucket in all databases. A body touches everything if what it comes to may depend on when it is
/// carried out, or on keys that it does not name.
pub(crate) fn touches(body: &Bytes) -> Option<Vec<u32>> {
    let request = Request::from_bytes(body.clone()).ok()?;
    let mut buckets: Vec<u32> = request
        .watched
        .iter()
        .map(|watched| bucket(&watched.key))
        .collect();
    for call in &request.calls {
        if let Some(command) = find(&call.args[0]) {
            buckets.extend(keys(command, call)?.map(|key| bucket(key)));
        }
    }
    Some(buckets)
}

/// The keys that a call names, if it touches nothing else and does not ask for the time.
fn keys<'a>(command: &Command, call: &'a Call) -> Option<impl Iterator<Item = &'a Bytes>> {
    let args = &call.args;
    let names_other_keys = match command.name {
        "sort" | "sort_ro" => args.len() > 2,
        "set" => return_time(args),
        _ => command.is_timed(),
    };
    let keys = command.keys(args);
    let is_whole = keys.is_empty() && !KEYLESS.contains(&command.name);
    if names_other_keys || is_whole && command.check_arity(args.len()) {
        return None;
    }
    // A message is to stay behind others of its channel.
    let channel = args.get(1).filter(|_| command.is_message());
    Some(
        keys.into_iter()
            .filter_map(|at| args.get(at))
            .chain(channel),
    )
}

/// Whether a `SET` has options, of which some give it an end.
fn return_time(args: &[Bytes]) -> bool {
    args.len() > 3
}

/// Commands that touch no key and no database.
const KEYLESS: [&str; 5] = ["echo", "ping", "publish", "select", "spublish"];

/// The bucket of a key. It must stay what it is: replicas of all versions must agree on what conflicts.
fn bucket(key: &[u8]) -> u32 {
    (xxh3_64(key) % BUCKETS) as u32
}

/// Whether a body can be carried out ahead of its decision: it changes keys alone, sends no message, and what it
/// comes to does not depend on the time, which other bodies may move. Keys that have an end may be over or not.
pub(crate) fn is_retractable(keyspace: &Keyspace, body: &Bytes) -> bool {
    if let Some(&(USERS_TAG | STREAM_TAG)) = body.first() {
        return false;
    }
    let Ok(request) = Request::from_bytes(body.clone()) else {
        return true;
    };
    let stays = |db: u32, key: &Bytes| {
        let item = keyspace.database(db).get_any(Sought::new(key));
        item.is_none_or(|item| item.expires_ms == NEVER)
    };
    let watched = request.watched.iter();
    watched
        .clone()
        .all(|watched| stays(watched.db, &watched.key))
        && request.calls.iter().all(|call| {
            let Some(command) = find(&call.args[0]) else {
                return true;
            };
            let leaves_database = matches!(command.name, "select" | "copy" | "move");
            let keys = keys(command, call);
            !leaves_database
                && !command.is_message()
                && keys.is_some_and(|mut keys| keys.all(|key| stays(request.db, key)))
        })
}

/// Whether the command with this body may make the state larger.
pub(crate) fn grows(body: &Bytes) -> bool {
    Request::from_bytes(body.clone()).is_ok_and(|request| {
        let mut calls = request.calls.iter();
        calls.any(|call| find(&call.args[0]).is_some_and(Command::is_denyoom))
    })
}
