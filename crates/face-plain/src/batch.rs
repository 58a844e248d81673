//! Several keys at once, in JSON.
//!
//! `POST /write` makes all changes if all conditions hold, and none otherwise:
//!
//! ```json
//! {"if": [{"key": "a", "version": 12}, {"key": "b", "version": null}],
//!  "put": [{"key": "a", "value": "90"}, {"key": "b", "value": "10"}],
//!  "delete": ["c"]}
//! ```
//!
//! A version of `null` stands for no such key. The answer is `{"done": true, "versions": [13, 57, null]}`, of
//! the keys that were put and then of those that were deleted, or (with 412) `{"done": false, "versions":
//! [14, null]}`, of the conditions. `POST /read` with `{"keys": ["a", "b"]}` gives `{"items": [{"version": 13,
//! "value": "90"}, null]}`. Values that are no text are given and taken as `"base64"` in the place of
//! `"value"`.

use crate::reply::{bad, failed, mismatch};
use crate::serve::{Face, KEY_BYTES_MAX};
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use quorate_face_common::{ROOM_PATIENCE, json, overloaded};
use quorate_plain_store::{Item, Outcome, Version, Write};
use quorate_server::{Account, Consistency};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Keys that one request may name: more would conflict with everything anyway.
const KEYS_MAX: usize = 128;

/// What an item takes besides its value.
const ITEM_BYTES: usize = 128;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Asked {
    r#if: Vec<Condition>,
    put: Vec<Put>,
    delete: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    key: String,
    version: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    key: String,
    value: Option<String>,
    base64: Option<String>,
}

#[derive(Serialize)]
struct Done {
    done: bool,
    versions: Vec<Option<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    keys: Vec<String>,
}

#[derive(Serialize)]
struct Read {
    items: Vec<Option<ItemRead>>,
}

#[derive(Serialize)]
struct ItemRead {
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// Serves `POST /write`: several changes under conditions.
pub(crate) async fn write(face: &Face, body: &Bytes) -> Response {
    let write = match serde_json::from_slice(body) {
        Ok(asked) => asked_write(asked),
        Err(error) => Err(error.to_string()),
    };
    let write = match write {
        Ok(write) => write,
        Err(why) => return bad(why),
    };
    let (code, done, versions) = match face.write(&write).await {
        Ok(Ok(Outcome::Done(versions))) => (StatusCode::OK, true, versions),
        Ok(Ok(Outcome::Unmet(versions))) => (StatusCode::PRECONDITION_FAILED, false, versions),
        Ok(Err(_)) => return mismatch(),
        Err(failure) => return failed(failure),
    };
    let versions = versions.into_iter().map(|version| version.map(|v| v.0));
    let versions = versions.collect();
    respond(code, &Done { done, versions })
}

/// `POST /read`. The answer is charged to this account while it is made.
pub(crate) async fn read(face: &Face, account: &Account, body: &Bytes) -> Response {
    let wanted: Wanted = match serde_json::from_slice(body) {
        Ok(wanted) => wanted,
        Err(error) => return bad(error.to_string()),
    };
    if wanted.keys.is_empty() || wanted.keys.len() > KEYS_MAX {
        return bad(format!("a read names 1 to {KEYS_MAX} keys"));
    }
    let keys = wanted.keys.into_iter().map(Bytes::from).collect();
    match face.read(keys, Consistency::Linearizable).await {
        Ok(items) => read_answer(account, items).await,
        Err(failure) => failed(failure),
    }
}

async fn read_answer(account: &Account, items: Vec<Option<Item>>) -> Response {
    let mut charge = account.charge();
    let bytes = items.iter().flatten().map(json_bytes).sum();
    if let Err(why) = charge.add_by(bytes, Instant::now() + ROOM_PATIENCE).await {
        return overloaded(why).map(Body::new);
    }
    let items = items.into_iter().map(|item| item.map(found)).collect();
    // From here on the answer is charged as any other is.
    respond(StatusCode::OK, &Read { items })
}

fn asked_write(asked: Asked) -> Result<Write, String> {
    let mut write = Write::default();
    for Condition { key, version } in asked.r#if {
        if version == Some(0) {
            return Err("no version is 0: null stands for no such key".to_owned());
        }
        write = write.given(key.into(), version.map(Version));
    }
    for Put { key, value, base64 } in asked.put {
        let value = match (value, base64) {
            (Some(value), None) => value.into_bytes(),
            (None, Some(text)) => BASE64_STANDARD
                .decode(text)
                .map_err(|error| format!("the base64 of {key:?}: {error}"))?,
            _ => return Err(format!("{key:?} has neither value nor base64, or both")),
        };
        write = write.and_put(key.into(), value.into());
    }
    for key in asked.delete {
        write = write.and_delete(key.into());
    }
    if write.changes.is_empty() {
        return Err("nothing is put or deleted".to_owned());
    }
    let mut changed: Vec<&Bytes> = write.changes.iter().map(|change| &change.key).collect();
    changed.sort();
    if let Some(twice) = changed.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{:?} is changed twice", twice[0]));
    }
    if write.keys().count() > KEYS_MAX {
        return Err(format!("more than {KEYS_MAX} keys"));
    }
    if write.keys().any(|key| key.len() > KEY_BYTES_MAX) {
        return Err(format!("a key has at most {KEY_BYTES_MAX} bytes"));
    }
    Ok(write)
}

fn found(Item { version, value }: Item) -> ItemRead {
    let text = std::str::from_utf8(&value).ok().map(str::to_owned);
    let base64 = text.is_none().then(|| BASE64_STANDARD.encode(&value));
    ItemRead {
        version: version.0,
        value: text,
        base64,
    }
}

/// What an item takes while it becomes JSON, in bytes: a copy as text, and the text with its escapes.
fn json_bytes(item: &Item) -> usize {
    let is_escaped = |byte: &&u8| matches!(byte, 0..0x20 | b'"' | b'\\');
    let escaped = item.value.iter().filter(is_escaped).count();
    2 * (item.value.len() / 3 * 4 + ITEM_BYTES) + 5 * escaped
}

fn respond(code: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_string(body) {
        Ok(body) => json(code, body + "\n"),
        Err(_) => mismatch(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Write, String> {
        let asked = serde_json::from_str(text).map_err(|error| error.to_string())?;
        asked_write(asked)
    }

    #[test]
    fn a_transfer_is_two_puts_on_two_conditions() {
        let write = asked(
            r#"{"if": [{"key": "a", "version": 12}, {"key": "b", "version": null}],
                "put": [{"key": "a", "value": "90"}, {"key": "b", "base64": "/w=="}],
                "delete": ["c"]}"#,
        );
        let expected = Write::default()
            .given("a".into(), Some(Version(12)))
            .given("b".into(), None)
            .and_put("a".into(), "90".into())
            .and_put("b".into(), Bytes::from_static(b"\xff"))
            .and_delete("c".into());
        assert_eq!(write, Ok(expected));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, why) in [
            ("{}", "nothing is put"),
            (r#"{"put": [{"key": "a"}]}"#, "neither value nor base64"),
            (r#"{"put": [{"key": "a", "base64": "?"}]}"#, "the base64 of"),
            (r#"{"delete": ["a", "a"]}"#, "changed twice"),
            (r#"{"delte": ["a"]}"#, "unknown field"),
            (
                r#"{"if": [{"key": "a", "version": 0}], "delete": ["a"]}"#,
                "no version is 0",
            ),
        ] {
            let refused = asked(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
