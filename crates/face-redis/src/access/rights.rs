//! What users may ask for, of the commands of the face and of the store, and the rules that say so.

use super::{User, password_hash};
use crate::table::{self, Found, Kind, Own};
use bytes::Bytes;
use quorate_redis_store::{Denied, is_of_redis, password_rule};
use std::collections::BTreeSet;

/// The categories that rules may name: those of Redis.
const CATEGORIES: [&str; 22] = [
    "admin",
    "all",
    "bitmap",
    "blocking",
    "connection",
    "dangerous",
    "fast",
    "geo",
    "hash",
    "hyperloglog",
    "keyspace",
    "list",
    "pubsub",
    "read",
    "scripting",
    "set",
    "slow",
    "sortedset",
    "stream",
    "string",
    "transaction",
    "write",
];

/// Subcommands of `ACL` that everybody may ask for who may ask for slow commands.
const OPEN_ACL: [&str; 4] = ["cat", "genpass", "help", "whoami"];

/// The categories of a subcommand of `ACL`.
fn acl_categories(subcommand: &[u8]) -> BTreeSet<&'static str> {
    let is_open = OPEN_ACL
        .iter()
        .any(|open| subcommand.eq_ignore_ascii_case(open.as_bytes()));
    match is_open {
        true => BTreeSet::from(["slow"]),
        false => BTreeSet::from(["admin", "dangerous", "slow"]),
    }
}

/// A rule without the password in it, if there is one, and with small letters in hashes.
pub(crate) fn prepared(rule: &[u8]) -> Bytes {
    if let Some(hashed) = password_rule(rule, password_hash) {
        return hashed;
    }
    match rule.first() {
        Some(b'#' | b'!') => rule.to_ascii_lowercase().into(),
        _ => Bytes::copy_from_slice(rule),
    }
}

/// Refuses a rule about commands that nobody knows.
pub(crate) fn check_rule(rule: &[u8]) -> Result<(), String> {
    let Some((b'+' | b'-', name)) = rule.split_first() else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(name).to_ascii_lowercase();
    if let Some(category) = text.strip_prefix('@') {
        return match CATEGORIES.contains(&category) {
            true => Ok(()),
            false => Err(format!("there is no category `{text}` here")),
        };
    }
    let command = text.split('|').next().unwrap_or_default();
    match table::find(command.as_bytes()).is_some() || is_of_redis(command.as_bytes()) {
        true => Ok(()),
        false => Err(format!("there is no command `{text}`")),
    }
}

/// Whether a user may not ask for this, and why.
pub(crate) fn denies(user: &User, command: Found, args: &[Bytes]) -> Option<Denied> {
    let own = match command {
        Found::Stored(command) => return user.denies(command, args),
        Found::Own(own) => own,
    };
    let subcommand = args.get(1).map(|word| &word[..]);
    let categories = || match own.kind {
        Kind::Acl => acl_categories(subcommand.unwrap_or_default()),
        _ => command.categories(),
    };
    if !user.may_run(own.name, subcommand, categories) {
        return Some(Denied::Command(own.name));
    }
    let keys = command.keys(args);
    if !user.may_use_keys(keys.iter().filter_map(|at| args.get(*at))) {
        return Some(Denied::Key);
    }
    match may_use_channels(user, own, args) {
        true => None,
        false => Some(Denied::Channel),
    }
}

fn may_use_channels(user: &User, own: &Own, args: &[Bytes]) -> bool {
    let mut named = args.iter().skip(1);
    match own.kind {
        Kind::Subscribe => named.all(|channel| user.may_use_channel(channel)),
        Kind::Psubscribe => named.all(|pattern| user.may_use_pattern(pattern)),
        _ => true,
    }
}
