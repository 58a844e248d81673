//! What happened: a hash of everything always, and lines of text when asked for.

use crate::probe::Lines;
use xxhash_rust::xxh3::Xxh3;

/// The record of one seed.
pub(crate) struct Trace {
    hash: Xxh3,
    lines: Option<Lines>,
}

impl Trace {
    pub(crate) fn new(lines: Option<Lines>) -> Self {
        Trace {
            hash: Xxh3::new(),
            lines,
        }
    }

    /// Something happened: its kind and numbers are hashed, its text is kept if wanted.
    pub(crate) fn event(
        &mut self,
        now_ns: u64,
        kind: &'static str,
        numbers: &[u64],
        text: impl FnOnce() -> String,
    ) {
        self.hash.update(&now_ns.to_le_bytes());
        self.hash.update(kind.as_bytes());
        for number in numbers {
            self.hash.update(&number.to_le_bytes());
        }
        if let Some(lines) = &self.lines {
            let (ms, ns) = (now_ns / 1_000_000, now_ns % 1_000_000);
            lines
                .borrow_mut()
                .push(format!("{ms:>6}.{ns:06} {kind} {}", text()));
        }
    }

    /// Bytes that belong to the event before.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    /// Equal for two runs that did the same.
    pub(crate) fn digest(&self) -> u64 {
        self.hash.digest()
    }
}
