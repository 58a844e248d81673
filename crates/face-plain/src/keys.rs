//! Requests about one key.

use crate::reply::{bad, failed, mismatch, tagged};
use crate::serve::{Face, KEY_BYTES_MAX};
use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use quorate_plain_store::{Item, Outcome, Version, Write};
use quorate_server::Consistency;

/// Serves `GET /kv/KEY`: the value, with its version as the tag.
pub(crate) async fn get(face: &Face, key: String, query: Option<&str>) -> Response {
    let consistency = match query {
        None | Some("") => Consistency::Linearizable,
        Some("serializable" | "serializable=true") => Consistency::Serializable,
        Some(_) => return bad("the only query parameter is `serializable`"),
    };
    match face.read(vec![key.into()], consistency).await {
        Ok(items) => match items.into_iter().next().flatten() {
            Some(Item { version, value }) => tagged(value.into_response(), Some(version)),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        Err(failure) => failed(failure),
    }
}

/// Serves `PUT /kv/KEY`: stores a value, under the conditions in the headers.
pub(crate) async fn put(face: &Face, key: String, headers: &HeaderMap, value: Bytes) -> Response {
    change(face, key, headers, Some(value)).await
}

/// Serves `DELETE /kv/KEY`: deletes the key, under the conditions in the headers.
pub(crate) async fn delete(face: &Face, key: String, headers: &HeaderMap) -> Response {
    change(face, key, headers, None).await
}

async fn change(face: &Face, key: String, headers: &HeaderMap, value: Option<Bytes>) -> Response {
    let key = Bytes::from(key);
    if key.len() > KEY_BYTES_MAX {
        return bad(format!("a key has at most {KEY_BYTES_MAX} bytes"));
    }
    let write = match value {
        Some(value) => Write::put(key.clone(), value),
        None => Write::default().and_delete(key.clone()),
    };
    let write = match wanted(headers) {
        Ok(None) => write,
        Ok(Some(version)) => write.given(key, version),
        Err(why) => return bad(why),
    };
    match face.write(&write).await {
        Ok(Ok(Outcome::Done(versions))) => {
            let version = versions.first().copied().flatten();
            tagged(StatusCode::NO_CONTENT.into_response(), version)
        }
        Ok(Ok(Outcome::Unmet(versions))) => {
            let version = versions.first().copied().flatten();
            tagged(StatusCode::PRECONDITION_FAILED.into_response(), version)
        }
        Ok(Err(_)) => mismatch(),
        Err(failure) => failed(failure),
    }
}

/// The version that the key must have, if any is wanted.
fn wanted(headers: &HeaderMap) -> Result<Option<Option<Version>>, &'static str> {
    match (headers.get(IF_MATCH), headers.get(IF_NONE_MATCH)) {
        (None, None) => Ok(None),
        (Some(tag), None) => {
            let tag = tag.to_str().ok();
            let number = tag.and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok());
            let number = number.ok_or("If-Match: must be one ETag, as in \"123\"")?;
            Ok(Some(Some(Version(number))))
        }
        (None, Some(any)) if any == "*" => Ok(Some(None)),
        (None, Some(_)) => Err("If-None-Match: must be *"),
        (Some(_), Some(_)) => Err("If-Match and If-None-Match contradict each other"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    #[test]
    fn conditions_are_one_tag_or_none_at_all() {
        let of = |pairs: &[(HeaderName, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(name, value.parse().unwrap());
            }
            wanted(&headers)
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[(IF_MATCH, "\"7\"")]), Ok(Some(Some(Version(7)))));
        assert_eq!(of(&[(IF_NONE_MATCH, "*")]), Ok(Some(None)));
        for wrong in [
            &[(IF_MATCH, "7")][..],
            &[(IF_MATCH, "*")],
            &[(IF_MATCH, "\"7\", \"8\"")],
            &[(IF_NONE_MATCH, "\"7\"")],
            &[(IF_MATCH, "\"7\""), (IF_NONE_MATCH, "*")],
        ] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
