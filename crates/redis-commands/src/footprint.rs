//! What bodies touch and what they change, as buckets of keys.

use crate::body::{BODY_TAG, request_bytes};
use bytes::Bytes;
use quorate_redis_store::{Call, Command, Request, Store, find};
use xxhash_rust::xxh3::xxh3_64;

/// Numbers of buckets in which it is noted what changed last.
pub(crate) const BUCKETS: usize = 1 << 16;

/// What the command with this body touches; `None` for everything. The embedded store's table decides: what commutes
/// there does so in a server, too.
pub(crate) fn touches(body: &Bytes) -> Option<Vec<u32>> {
    let touches = Store::COMMAND_PROPERTIES.touches?;
    match body.first() == Some(&BODY_TAG) {
        true => touches(&request_bytes(body)),
        false => None,
    }
}

/// The buckets of the keys that calls may change; `None` for those of all keys.
pub(crate) fn changed(request: &Request) -> Option<Vec<u32>> {
    let mut buckets = Vec::new();
    for call in &request.calls {
        if let Some(command) = find(&call.args[0]).filter(|command| command.is_write()) {
            buckets.extend(changed_by(command, call)?);
        }
    }
    Some(buckets)
}

fn changed_by(command: &Command, call: &Call) -> Option<Vec<u32>> {
    let keys = command.keys(&call.args);
    // `FLUSHALL` and the like name no key and change all.
    if keys.is_empty() && command.name != "select" {
        return None;
    }
    let keys = keys.into_iter().filter_map(|at| call.args.get(at));
    Some(keys.map(|key| bucket(key)).collect())
}

/// The bucket of a key, in all databases. It must stay what it is: all replicas have to agree.
pub(crate) fn bucket(key: &[u8]) -> u32 {
    (xxh3_64(key) % BUCKETS as u64) as u32
}

/// Whether the command with this body may make the state larger.
pub(crate) fn grows(body: &Bytes) -> bool {
    (Store::COMMAND_PROPERTIES.grows)(&request_bytes(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Origin, body};

    fn request(calls: &[&str]) -> Request {
        let calls = calls.iter().map(|call| Call {
            args: call
                .split(' ')
                .map(|word| Bytes::copy_from_slice(word.as_bytes()))
                .collect(),
        });
        Request {
            calls: calls.collect(),
            ..Request::default()
        }
    }

    #[test]
    fn calls_change_the_keys_that_they_write() {
        let changes = |calls: &[&str]| changed(&request(calls));
        let of = |keys: &[&str]| Some(keys.iter().map(|key| bucket(key.as_bytes())).collect());
        assert_eq!(changes(&["set a 1", "get b"]), of(&["a"]));
        assert_eq!(changes(&["mset a 1 b 2", "select 3"]), of(&["a", "b"]));
        assert_eq!(changes(&["set a 1", "flushall"]), None);
    }

    #[test]
    fn what_touches_other_keys_commutes() {
        let touches = |calls: &[&str]| touches(&body(Origin::default(), &request(calls)));
        let [a, b] = [&["incr a"][..], &["incr b"]].map(|calls| touches(calls).unwrap());
        assert!(a.iter().all(|bucket| !b.contains(bucket)));
        assert_eq!(touches(&["flushdb"]), None);
        assert!(grows(&body(Origin::default(), &request(&["incr a"]))));
        assert!(!grows(&body(Origin::default(), &request(&["del a"]))));
    }
}
