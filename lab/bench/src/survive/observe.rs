//! Requests of every kind through every replica that runs, and what became of each.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::promise::{Promise, Service};
use quorate_load::trial::{Asker, Values};

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    SmallWrite,
    CodedWrite,
    LargeWrite,
    SmallRead,
    CodedRead,
    LargeRead,
}

/// A value that was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct WrittenValue {
    /// What names it, and tells what it is.
    pub(super) number: u64,
    /// The length of the value in bytes.
    pub(super) len: usize,
}

/// What is written to a trial: what was there before everything else, and what was added.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) values: Values,
    /// Numbers and lengths of the values that were acknowledged.
    pub(super) kept: Vec<WrittenValue>,
    /// Values whose writes were not acknowledged: they are there as they were written, or not at all.
    pub(super) unknown: Vec<WrittenValue>,
    /// The values written while all replicas ran, of each length: the first of `kept`.
    pub(super) first: u64,
    pub(super) next: u64,
}

/// What became of one request.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) kind: Kind,
    /// The replica asked.
    pub(super) replica: usize,
    /// How long the last attempt took.
    pub(super) took: Duration,
    /// From the beginning to the end of the last attempt.
    pub(super) since: Duration,
    /// Why it was not served, if so.
    pub(super) error: Option<String>,
    /// Whether the error is the replica's own, rather than silence or a lost connection.
    pub(super) is_clear: bool,
}

impl Kind {
    pub(super) const ALL: [Kind; 6] = [
        Kind::SmallWrite,
        Kind::CodedWrite,
        Kind::LargeWrite,
        Kind::SmallRead,
        Kind::CodedRead,
        Kind::LargeRead,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::SmallWrite => "write 100 B",
            Kind::CodedWrite => "write 4 KiB",
            Kind::LargeWrite => "write 300 KiB",
            Kind::SmallRead => "read 100 B",
            Kind::CodedRead => "read 4 KiB",
            Kind::LargeRead => "read 300 KiB",
        }
    }

    /// Bytes of the value.
    pub(super) fn len(self) -> usize {
        match self {
            Kind::SmallWrite | Kind::SmallRead => 100,
            Kind::CodedWrite | Kind::CodedRead => 4 << 10,
            Kind::LargeWrite | Kind::LargeRead => 300 << 10,
        }
    }

    pub(super) fn is_write(self) -> bool {
        matches!(self, Kind::SmallWrite | Kind::CodedWrite | Kind::LargeWrite)
    }

    /// Whether it is served under a promise.
    pub(super) fn service(self, promise: Promise) -> Service {
        match self {
            _ if self.is_write() => promise.writes,
            Kind::SmallRead => promise.small_reads,
            _ => promise.coded_reads,
        }
    }
}

impl Written {
    pub(super) fn new(seed: u64) -> Written {
        Written {
            values: Values::new(seed),
            kept: Vec::new(),
            unknown: Vec::new(),
            first: 0,
            next: 0,
        }
    }

    /// The length of a value of the beginning.
    pub(super) fn first_len(number: u64) -> usize {
        let writes = [Kind::SmallWrite, Kind::CodedWrite, Kind::LargeWrite];
        writes[number as usize % writes.len()].len()
    }

    /// A value to read: one of the beginning.
    fn to_read(&self, kind: Kind) -> u64 {
        let place = Kind::ALL.iter().position(|one| *one == kind).unwrap_or(0) as u64 % 3;
        let triple = fastrand::u64(..self.first / 3);
        triple * 3 + place
    }

    /// Asks every one of these replicas for everything, all at once, and again whatever fails until
    /// the patience has an end.
    pub(super) async fn observe(
        &mut self,
        replicas: &[(usize, String)],
        patience: Duration,
    ) -> Result<Vec<Outcome>, String> {
        let mut tasks = JoinSet::new();
        for (replica, url) in replicas {
            for kind in Kind::ALL {
                let number = if kind.is_write() {
                    self.next += 1;
                    self.next - 1
                } else {
                    self.to_read(kind)
                };
                let request = Request {
                    kind,
                    replica: *replica,
                    number,
                    values: self.values,
                };
                let asker = Asker::new(url, TIMEOUT)?;
                tasks.spawn(async move { (number, request.run(asker, patience).await) });
            }
        }
        let mut outcomes = Vec::new();
        while let Some(done) = tasks.join_next().await {
            let (number, outcome) = done.map_err(|error| format!("a client failed: {error}"))?;
            if outcome.kind.is_write() {
                let of = match outcome.error {
                    None => &mut self.kept,
                    Some(_) => &mut self.unknown,
                };
                let len = outcome.kind.len();
                of.push(WrittenValue { number, len });
            }
            outcomes.push(outcome);
        }
        outcomes.sort_by_key(|outcome| (outcome.kind, outcome.replica));
        Ok(outcomes)
    }
}

/// A request while it is under way.
struct Request {
    kind: Kind,
    replica: usize,
    number: u64,
    values: Values,
}

impl Request {
    async fn run(&self, mut asker: Asker, patience: Duration) -> Outcome {
        let began = Instant::now();
        loop {
            let asked = Instant::now();
            let answer = self.once(&mut asker).await;
            if answer.is_err() && began.elapsed() < patience {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            // A wrong value is no refusal.
            let is_clear = answer.as_ref().map_or_else(
                |refusal| refusal.contains(OWN_WORDS),
                |difference| difference.is_none(),
            );
            return Outcome {
                kind: self.kind,
                replica: self.replica,
                took: asked.elapsed(),
                since: began.elapsed(),
                error: answer.unwrap_or_else(Some),
                is_clear,
            };
        }
    }

    /// How what was read differs from what was written, if it does.
    async fn once(&self, asker: &mut Asker) -> Result<Option<String>, String> {
        let (key, len) = (self.values.key(self.number), self.kind.len());
        if self.kind.is_write() {
            let value = self.values.value(self.number, len);
            return asker.put(&key, value).await.map(|()| None);
        }
        let found = asker.get(&key).await?;
        let difference = self.values.difference(self.number, len, found.as_deref());
        Ok(difference.map(|what| format!("value {}: {what}", self.number)))
    }
}

/// What the errors of a replica begin with, behind gRPC's name for them.
const OWN_WORDS: &str = "etcdserver: ";
/// Longer than a replica lets a request wait: silence is seen as such.
const TIMEOUT: Duration = Duration::from_secs(12);
const PAUSE: Duration = Duration::from_millis(50);
