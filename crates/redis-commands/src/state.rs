//! What bodies change of the replicated state, and how that is taken back.
//!
//! The data is in servers. What is here says which bodies are carried out at all: `WATCH` needs to know what changed,
//! and alarms of the group leave some commands alone.

use crate::body::Entry;
use crate::footprint::{BUCKETS, bucket, changed, grows};
use bytes::Bytes;
use quorate_core::Admission;
use quorate_redis_store::{Request, Watched};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// What a body came to. It says nothing of replies: those are a server's, and come later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Every server carries the calls out.
    Taken,
    /// A watched key has changed: nothing is done.
    Aborted,
    /// Space is short: nothing is done.
    NoSpace,
    /// Replicas hold different states: nothing is done.
    Corrupt,
    /// The body is none: nothing is done.
    Malformed,
}

impl Outcome {
    const ALL: [Outcome; 5] = [
        Outcome::Taken,
        Outcome::Aborted,
        Outcome::NoSpace,
        Outcome::Corrupt,
        Outcome::Malformed,
    ];

    pub(crate) fn to_bytes(self) -> Bytes {
        Bytes::from_static(match self {
            Outcome::Taken => &[0],
            Outcome::Aborted => &[1],
            Outcome::NoSpace => &[2],
            Outcome::Corrupt => &[3],
            Outcome::Malformed => &[4],
        })
    }

    /// Reads a result of the log.
    #[must_use]
    pub fn of(result: &[u8]) -> Option<Outcome> {
        let [number] = result else {
            return None;
        };
        Outcome::ALL.get(usize::from(*number)).copied()
    }
}

/// The replicated state.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Bodies that were taken.
    pub(crate) len: u64,
    /// A digest of all bodies that were taken, in order.
    pub(crate) digest: u64,
    /// The version of what changed all keys last.
    pub(crate) all: u64,
    /// The version of what changed a key of a bucket last; 0 for nothing.
    pub(crate) versions: Vec<u64>,
}

impl Default for State {
    fn default() -> Self {
        State {
            len: 0,
            digest: 0,
            all: 0,
            versions: vec![0; BUCKETS],
        }
    }
}

/// What a state was before a body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Undo {
    len: u64,
    digest: u64,
    all: u64,
    versions: Vec<(u32, u64)>,
}

impl State {
    /// The version of a key: it differs once the key may have changed.
    pub(crate) fn version(&self, key: &[u8]) -> u64 {
        self.versions[bucket(key) as usize] ^ self.all.rotate_left(1)
    }

    /// Takes a body or refuses it; with it the entry to carry out, and what there was before.
    pub(crate) fn take(
        &mut self,
        admission: Admission,
        body: &Bytes,
    ) -> (Outcome, Option<Entry>, Undo) {
        let mut undo = Undo {
            len: self.len,
            digest: self.digest,
            all: self.all,
            versions: Vec::new(),
        };
        let entry = Entry::of(body);
        let request = entry.as_ref().and_then(|entry| entry.request().ok());
        let Some((entry, request)) = entry.zip(request) else {
            return (Outcome::Malformed, None, undo);
        };
        let outcome = self.judge(admission, body, &request);
        if outcome != Outcome::Taken {
            return (outcome, None, undo);
        }
        // Equal wherever the body ends up in the log, as a position is not.
        let version = xxh3_64(body) | 1;
        match changed(&request) {
            None => self.all = version,
            Some(buckets) => {
                for bucket in buckets {
                    let place = &mut self.versions[bucket as usize];
                    undo.versions.push((bucket, *place));
                    *place = version;
                }
            }
        }
        self.len += 1;
        self.digest = xxh3_64_with_seed(body, self.digest);
        (outcome, Some(entry), undo)
    }

    fn judge(&self, admission: Admission, body: &Bytes, request: &Request) -> Outcome {
        let stays = |watched: &Watched| self.version(&watched.key) == watched.version;
        match admission {
            Admission::Nothing => Outcome::Corrupt,
            Admission::NoGrowth if grows(body) => Outcome::NoSpace,
            _ if !request.watched.iter().all(stays) => Outcome::Aborted,
            _ => Outcome::Taken,
        }
    }

    /// Takes the newest body back.
    pub(crate) fn restore(&mut self, undo: Undo) {
        (self.len, self.digest, self.all) = (undo.len, undo.digest, undo.all);
        for (bucket, version) in undo.versions.into_iter().rev() {
            self.versions[bucket as usize] = version;
        }
    }
}
