//! A line on a terminal that says how far a file has come.

use std::cell::Cell;
use std::io::{IsTerminal, Write};

/// How far it has come, in parts of a hundred, if anybody is there to see it.
pub(crate) struct Progress {
    bytes: u64,
    shown: Option<Cell<u64>>,
}

/// Characters of a full bar.
const WIDTH: usize = 40;

impl Progress {
    /// Of a file of so many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        Progress {
            bytes: bytes.max(1),
            shown: is_seen.then(|| Cell::new(u64::MAX)),
        }
    }

    /// Tells that so many bytes were read, of keys and values.
    pub(crate) fn read(&self, bytes: u64) {
        let Some(shown) = &self.shown else {
            return;
        };
        let part = (bytes.saturating_mul(100) / self.bytes).min(100);
        if shown.replace(part) != part {
            self.draw(&bar(part));
        }
    }

    /// Something else is being done now.
    pub(crate) fn say(&self, what: &str) {
        if self.shown.is_some() {
            self.draw(what);
        }
    }

    /// Clears the line.
    pub(crate) fn end(&self) {
        if self.shown.is_some() {
            self.draw("");
        }
    }

    fn draw(&self, text: &str) {
        // A terminal that is gone is no reason to stop.
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "\r\x1b[K{text}");
        let _ = out.flush();
    }
}

fn bar(part: u64) -> String {
    let full = part as usize * WIDTH / 100;
    let (done, left) = ("#".repeat(full), "-".repeat(WIDTH - full));
    format!("reading [{done}{left}] {part} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_it_is_far() {
        let empty = format!("reading [{}] 0 %", "-".repeat(WIDTH));
        assert_eq!(bar(0), empty);
        assert_eq!(bar(50).matches('#').count(), WIDTH / 2);
        assert_eq!(bar(100).matches('#').count(), WIDTH);
    }
}
