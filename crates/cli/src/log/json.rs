//! The lines of an export.

use super::orders;
use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use clap::ValueEnum;
use quorate_core::{Class, Command, Payload, Refusal, Slot};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest};
use quorate_etcd_api::mvccpb::{Event, EventType};
use quorate_etcd_store::{Applied, Refused, ValueRef, command};
use quorate_host::{Exported, Outcome};
use quorate_server::Meta;
use serde::Serialize;
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

/// What to write of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Values {
    /// The length of values
    None,
    /// The length and XXH3-64 of values
    Digest,
    /// All of them
    Full,
}

/// One line of the export.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Line {
    Head(Head),
    Snapshot { snapshot: u64 },
    Slot(SlotLine),
    End { end: u64 },
}

/// The first line.
#[derive(Serialize)]
pub(super) struct Head {
    export: HeadFields,
}

#[derive(Serialize)]
struct HeadFields {
    format: u32,
    cluster: String,
    replica: u16,
    incarnation: String,
    protocol: String,
    first_slot: u64,
    revision: i64,
}

/// The line of a slot.
#[derive(Serialize)]
pub(super) struct SlotLine {
    slot: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_op: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stamp_ns: Option<u64>,
    commands: Vec<CommandLine>,
}

#[derive(Serialize)]
struct EntryName {
    origin: u16,
    boot: String,
    sequence: u64,
}

/// A command and what it came to.
#[derive(Serialize)]
pub(super) struct CommandLine {
    client: String,
    sequence: u64,
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<Value>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats_slot: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// What an order did to the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Value>,
}

impl Head {
    pub(super) fn new(meta: &Meta, first: Slot, revision: i64) -> Head {
        let export = HeadFields {
            format: FORMAT,
            cluster: meta.cluster.to_string(),
            replica: meta.replica.0,
            incarnation: meta.incarnation.to_string(),
            protocol: meta.epoch.protocol.clone(),
            first_slot: first.0,
            revision,
        };
        Head { export }
    }
}

impl SlotLine {
    pub(super) fn new(exported: &Exported<'_>, commands: Vec<CommandLine>) -> SlotLine {
        let name = exported.entry.map(|entry| EntryName {
            origin: entry.id.origin.0,
            boot: format!("{:016x}", entry.id.boot.0),
            sequence: entry.id.seq,
        });
        SlotLine {
            slot: exported.slot.0,
            no_op: name.is_none().then_some(true),
            entry: name,
            stamp_ns: exported.entry.map(|entry| entry.stamp_ns),
            commands,
        }
    }
}

impl CommandLine {
    /// `applied` is what the store's own result says, if it gave one; `events` are its changes.
    pub(super) fn new(
        command: &Command,
        outcome: &Outcome,
        applied: Option<Result<Applied, Refused>>,
        events: &[Event],
        values: Values,
    ) -> CommandLine {
        let (class, operation) = match command.class {
            Class::Write => ("write", Some(operation(command, values))),
            Class::Read => ("read", None),
            Class::OpenSession => ("open-session", None),
            Class::EndSession => ("end-session", None),
            Class::Order => ("order", Some(orders::operation(command))),
        };
        let (effect, not_obeyed) = match command.class {
            Class::Order => orders::effect(outcome),
            _ => (None, None),
        };
        let refused = match (outcome, &applied) {
            (Outcome::Refused(refusal), _) => Some(describe(*refusal).to_owned()),
            (_, Some(Err(refused))) => Some(refused.error().text.to_owned()),
            _ => not_obeyed,
        };
        let repeats_slot = match outcome {
            Outcome::Repeated(slot) => Some(slot.0),
            _ => None,
        };
        CommandLine {
            client: format!("{:016x}", command.id.client.0),
            sequence: command.id.seq,
            class,
            operation,
            outcome: match (&refused, repeats_slot) {
                (Some(_), _) => "refused",
                (None, Some(_)) => "repeated",
                (None, None) => "executed",
            },
            repeats_slot,
            refused,
            effect,
            revision: applied.and_then(|applied| Some(applied.ok()?.revision)),
            changes: events.iter().map(|event| change(event, values)).collect(),
        }
    }
}

fn describe(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Overloaded => "overloaded",
        Refusal::TooLarge => "too large",
        Refusal::NoSession => "no session",
        Refusal::Forgotten => "forgotten",
        Refusal::NotServing => "not serving",
        Refusal::Unknown => "unknown",
        Refusal::Withdrawn => "withdrawn",
    }
}

/// A command's body, decoded, and its payloads.
fn operation(command: &Command, values: Values) -> Value {
    let mut operation = body(&command.body, values);
    if let Some(object) = operation.as_object_mut()
        && !command.payloads.is_empty()
    {
        let payloads = command.payloads.iter();
        let payloads: Vec<Value> = payloads
            .map(|payload| {
                let mut object = Map::new();
                add_known(&mut object, "value", payload, values);
                object.into()
            })
            .collect();
        object.insert("payloads".to_owned(), payloads.into());
    }
    operation
}

fn body(body: &Bytes, values: Values) -> Value {
    let mut operation = operation_of(body, values);
    if let (Some(object), Some(user)) = (operation.as_object_mut(), command::asker(body).name()) {
        object.insert("user".to_owned(), user.into());
    }
    operation
}

fn operation_of(body: &Bytes, values: Values) -> Value {
    match command::Command::decode(body) {
        Ok(command::Command::Put(request) | command::Command::PutWithPayload(request)) => {
            put(&request, values)
        }
        Ok(command::Command::DeleteRange(request)) => delete_range(&request),
        Ok(command::Command::Txn(request) | command::Command::TxnWithPayloads(request, _)) => {
            txn(&request, values)
        }
        Ok(command::Command::Compact(request)) => {
            json!({ "op": "compact", "revision": request.revision })
        }
        Ok(command::Command::LeaseGrant(request)) => {
            json!({ "op": "lease-grant", "lease": request.id, "ttl_s": request.ttl })
        }
        Ok(command::Command::LeaseRevoke(request)) => {
            json!({ "op": "lease-revoke", "lease": request.id })
        }
        Ok(command::Command::LeaseRenew(request)) => {
            json!({ "op": "lease-renew", "lease": request.id })
        }
        Ok(command::Command::LeaseExpire(expiry)) => {
            json!({ "op": "lease-expire", "lease": expiry.id, "renewal": expiry.renewal })
        }
        Ok(command::Command::Auth(change)) => json!({ "op": "auth", "change": change.name() }),
        Err(_) => json!({ "op": "undecodable", "bytes": body.len() }),
    }
}

fn put(request: &PutRequest, values: Values) -> Value {
    let mut object = object("put", &request.key);
    add_value(&mut object, "value", &request.value, values);
    let flags = [
        ("ignore_value", request.ignore_value),
        ("ignore_lease", request.ignore_lease),
    ];
    for (name, _) in flags.into_iter().filter(|(_, set)| *set) {
        object.insert(name.to_owned(), true.into());
    }
    if request.lease != 0 {
        object.insert("lease".to_owned(), request.lease.into());
    }
    object.into()
}

fn delete_range(request: &DeleteRangeRequest) -> Value {
    let mut object = object("delete-range", &request.key);
    add_text(&mut object, "range_end", &request.range_end);
    object.into()
}

fn range(request: &RangeRequest) -> Value {
    let mut object = object("range", &request.key);
    add_text(&mut object, "range_end", &request.range_end);
    for (name, number) in [("revision", request.revision), ("limit", request.limit)] {
        if number != 0 {
            object.insert(name.to_owned(), number.into());
        }
    }
    object.into()
}

fn txn(request: &TxnRequest, values: Values) -> Value {
    let operations = |list: &[quorate_etcd_api::etcdserverpb::RequestOp]| -> Vec<Value> {
        let requests = list.iter().filter_map(|op| op.request.as_ref());
        let operation = |request: &Request| match request {
            Request::RequestRange(request) => range(request),
            Request::RequestPut(request) => put(request, values),
            Request::RequestDeleteRange(request) => delete_range(request),
            Request::RequestTxn(request) => txn(request, values),
        };
        requests.map(operation).collect()
    };
    json!({
        "op": "txn",
        "conditions": request.compare.iter().map(|one| condition(one, values)).collect::<Vec<_>>(),
        "success": operations(&request.success),
        "failure": operations(&request.failure),
    })
}

fn condition(compare: &quorate_etcd_api::etcdserverpb::Compare, values: Values) -> Value {
    use quorate_etcd_api::etcdserverpb::compare::TargetUnion;
    let relation = match compare.result {
        0 => "=",
        1 => ">",
        2 => "<",
        _ => "!=",
    };
    let mut object = Map::new();
    add_text(&mut object, "key", &compare.key);
    add_text(&mut object, "range_end", &compare.range_end);
    object.insert("relation".to_owned(), relation.into());
    match &compare.target_union {
        Some(TargetUnion::Version(number)) => object.insert("version".into(), (*number).into()),
        Some(TargetUnion::CreateRevision(number)) => {
            object.insert("create_revision".into(), (*number).into())
        }
        Some(TargetUnion::ModRevision(number)) => {
            object.insert("mod_revision".into(), (*number).into())
        }
        Some(TargetUnion::Lease(number)) => object.insert("lease".into(), (*number).into()),
        Some(TargetUnion::Value(value)) => {
            add_value(&mut object, "value", value, values);
            None
        }
        None => None,
    };
    object.into()
}

/// A change, as watchers see it.
fn change(event: &Event, values: Values) -> Value {
    let Some(kv) = &event.kv else {
        return Value::Null;
    };
    if event.r#type == EventType::Delete as i32 {
        return object("delete", &kv.key).into();
    }
    let mut object = object("put", &kv.key);
    match ValueRef::of(kv) {
        Some(Ok(apart)) => add_known(&mut object, "value", &apart.payload(), values),
        _ => add_value(&mut object, "value", &kv.value, values),
    }
    object.insert("version".to_owned(), kv.version.saturating_abs().into());
    object.insert("create_revision".to_owned(), kv.create_revision.into());
    object.insert("lease".to_owned(), kv.lease.into());
    object.into()
}

fn object(op: &str, key: &Bytes) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("op".to_owned(), op.into());
    add_text(&mut object, "key", key);
    object
}

/// A key, in words where it is words; nothing if it is empty.
fn add_text(object: &mut Map<String, Value>, name: &str, bytes: &Bytes) {
    let plain = |text: &&str| !text.contains(char::is_control);
    match std::str::from_utf8(bytes).ok().filter(plain) {
        Some("") => {}
        Some(text) => drop(object.insert(name.to_owned(), text.into())),
        None => {
            let text = BASE64_STANDARD.encode(bytes);
            object.insert(format!("{name}_base64"), text.into());
        }
    }
}

/// What is known of a value that is kept as a payload.
fn add_known(object: &mut Map<String, Value>, name: &str, payload: &Payload, values: Values) {
    object.insert(format!("{name}_bytes"), payload.len.into());
    if values != Values::None {
        let digest = format!("{:032x}", payload.digest);
        object.insert(format!("{name}_xxh3_128"), digest.into());
    }
}

fn add_value(object: &mut Map<String, Value>, name: &str, value: &Bytes, values: Values) {
    if values == Values::Full {
        object.insert(name.to_owned(), BASE64_STANDARD.encode(value).into());
        return;
    }
    object.insert(format!("{name}_bytes"), value.len().into());
    if values == Values::Digest {
        let digest = format!("{:016x}", xxh3_64(value));
        object.insert(format!("{name}_xxh3"), digest.into());
    }
}

/// Version of these lines.
const FORMAT: u32 = 1;
