//! Orders in an export: commands about the group itself, which the host executes and not the store.

use quorate_core::{Command, Member, Wire};
use quorate_host::Outcome;
use quorate_host::epochs::{AlarmChange, AlarmKind, Configuration, Effect, Order, Scope};
use serde_json::{Value, json};

/// What an order asks for, as an object with its name under `op`.
pub(super) fn operation(command: &Command) -> Value {
    let Ok(order) = Order::from_bytes(command.body.clone()) else {
        return json!({ "op": "undecodable", "bytes": command.body.len() });
    };
    match order {
        Order::Reconfigure(change) => reconfigure(change.expect.epoch, &change.configuration),
        Order::Opened { epoch } => json!({ "op": "epoch-opened", "epoch": epoch }),
        Order::Settled { epoch } => json!({ "op": "epoch-settled", "epoch": epoch }),
        Order::Address { id, address } if address.is_empty() => {
            json!({ "op": "forget-address", "replica": id.0 })
        }
        Order::Address { id, address } => {
            json!({ "op": "address", "replica": id.0, "address": address })
        }
        Order::Level { level } => json!({ "op": "feature-level", "level": level }),
        Order::Publish { id, face } => json!({
            "op": "publish", "replica": id.0, "name": face.name, "client_url": face.client_url
        }),
        Order::Alarm { alarm, change } => {
            let (op, scope) = match change {
                AlarmChange::Raise(scope) => ("alarm-raise", scope),
                AlarmChange::End(scope) => ("alarm-end", scope),
            };
            let kind = match alarm.kind {
                AlarmKind::NoSpace => "NOSPACE",
                AlarmKind::Corrupt => "CORRUPT",
            };
            let scope = match scope {
                Scope::Undecided => "undecided",
                Scope::Member => "member",
                Scope::Group => "group",
            };
            json!({ "op": op, "replica": alarm.id.0, "alarm": kind, "scope": scope })
        }
        Order::Lead { id, after } => {
            json!({ "op": "name-leader", "replica": id.0, "after_term": after })
        }
        Order::Learn { id } => json!({ "op": "stay-learner", "replica": id.0 }),
    }
}

fn reconfigure(epoch: u64, next: &Configuration) -> Value {
    let id = |member: &Member| member.id.0;
    let members: Vec<u16> = next.members.iter().map(id).collect();
    json!({
        "op": "reconfigure", "epoch": epoch, "members": members, "protocol": next.protocol, "params": next.params
    })
}

/// What an order did to the group, and why it did nothing if it was refused.
pub(super) fn effect(outcome: &Outcome) -> (Option<&'static str>, Option<String>) {
    let Outcome::Executed(result) = outcome else {
        return (None, None);
    };
    match Effect::from_bytes(result.clone()) {
        Ok(Effect::Sealed(_)) => (Some("epoch sealed"), None),
        Ok(Effect::Settled) => (Some("epoch settled"), None),
        Ok(Effect::Noted) => (Some("noted"), None),
        Ok(Effect::Nothing) => (Some("nothing: known already, or no longer so"), None),
        Ok(Effect::Refused(why)) => (None, Some(why.to_string())),
        Err(_) => (None, None),
    }
}
