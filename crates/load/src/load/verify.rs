//! Reading everything back: whether each endpoint holds every acknowledged write.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{RangeRequest, RangeResponse};
use quorate_etcd_api::mvccpb::KeyValue;
use serde::Serialize;
use tokio::time::Instant;

use super::access::Access;
use super::ledger::Expectation;
use super::payload::{self, KeyRange, Payload};
use super::rpc::{Call, Channel, Failure};
use quorate_tooling::units::show_count;

/// What verification found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verdict {
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Writes that were sent and whose fate their client never learned.
    pub unknown: u64,
    /// Keys whose last value is known, up to one unknown write.
    pub keys: u64,
    /// During the run: reads of a client's own keys that missed its last acknowledged write.
    pub stale_reads: u64,
    /// The read-backs: two per endpoint, linearizable and serializable.
    pub readbacks: Vec<Readback>,
    /// The first violations, in words.
    pub examples: Vec<String>,
    /// Whether endpoints that do not answer were allowed.
    pub down_allowed: bool,
}

/// One read-back of all keys through one endpoint.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Readback {
    /// The endpoint's URL.
    pub url: String,
    /// Whether the reads were serializable, behind a linearizable barrier.
    pub serializable: bool,
    /// Keys with the value expected.
    pub intact: u64,
    /// Keys with an acknowledged write that hold nothing.
    pub lost: u64,
    /// Keys with a value older than an acknowledged one.
    pub stale: u64,
    /// Keys with a value or a revision that nobody wrote, and keys nobody wrote.
    pub altered: u64,
    /// Unknown writes that turned out to have happened.
    pub unknown_kept: u64,
    /// Why the endpoint could not be read, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Verdict {
    /// Whether anything acknowledged was lost, altered or stale, or could not be checked.
    pub fn failed(&self) -> bool {
        let unread = |readback: &Readback| readback.error.is_some() && !self.down_allowed;
        let all_down = self
            .readbacks
            .iter()
            .all(|readback| readback.error.is_some());
        self.stale_reads > 0
            || all_down
            || self
                .readbacks
                .iter()
                .any(|readback| readback.violations() > 0 || unread(readback))
    }

    /// Notes a violation, keeping the first few.
    pub fn note(&mut self, example: String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example);
        }
    }

    /// Reads everything back through every endpoint: `(url, authority)`.
    pub async fn read_back(
        &mut self,
        endpoints: &[(String, String)],
        payload: &Payload,
        expectations: Vec<Expectation>,
    ) {
        self.read_back_over(&Access::default(), endpoints, payload, expectations)
            .await;
    }

    /// Reads everything back through every endpoint, over TLS if there are certificates for that.
    pub async fn read_back_over(
        &mut self,
        access: &Access,
        endpoints: &[(String, String)],
        payload: &Payload,
        mut expectations: Vec<Expectation>,
    ) {
        expectations.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        self.keys = expectations.len() as u64;
        for (url, authority) in endpoints {
            for serializable in [false, true] {
                let mut check = Check::new(url, serializable, payload, &expectations);
                if let Err(error) = check.run(authority, access).await {
                    check.readback.error = Some(error);
                }
                let Check {
                    readback, examples, ..
                } = check;
                self.readbacks.push(readback);
                examples.into_iter().for_each(|example| self.note(example));
            }
        }
    }
}

impl Readback {
    fn violations(&self) -> u64 {
        self.lost + self.stale + self.altered
    }
}

/// One read-back in progress.
struct Check<'a> {
    payload: &'a Payload,
    /// What has not been read yet, in the order of keys.
    ahead: std::iter::Peekable<std::slice::Iter<'a, Expectation>>,
    readback: Readback,
    examples: Vec<String>,
}

impl<'a> Check<'a> {
    fn new(
        url: &str,
        serializable: bool,
        payload: &'a Payload,
        expectations: &'a [Expectation],
    ) -> Check<'a> {
        Check {
            payload,
            ahead: expectations.iter().peekable(),
            readback: Readback {
                url: url.to_owned(),
                serializable,
                ..Readback::default()
            },
            examples: Vec::new(),
        }
    }

    async fn run(&mut self, authority: &str, access: &Access) -> Result<(), String> {
        let KeyRange { mut first, end } = self.payload.own_range();
        let mut reader = Reader {
            authority,
            access,
            channel: None,
        };
        if self.readback.serializable {
            // A linearizable read makes the endpoint catch up; what it serves after is current.
            reader.read(&request(&first, &end, 1, false)).await?;
        }
        let page = (PAGE_BYTES / (self.payload.value_bytes() + 128)).clamp(1, PAGE_KEYS);
        loop {
            let request = request(&first, &end, page as i64, self.readback.serializable);
            let answer = reader.read(&request).await?;
            for found in &answer.kvs {
                self.found(found);
            }
            match answer.kvs.last() {
                Some(last) if answer.more => first = after(&last.key),
                _ => break,
            }
        }
        while let Some(missing) = self.ahead.next() {
            self.missing(missing);
        }
        Ok(())
    }

    fn found(&mut self, found: &KeyValue) {
        while let Some(passed) = self.ahead.next_if(|expected| expected.key < found.key) {
            self.missing(passed);
        }
        match self.ahead.next_if(|expected| expected.key == found.key) {
            Some(expected) => self.compare(expected, found),
            None => self.violation("altered", &found.key, "a key nobody wrote"),
        }
    }

    fn missing(&mut self, expected: &Expectation) {
        match expected.acknowledged {
            Some(_) => self.violation("lost", &expected.key, "no value"),
            // An unknown first write that never happened.
            None => self.readback.intact += 1,
        }
    }

    fn compare(&mut self, expected: &Expectation, found: &KeyValue) {
        let sequence = payload::sequence(&found.value);
        let whole = |sequence| {
            self.payload
                .is_value(&found.value, expected.client, sequence)
        };
        match (sequence, expected.acknowledged) {
            (Some(sequence), _) if !whole(sequence) => {
                self.violation("altered", &found.key, &payload::identity(&found.value));
            }
            (Some(sequence), _) if expected.unknown == Some(sequence) => {
                self.readback.unknown_kept += 1;
                self.readback.intact += 1;
            }
            (Some(sequence), Some((last, revision))) if sequence == last => {
                if found.mod_revision == revision {
                    self.readback.intact += 1;
                } else {
                    let text = format!("revision {} instead of {revision}", found.mod_revision);
                    self.violation("altered", &found.key, &text);
                }
            }
            (Some(sequence), Some((last, _))) if sequence < last => {
                let text = format!("write {sequence} instead of {last}");
                self.violation("stale", &found.key, &text);
            }
            _ => self.violation("altered", &found.key, &payload::identity(&found.value)),
        }
    }

    fn violation(&mut self, kind: &str, key: &Bytes, text: &str) {
        match kind {
            "lost" => self.readback.lost += 1,
            "stale" => self.readback.stale += 1,
            _ => self.readback.altered += 1,
        }
        if self.examples.len() < EXAMPLES_MAX {
            let key = String::from_utf8_lossy(key);
            self.examples
                .push(format!("{}: {kind}: {key}: {text}", self.readback.url));
        }
    }
}

/// Reads with patience: an endpoint may have to restart or catch up first.
struct Reader<'a> {
    authority: &'a str,
    access: &'a Access,
    channel: Option<Channel>,
}

impl Reader<'_> {
    async fn read(&mut self, request: &RangeRequest) -> Result<RangeResponse, String> {
        let deadline = Instant::now() + READ_PATIENCE;
        loop {
            let error = match tokio::time::timeout_at(deadline, self.attempt(request)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => "no answer".to_owned(),
            };
            self.channel = None;
            if Instant::now() + READ_PAUSE >= deadline {
                return Err(error);
            }
            tokio::time::sleep(READ_PAUSE).await;
        }
    }

    async fn attempt(&mut self, request: &RangeRequest) -> Result<RangeResponse, String> {
        let channel = match &mut self.channel {
            Some(channel) => channel,
            None => {
                let channel =
                    Channel::connect_as(self.authority, self.access, Duration::from_secs(1))
                        .await?;
                self.channel.insert(channel)
            }
        };
        channel
            .call(Call::Range, request)
            .await
            .map_err(|Failure { text, .. }| text)
    }
}

fn request(first: &Bytes, end: &Bytes, limit: i64, serializable: bool) -> RangeRequest {
    let (key, range_end) = (first.clone(), end.clone());
    RangeRequest {
        key,
        range_end,
        limit,
        serializable,
        ..RangeRequest::default()
    }
}

/// The first key behind `key`.
fn after(key: &Bytes) -> Bytes {
    [key, &b"\0"[..]].concat().into()
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "  verify       {} writes acknowledged, {} unknown, {} keys, {} stale reads",
            show_count(self.acknowledged as f64),
            show_count(self.unknown as f64),
            show_count(self.keys as f64),
            show_count(self.stale_reads as f64),
        )?;
        for readback in &self.readbacks {
            writeln!(out, "  verify       {readback}")?;
        }
        for example in &self.examples {
            writeln!(out, "  violation    {example}")?;
        }
        let verdict = if self.failed() {
            "FAILED"
        } else {
            "every acknowledged write is there"
        };
        writeln!(out, "  verdict      {verdict}")
    }
}

impl fmt::Display for Readback {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.serializable {
            "serializable"
        } else {
            "linearizable"
        };
        write!(out, "{} {kind}: ", self.url)?;
        if let Some(error) = &self.error {
            return write!(out, "not read: {error}");
        }
        write!(
            out,
            "{} intact, {} lost, {} stale, {} altered, {} unknown kept",
            self.intact, self.lost, self.stale, self.altered, self.unknown_kept
        )
    }
}

const EXAMPLES_MAX: usize = 10;
const PAGE_BYTES: usize = 1 << 20;
const PAGE_KEYS: usize = 1000;
const READ_PATIENCE: Duration = Duration::from_secs(30);
const READ_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what an endpoint answers against one key: write 1 acknowledged at revision 10, then
    /// write 2 acknowledged at revision 11, then write 3 unknown.
    fn check(found: &[(u64, i64)]) -> (Readback, Vec<String>) {
        let payload = Payload::new(1, 0, 64);
        let key = payload.own_key(0, 0, 0);
        let expectations = [Expectation {
            client: 0,
            key: key.clone(),
            acknowledged: Some((2, 11)),
            unknown: Some(3),
        }];
        let mut check = Check::new("e", false, &payload, &expectations);
        for &(sequence, mod_revision) in found {
            let value = payload.value(0, sequence);
            let key = key.clone();
            check.found(&KeyValue {
                key,
                value,
                mod_revision,
                ..KeyValue::default()
            });
        }
        while let Some(missing) = check.ahead.next() {
            check.missing(missing);
        }
        (check.readback, check.examples)
    }

    #[test]
    fn the_last_acknowledged_and_the_unknown_write_are_both_fine() {
        assert_eq!(check(&[(2, 11)]).0.intact, 1);
        let (readback, examples) = check(&[(3, 12)]);
        assert_eq!((readback.intact, readback.unknown_kept), (1, 1));
        assert_eq!(examples, Vec::<String>::new());
    }

    #[test]
    fn lost_stale_and_altered_are_told_apart() {
        assert_eq!(check(&[]).0.lost, 1);
        assert_eq!(check(&[(1, 10)]).0.stale, 1);
        assert_eq!(check(&[(2, 12)]).0.altered, 1);
        assert_eq!(check(&[(7, 12)]).0.altered, 1);
        assert_eq!(check(&[(2, 11), (2, 11)]).0.altered, 1);
    }

    #[test]
    fn an_endpoint_that_cannot_be_read_fails_unless_allowed() {
        let down = Readback {
            error: Some("refused".to_owned()),
            ..Readback::default()
        };
        let readbacks = vec![down, Readback::default()];
        let mut verdict = Verdict {
            readbacks,
            ..Verdict::default()
        };
        assert!(verdict.failed());
        verdict.down_allowed = true;
        assert!(!verdict.failed());
        verdict.stale_reads = 1;
        assert!(verdict.failed());
    }
}
