//! What clients saw of the shared keys, and whether one order of it all explains it.

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::RangeResponse;
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_sim::checker;
use quorate_sim::history::{Call, Op, Outcome, Seen};

use super::clients::Session;
use crate::load::payload;

/// A history of shared keys, and what in it needs no checker to be wrong.
#[derive(Debug, Default)]
pub(super) struct Record {
    ops: Vec<Op>,
    violations: Vec<String>,
}

/// Every version of a key that an endpoint remembers.
#[derive(Debug, Default)]
pub(super) struct Versions {
    pub(super) endpoint: String,
    /// Revision and value, the newest first.
    pub(super) found: Vec<(u64, Bytes)>,
}

impl Record {
    /// Operations in it.
    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    /// Operations without an answer.
    pub(super) fn unknown(&self) -> usize {
        let open = self.ops.iter().filter(|op| op.returned.is_none());
        open.count()
    }

    /// Adds an operation. A read without an answer says nothing and need not be added.
    pub(super) fn add(
        &mut self,
        client: u32,
        key: u8,
        call: Call,
        invoked: u64,
        returned: Option<(u64, Outcome)>,
    ) {
        self.ops.push(Op {
            client: client as usize,
            key,
            call,
            invoked,
            returned,
            hint: None,
        });
    }

    /// Adds a read with its answer.
    pub(super) fn add_read(
        &mut self,
        session: &Session,
        client: u32,
        key: u8,
        (invoked, returned): (u64, u64),
        answer: &RangeResponse,
    ) {
        let seen = answer.kvs.first().map(|found| {
            let value = parse(session, &found.value);
            if value.is_none() {
                self.violations.push(format!(
                    "client {client} read a value nobody sent through {}: key {}, revision {}, value {}",
                    session.endpoint_of(client),
                    show(&session.shared_key(key)),
                    found.mod_revision,
                    payload::identity(&found.value)
                ));
            }
            seen(found, value.unwrap_or(u64::MAX))
        });
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        let revision = revision.cast_unsigned();
        let outcome = Outcome::Got { revision, seen };
        self.add(client, key, Call::Get, invoked, Some((returned, outcome)));
    }

    /// Takes over all of another one.
    pub(super) fn merge(&mut self, other: Record) {
        self.ops.extend(other.ops);
        self.violations.extend(other.violations);
    }

    /// Checks everything, given the versions the store says each shared key went through.
    pub(super) fn check(mut self, session: &Session, versions: &[Versions]) -> Vec<String> {
        for (key, versions) in (0..).zip(versions) {
            self.compare(session, key, versions);
        }
        if let Err(why) = checker::check(&self.ops) {
            self.violations.push(format!(
                "the history of {} operations on the keys {} is not linearizable (values are \
                 client * 2^32 + number of the write; client c asks replica c mod {} + 1): {why}",
                self.ops.len(),
                show(&session.shared_key(0)).trim_end_matches('0'),
                session.replicas()
            ));
        }
        self.violations
    }

    /// Holds the versions of one key against the puts that were sent to it: each is the value of
    /// one put, and each acknowledged put is one of them, at the revision it was told.
    fn compare(&mut self, session: &Session, key: u8, versions: &Versions) {
        let name = show(&session.shared_key(key));
        let name = format!("{name} at {}", versions.endpoint);
        let mut stored: BTreeMap<u64, u64> = BTreeMap::new();
        for (revision, value) in &versions.found {
            let text = payload::identity(value);
            let Some(number) = parse(session, value) else {
                self.violations.push(format!(
                    "key {name} held a value nobody sent: revision {revision}, value {text}"
                ));
                continue;
            };
            if let Some(other) = stored.insert(number, *revision) {
                self.violations.push(format!(
                    "a put took effect twice: key {name}, value {text}, revisions {revision} and \
                     {other}"
                ));
            }
        }
        for op in self.ops.iter_mut().filter(|op| op.key == key) {
            let Call::Put(value) = op.call else { continue };
            let revision = stored.remove(&value);
            match op.returned {
                None => op.hint = revision,
                Some((_, outcome)) if revision == Some(outcome.revision()) => {}
                Some((_, outcome)) => self.violations.push(format!(
                    "an acknowledged put is not among the versions of its key: key {name}, put {} \
                     of client {}, acknowledged at revision {}, found at {revision:?}",
                    value & u64::from(u32::MAX),
                    op.client,
                    outcome.revision()
                )),
            }
        }
        for (value, revision) in stored {
            self.violations.push(format!(
                "key {name} held a value that was never sent to it: revision {revision}, write {} \
                 of client {}",
                value & u64::from(u32::MAX),
                value >> 32
            ));
        }
    }
}

/// The number that stands for a value in the history.
pub(super) fn number(client: u32, sequence: u64) -> u64 {
    u64::from(client) << 32 | sequence
}

/// The number of a value of this round; `None` if nobody can have sent it.
fn parse(session: &Session, value: &[u8]) -> Option<u64> {
    let identity = payload::identity(value);
    let (rest, sequence) = identity.rsplit_once('-')?;
    let client = rest.rsplit_once('-')?.1.parse().ok()?;
    let sequence = sequence.parse().ok()?;
    let whole = session.payload.is_value(value, client, sequence);
    whole.then(|| number(client, sequence))
}

fn seen(found: &KeyValue, value: u64) -> Seen {
    Seen {
        value,
        version: found.version.cast_unsigned(),
        created: found.create_revision.cast_unsigned(),
        modified: found.mod_revision.cast_unsigned(),
    }
}

fn show(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_etcd_api::etcdserverpb::ResponseHeader;
    use std::time::Duration;

    fn session() -> Session {
        let endpoints = ["http://127.0.0.1:1".to_owned()];
        Session::new(7, 64, &endpoints, 1, Duration::from_secs(1)).expect("a session")
    }

    fn put(record: &mut Record, sequence: u64, invoked: u64, revision: Option<u64>) {
        let returned = revision.map(|revision| (invoked + 1, Outcome::Put { revision }));
        record.add(0, 0, Call::Put(number(0, sequence)), invoked, returned);
    }

    fn versions(session: &Session, of: &[(u64, u64)]) -> Vec<Versions> {
        let value = |&(revision, sequence)| (revision, session.payload.value(0, sequence));
        vec![Versions {
            endpoint: "http://127.0.0.1:1".to_owned(),
            found: of.iter().map(value).collect(),
        }]
    }

    fn read(session: &Session, record: &mut Record, invoked: u64, value: Bytes, revision: i64) {
        let found = KeyValue {
            value,
            version: 1,
            create_revision: revision,
            mod_revision: revision,
            ..KeyValue::default()
        };
        let answer = RangeResponse {
            header: Some(ResponseHeader {
                revision,
                ..ResponseHeader::default()
            }),
            kvs: vec![found],
            ..RangeResponse::default()
        };
        record.add_read(session, 0, 0, (invoked, invoked + 1), &answer);
    }

    #[test]
    fn what_a_correct_store_answers_passes_and_unanswered_puts_may_have_happened_or_not() {
        let session = session();
        let mut record = Record::default();
        put(&mut record, 1, 1, Some(2));
        put(&mut record, 2, 3, None);
        put(&mut record, 3, 5, None);
        let found = versions(&session, &[(3, 2), (2, 1)]);
        assert_eq!(record.check(&session, &found), Vec::<String>::new());
    }

    #[test]
    fn lost_doubled_and_invented_puts_are_named() {
        let session = session();
        for (found, complaint) in [
            (&[][..], "an acknowledged put is not among"),
            (&[(5, 1), (2, 1)], "took effect twice"),
            (&[(3, 9), (2, 1)], "never sent to it"),
        ] {
            let mut record = Record::default();
            put(&mut record, 1, 1, Some(2));
            let complaints = record.check(&session, &versions(&session, found));
            assert!(complaints[0].contains(complaint), "{complaints:?}");
        }
    }

    #[test]
    fn a_stale_read_and_a_foreign_value_are_named() {
        let session = session();
        let mut record = Record::default();
        put(&mut record, 1, 1, Some(2));
        put(&mut record, 2, 3, Some(3));
        read(&session, &mut record, 5, session.payload.value(0, 1), 2);
        let found = versions(&session, &[(3, 2), (2, 1)]);
        let complaints = record.check(&session, &found);
        assert!(complaints[0].contains("not linearizable"), "{complaints:?}");

        let mut record = Record::default();
        read(&session, &mut record, 1, Bytes::from_static(b"Dear"), 2);
        let complaints = record.check(&session, &versions(&session, &[]));
        assert!(complaints[0].contains("nobody sent"), "{complaints:?}");
    }
}
