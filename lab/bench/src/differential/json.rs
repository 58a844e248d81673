//! Calls through the gateway for JSON: what is sent, and answers in one form, without what every system has of its own.

use bytes::Bytes;
use prost::Message;
use quorate_etcd_json::{CALLS, Call, decode, encode};
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::leases::Leases;
use super::step::Outcome;

/// What a gateway answered.
pub(crate) struct JsonAnswer {
    status: u16,
    body: Value,
}

/// The call of a gRPC method, if it can be made in JSON.
pub(crate) fn call_of(method: &str) -> Option<&'static Call> {
    CALLS.iter().find(|call| call.method == method)
}

/// Asks a gateway.
pub(crate) async fn post(
    authority: &str,
    call: &Call,
    request: &impl Message,
    token: Option<&str>,
) -> Result<JsonAnswer, String> {
    let mut body = String::new();
    let encoded = encode(&request.encode_to_vec(), call.request, &mut body);
    encoded.map_err(|error| error.to_string())?;
    let token = token.map(|token| format!("Authorization: {token}\r\n"));
    // HTTP/1.0 makes the server close the connection after an unchunked body.
    let request = format!(
        "POST /v3/{} HTTP/1.0\r\nHost: {authority}\r\nContent-Length: {}\r\n{}\r\n{body}",
        call.path,
        body.len(),
        token.unwrap_or_default(),
    );
    let answer = exchange(authority, &request).await;
    let answer = answer.map_err(|error| format!("{authority}: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no HTTP answer")?;
    let status = head.split_ascii_whitespace().nth(1);
    let status = status.and_then(|status| status.parse().ok());
    Ok(JsonAnswer {
        status: status.ok_or("no HTTP answer")?,
        body: serde_json::from_str(body).map_err(|error| format!("{error} in {body}"))?,
    })
}

/// Whether a probe of a member finds it well.
pub(crate) async fn is_well(authority: &str, probe: &str) -> Result<bool, String> {
    let request = format!("GET {probe} HTTP/1.0\r\nHost: {authority}\r\n\r\n");
    let answer = exchange(authority, &request).await;
    let answer = answer.map_err(|error| format!("{authority}: {error}"))?;
    Ok(answer.split_ascii_whitespace().nth(1) == Some("200"))
}

async fn exchange(authority: &str, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(authority).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

impl JsonAnswer {
    /// The message in it, unless the call failed.
    pub(crate) fn message<M: Message + Default>(&self, call: &Call) -> Result<Option<M>, String> {
        if self.status != OK {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let decoded = decode(self.body.to_string().as_bytes(), call.response, &mut bytes);
        decoded.map_err(|error| error.to_string())?;
        let message = M::decode(Bytes::from(bytes)).map_err(|error| error.to_string())?;
        Ok(Some(message))
    }

    /// The answer as an outcome: its fields in the order of their names, numbers of leases by name.
    pub(crate) fn outcome(mut self, call: &Call, leases: &Leases) -> Outcome {
        let mut outcome = Outcome {
            succeeded: self.status == OK,
            ..Outcome::default()
        };
        if let Some(revision) = self.body.pointer("/header/revision") {
            outcome.revision = number(revision);
        }
        if let Some(fields) = self.body.as_object_mut()
            && call.path.ends_with("timetolive")
        {
            // Compared as a number, which may differ a little.
            fields.remove("TTL");
        }
        mask(&mut self.body, leases);
        outcome.text = format!("{} {}", self.status, self.body);
        outcome
    }
}

/// Leaves out what every system has of its own.
fn mask(value: &mut Value, leases: &Leases) {
    match value {
        Value::Object(map) => mask_fields(map, leases),
        Value::Array(values) => values.iter_mut().for_each(|value| mask(value, leases)),
        _ => {}
    }
}

fn mask_fields(map: &mut Map<String, Value>, leases: &Leases) {
    map.retain(|name, _| !OWN_FIELDS.contains(&&name[..]));
    for (name, value) in map {
        match (&name[..], &mut *value) {
            ("lease" | "ID", Value::String(text)) => {
                if let Ok(id) = text.parse() {
                    *text = leases.shown(id).to_string();
                }
            }
            ("version" | "storageVersion", Value::String(text)) if text.contains('.') => {
                text.retain(|letter| letter == '.');
            }
            // A member; that of an election is an object.
            ("leader" | "memberID", Value::String(text)) => "N".clone_into(text),
            ("token", Value::String(text)) => text.clear(),
            // The clusters differ in size; what is known of a member does not.
            ("members", Value::Array(members)) => {
                members.truncate(1);
                members.iter_mut().for_each(mask_member);
            }
            // etcd has none of these in an order.
            ("leases", Value::Array(found)) => {
                found.iter_mut().for_each(|lease| mask(lease, leases));
                found.sort_by_key(|lease| lease.get("ID").map_or(0, number));
            }
            ("errors", Value::Array(errors)) => {
                for error in errors.iter_mut() {
                    let text = error.as_str().unwrap_or_default();
                    let words = text.chars().filter(|letter| !letter.is_ascii_digit());
                    *error = Value::String(words.collect());
                }
                errors.sort_by_key(Value::to_string);
            }
            ("keys" | "alarms", Value::Array(values)) => {
                values.iter_mut().for_each(|value| mask(value, leases));
                values.sort_by_key(Value::to_string);
            }
            (_, value) => mask(value, leases),
        }
    }
}

fn mask_member(member: &mut Value) {
    let Some(fields) = member.as_object_mut() else {
        return;
    };
    for (_, value) in fields {
        match value {
            Value::String(text) => text.clear(),
            Value::Array(urls) => urls.fill(Value::Null),
            _ => {}
        }
    }
}

fn number(value: &Value) -> i64 {
    let text = value.as_str().and_then(|text| text.parse().ok());
    text.or_else(|| value.as_i64()).unwrap_or_default()
}

const OK: u16 = 200;

/// Fields whose values differ from system to system.
const OWN_FIELDS: [&str; 10] = [
    "cluster_id",
    "member_id",
    "raft_term",
    "hash",
    "dbSize",
    "dbSizeInUse",
    "dbSizeQuota",
    "raftIndex",
    "raftAppliedIndex",
    "raftTerm",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_sorted_and_own_ones_left_out() {
        let mut leases = Leases::default();
        let named = leases.name(77);
        let text = r#"{"kvs":[{"version":"2","lease":"77","key":"a"}],"header":{"raft_term":"3","revision":"9"}}"#;
        let answer = JsonAnswer {
            status: 200,
            body: serde_json::from_str(text).expect("JSON"),
        };
        let call = call_of("/etcdserverpb.KV/Range").expect("a call");
        let outcome = answer.outcome(call, &leases);
        assert_eq!(outcome.revision, 9);
        let expected = format!(
            r#"200 {{"header":{{"revision":"9"}},"kvs":[{{"key":"a","lease":"{named}","version":"2"}}]}}"#
        );
        assert_eq!(outcome.text, expected);
    }
}
