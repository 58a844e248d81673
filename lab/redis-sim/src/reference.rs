//! The stream as the order of commands makes it, and the data that follows from it.

use crate::data::Data;
use bytes::{Bytes, BytesMut};
use quorate_core::Wire;
use quorate_redis_effects::{Command, GENESIS_OFFSET, Shared};
use quorate_resp::{Limits, RequestParser};
use std::collections::BTreeMap;

/// An independent account of what is accepted.
pub(crate) struct Reference {
    epoch: u64,
    len: u64,
    unit: Vec<Bytes>,
    unit_bytes: u64,
    pending: BTreeMap<u64, (Bytes, bool)>,
    data: Data,
    digests: BTreeMap<u64, u64>,
    /// The stream's own digest by its length, where replicas told it.
    told: BTreeMap<u64, u64>,
}

impl Default for Reference {
    fn default() -> Self {
        let data = Data::default();
        Reference {
            epoch: 0,
            len: GENESIS_OFFSET,
            unit: Vec::new(),
            unit_bytes: 0,
            pending: BTreeMap::new(),
            digests: BTreeMap::from([(GENESIS_OFFSET, data.digest())]),
            told: BTreeMap::new(),
            data,
        }
    }
}

impl Reference {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The digest of the data at an offset, if a command ends there outside a transaction.
    pub(crate) fn digest_at(&self, offset: u64) -> Option<u64> {
        self.digests.get(&offset).copied()
    }

    pub(crate) fn counter(&mut self) -> u64 {
        let reply = self.data.execute(&["GET", "n"], 0, 0).reply;
        number(&reply).unwrap_or(0)
    }

    pub(crate) fn members(&mut self) -> Vec<u64> {
        let mut members = Vec::new();
        while let Some(member) = number(&self.data.execute(&["SPOP", "s"], 0, 0).reply) {
            members.push(member);
        }
        members
    }

    /// V1: a replica's stream is as long as this, and has this digest. It may be the longest so far.
    pub(crate) fn saw(&mut self, shared: &Shared) -> Result<(), String> {
        let state = shared.state();
        if state.len > self.len {
            let chunks = (shared.since(self.len)).ok_or("a replica forgot what only it had")?;
            self.unit_bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
            self.unit = chunks;
            self.complete();
        }
        match *self.told.entry(state.len).or_insert(state.digest) == state.digest {
            true => Ok(()),
            false => Err(format!("V1: two streams differ before {}", state.len)),
        }
    }

    pub(crate) fn order(&mut self, body: &Bytes) {
        match Command::from_bytes(body.clone()) {
            Ok(Command::Claim { over, .. }) if over == self.epoch => {
                self.epoch += 1;
                self.unit.clear();
                self.unit_bytes = 0;
                self.pending.clear();
            }
            Ok(Command::Effects {
                epoch,
                start,
                bytes,
                last,
            }) if epoch == self.epoch && start >= self.len + self.unit_bytes => {
                self.pending.insert(start, (bytes, last));
                while let Some((bytes, last)) = self.pending.remove(&(self.len + self.unit_bytes)) {
                    self.unit_bytes += bytes.len() as u64;
                    self.unit.push(bytes);
                    if last {
                        self.complete();
                    }
                }
            }
            _ => {}
        }
    }

    fn complete(&mut self) {
        let mut input = BytesMut::from(&self.unit.concat()[..]);
        self.unit.clear();
        let begin = self.len;
        let bytes = std::mem::take(&mut self.unit_bytes);
        self.len += bytes;
        let mut parser = RequestParser::new(Limits::default());
        let mut is_open = false;
        while let Ok(Some(words)) = parser.next(&mut input) {
            let words: Vec<String> = words
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match words[0] {
                "MULTI" => is_open = true,
                "EXEC" => is_open = false,
                _ => {
                    let _ = self.data.execute(&words, 0, 0);
                }
            }
            if !is_open {
                let offset = begin + bytes - input.len() as u64;
                self.digests.insert(offset, self.data.digest());
            }
        }
    }
}

/// The number in a reply.
pub(crate) fn number(reply: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(reply).ok()?;
    match text.strip_prefix(':') {
        Some(rest) => rest.trim_end().parse().ok(),
        None => text.split("\r\n").nth(1)?.parse().ok(),
    }
}
