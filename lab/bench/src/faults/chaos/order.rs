//! The order that replicas executed, as their exported logs tell it: one order, or a violation.

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_etcd_api::mvccpb::{Event, EventType, KeyValue};
use quorate_sim::judge::Journal;
use serde::Deserialize;

/// What all exports together say.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Each slot's line, and the replica that told it first.
    slots: BTreeMap<u64, (usize, String)>,
    /// The revision before the first slot of the export that goes back furthest.
    before: Option<(u64, i64)>,
    last: i64,
    pub(super) violations: Vec<String>,
}

#[derive(Deserialize)]
struct Line {
    export: Option<Head>,
    slot: Option<u64>,
    #[serde(default)]
    commands: Vec<Command>,
}

#[derive(Deserialize)]
struct Head {
    first_slot: u64,
    revision: i64,
}

#[derive(Deserialize)]
struct Command {
    revision: Option<i64>,
    #[serde(default)]
    changes: Vec<ExportedChange>,
}

#[derive(Deserialize)]
struct ExportedChange {
    op: String,
    key: Option<String>,
    value_xxh3: Option<String>,
    /// The digest of a value that is kept as a payload.
    value_xxh3_128: Option<String>,
    #[serde(default)]
    version: i64,
    #[serde(default)]
    create_revision: i64,
    #[serde(default)]
    lease: i64,
}

impl Order {
    /// Takes over what one replica exported, and compares it with what others did.
    pub(super) fn add(&mut self, replica: usize, export: &str) -> Result<(), String> {
        let failed = |error| format!("the export of replica {}: {error}", replica + 1);
        for text in export.lines() {
            let line: Line = serde_json::from_str(text).map_err(failed)?;
            if let Some(Head {
                first_slot,
                revision,
            }) = line.export
                && self.before.is_none_or(|(slot, _)| first_slot < slot)
            {
                self.before = Some((first_slot, revision));
            }
            let revisions = line.commands.iter().filter_map(|command| command.revision);
            self.last = self.last.max(revisions.max().unwrap_or(0));
            if let Some(slot) = line.slot {
                self.compare(slot, replica, text);
            }
        }
        Ok(())
    }

    fn compare(&mut self, slot: u64, replica: usize, text: &str) {
        match self.slots.get(&slot) {
            None => drop(self.slots.insert(slot, (replica, text.to_owned()))),
            Some((_, told)) if told == text => {}
            Some((other, told)) => self.violations.push(format!(
                "slot {slot}: replica {} executed {told}, replica {} {text}",
                other + 1,
                replica + 1
            )),
        }
    }

    /// Slots there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The last revision.
    pub(super) fn last(&self) -> i64 {
        self.last
    }

    /// Every change to keys that begin with `prefix`, from a revision on; `values` are all that were
    /// sent, by digest.
    pub(super) fn journal(
        &self,
        prefix: &[u8],
        first: i64,
        values: &BTreeMap<u128, Bytes>,
    ) -> Result<Journal, String> {
        self.check_reach(first)?;
        let mut events = Vec::new();
        for (_, text) in self.slots.values() {
            let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
            for command in line.commands {
                let revision = command.revision.unwrap_or(0);
                if revision >= first {
                    let changes = command.changes.iter();
                    let changes = changes.map(|change| change.event(revision, values));
                    events.extend(changes.filter(|event| is_below(prefix, event)));
                }
            }
        }
        let mut journal = Journal::new(first, Vec::new());
        journal.add(&events, self.last + 1)?;
        Ok(journal)
    }

    /// The exports must go back behind a revision, and have no gap since.
    fn check_reach(&self, first: i64) -> Result<(), String> {
        let Some((slot, revision)) = self.before else {
            return Err("no replica exported anything".to_owned());
        };
        if revision >= first {
            return Err(format!(
                "the exports begin with slot {slot}, after revision {revision}: the order from \
                 {first} on is not known"
            ));
        }
        let numbers = self.slots.keys();
        match numbers
            .clone()
            .zip(numbers.skip(1))
            .find(|(one, next)| **one + 1 != **next)
        {
            Some((one, next)) => Err(format!("no replica exported slots {one} to {next}")),
            None => Ok(()),
        }
    }
}

impl ExportedChange {
    fn event(&self, revision: i64, values: &BTreeMap<u128, Bytes>) -> Event {
        let is_put = self.op == "put";
        let digest = self.value_xxh3.as_ref().or(self.value_xxh3_128.as_ref());
        let digest = digest.and_then(|text| u128::from_str_radix(text, 16).ok());
        let value = digest.and_then(|digest| values.get(&digest).cloned());
        // A value that nobody sent is none that anybody read.
        let foreign = || Bytes::from_static(if is_put { b"\0foreign" } else { b"" });
        Event {
            r#type: match is_put {
                true => EventType::Put as i32,
                false => EventType::Delete as i32,
            },
            kv: Some(KeyValue {
                key: self.key.clone().unwrap_or_default().into_bytes().into(),
                value: value.unwrap_or_else(foreign),
                mod_revision: revision,
                create_revision: self.create_revision,
                version: self.version,
                lease: self.lease,
            }),
            prev_kv: None,
        }
    }
}

fn is_below(prefix: &[u8], event: &Event) -> bool {
    let kv = event.kv.as_ref();
    kv.is_some_and(|kv| kv.key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(first: u64, puts: &[(u64, i64, &str)]) -> String {
        let mut text = format!(
            "{{\"export\":{{\"first_slot\":{first},\"revision\":{}}}}}\n",
            puts[0].1 - 1
        );
        for (slot, revision, key) in puts {
            text += &format!(
                "{{\"slot\":{slot},\"commands\":[{{\"revision\":{revision},\"changes\":[{{\"op\":\
                 \"put\",\"key\":\"{key}\",\"value_xxh3\":\"0000000000000007\",\"version\":1,\
                 \"create_revision\":{revision}}}]}}]}}\n"
            );
        }
        text
    }

    #[test]
    fn exports_that_overlap_are_one_order_of_changes() {
        let mut order = Order::default();
        let values = [(7, Bytes::from_static(b"seven"))].into();
        order
            .add(0, &export(3, &[(3, 5, "x/a"), (4, 6, "y/b")]))
            .expect("lines");
        order
            .add(1, &export(4, &[(4, 6, "y/b"), (5, 7, "x/c")]))
            .expect("lines");
        let as_payload = export(6, &[(6, 8, "x/d")]).replace("xxh3", "xxh3_128");
        order.add(2, &as_payload).expect("lines");
        assert_eq!(order.violations, Vec::<String>::new());
        let journal = order.journal(b"x/", 5, &values).expect("a journal");
        assert_eq!(journal.get(b"x/a", 7).expect("there").value, "seven");
        assert_eq!(journal.get(b"x/d", 8).expect("there").value, "seven");
        assert_eq!(journal.of(6), []);
        assert_eq!(journal.of(7).len(), 1);
        let early = order.journal(b"x/", 4, &values);
        assert!(early.unwrap_err().contains("from 4 on is not known"));
    }

    #[test]
    fn two_orders_and_a_hole_are_named() {
        let mut order = Order::default();
        order.add(0, &export(3, &[(3, 5, "a")])).expect("lines");
        order
            .add(2, &export(3, &[(3, 5, "b"), (5, 7, "c")]))
            .expect("lines");
        assert!(order.violations[0].contains("slot 3: replica 1 executed"));
        let holed = order.journal(b"", 5, &BTreeMap::new());
        assert!(holed.unwrap_err().contains("slots 3 to 5"));
    }
}
