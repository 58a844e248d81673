//! Where a stream of commands may be cut: the only place that looks into it.
//!
//! A unit is a command outside `MULTI`, or everything from `MULTI` to `EXEC`. Lengths are read and nothing else, but
//! for the names of these two.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Bytes of units that are told as one end, at most: a stream of small ones needs few notes.
const JOINED_BYTES_MAX: u64 = 64 << 10;
/// The longest line of a length, in bytes.
const LINE_BYTES_MAX: usize = 64;

/// A piece of the stream to submit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The offset of its first byte.
    pub start: u64,
    /// A part of one unit, or whole units.
    pub bytes: Bytes,
    /// Whether a unit ends with it.
    pub last: bool,
}

/// Bytes of a stream that were received and not submitted yet.
#[derive(Debug)]
pub struct Units {
    /// The offset of the first byte of the buffer.
    begin: u64,
    buffer: BytesMut,
    /// How much of the buffer is understood.
    at: usize,
    /// Arguments of the command that are yet to come.
    arguments_left: u64,
    /// Bytes of the argument that are yet to come, with the end of its line.
    body_left: u64,
    is_name_next: bool,
    is_in_multi: bool,
    /// Ends of units, as offsets of the stream.
    ends: VecDeque<u64>,
    /// The last end that is told.
    previous_end: u64,
}

impl Units {
    /// Nothing of a stream yet, from an offset on.
    #[must_use]
    pub fn new(begin: u64) -> Self {
        Units {
            begin,
            buffer: BytesMut::new(),
            at: 0,
            arguments_left: 0,
            body_left: 0,
            is_name_next: false,
            is_in_multi: false,
            ends: VecDeque::new(),
            previous_end: begin,
        }
    }

    /// The offset behind everything that was received.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.begin + self.buffer.len() as u64
    }

    /// The offset behind the last whole unit.
    #[must_use]
    pub fn complete(&self) -> u64 {
        self.ends.back().copied().unwrap_or(self.begin)
    }

    /// The offset of the first byte that was not taken.
    pub(crate) fn taken(&self) -> u64 {
        self.begin
    }

    /// Takes bytes of the stream.
    ///
    /// # Errors
    /// What is not a command.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.buffer.extend_from_slice(bytes);
        while self.step()? {}
        Ok(())
    }

    /// Understands one thing more; says whether there may be another.
    fn step(&mut self) -> Result<bool, String> {
        let rest = &self.buffer[self.at..];
        if self.body_left > 0 {
            if self.is_name_next {
                // The shortest names are looked at, so they are waited for.
                if (rest.len() as u64) < self.body_left {
                    return Ok(false);
                }
                let name = &rest[..self.body_left as usize - 2];
                if name.eq_ignore_ascii_case(b"multi") {
                    self.is_in_multi = true;
                } else if name.eq_ignore_ascii_case(b"exec") {
                    self.is_in_multi = false;
                }
                self.is_name_next = false;
            }
            let skipped = self.body_left.min(rest.len() as u64);
            self.at += skipped as usize;
            self.body_left -= skipped;
            if self.body_left == 0 {
                self.arguments_left -= 1;
                if self.arguments_left == 0 {
                    self.end_command();
                }
            }
            return Ok(skipped > 0);
        }
        let Some(end) = rest.iter().take(LINE_BYTES_MAX).position(|b| *b == b'\n') else {
            return match rest.len() < LINE_BYTES_MAX {
                true => Ok(false),
                false => Err(self.broken("a line without an end")),
            };
        };
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        let length = line.get(1..).and_then(number);
        match (line.first(), self.arguments_left, length) {
            (None, 0, _) => {
                self.at += end + 1;
                self.end_command();
            }
            (Some(b'*'), 0, Some(count @ 1..)) => {
                self.at += end + 1;
                self.arguments_left = count;
                self.is_name_next = true;
            }
            (Some(b'$'), 1.., Some(length)) => {
                self.at += end + 1;
                self.body_left = length + 2;
                self.is_name_next &= length <= 5;
            }
            _ => return Err(self.broken("neither a command nor an argument")),
        }
        Ok(true)
    }

    fn broken(&self, what: &str) -> String {
        let offset = self.begin + self.at as u64;
        format!("the server's replication stream has {what} at offset {offset}")
    }

    fn end_command(&mut self) {
        if self.is_in_multi {
            return;
        }
        let end = self.begin + self.at as u64;
        match self.ends.back_mut() {
            Some(last) if end - self.previous_end <= JOINED_BYTES_MAX => *last = end,
            last => {
                self.previous_end = last.map_or(self.begin, |last| *last);
                self.ends.push_back(end);
            }
        }
    }

    /// Takes the next piece of up to so many bytes; none unless it is part of whole units.
    pub fn take(&mut self, bytes_max: u64) -> Option<Piece> {
        let first = *self.ends.front()?;
        let start = self.begin;
        let (end, last) = match first - start > bytes_max {
            true => (start + bytes_max, false),
            false => {
                let mut end = first;
                while let Some(next) = self.ends.front()
                    && next - start <= bytes_max
                {
                    end = *next;
                    self.ends.pop_front();
                }
                (end, true)
            }
        };
        let bytes = self.buffer.split_to((end - start) as usize).freeze();
        self.at -= bytes.len();
        self.begin = end;
        self.previous_end = self.previous_end.max(end);
        Some(Piece { start, bytes, last })
    }
}

impl Units {
    /// Takes half of what was received, wherever that ends, as if it were whole: what must not be done.
    pub(crate) fn take_anywhere(&mut self) -> Option<Piece> {
        let half = self.buffer.len().div_ceil(2);
        if half == 0 {
            return None;
        }
        let start = self.begin;
        let bytes = self.buffer.split_to(half).freeze();
        self.at = self.at.saturating_sub(half);
        self.begin += half as u64;
        let begin = self.begin;
        self.ends.retain(|end| *end > begin);
        self.previous_end = self.previous_end.max(begin);
        let last = true;
        Some(Piece { start, bytes, last })
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    text.parse().ok().filter(|number| *number < 1 << 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> String {
        let words = words.iter().map(|w| format!("${}\r\n{w}\r\n", w.len()));
        let words: Vec<_> = words.collect();
        format!("*{}\r\n{}", words.len(), words.concat())
    }

    #[test]
    fn transactions_are_one_unit_however_their_bytes_arrive() {
        let set = command(&["SET", "a", "EXEC"]);
        let whole = command(&["MULTI"]) + &set + &command(&["incr", "n"]) + &command(&["exec"]);
        let stream = set.clone() + &whole + &set;
        let (one, two) = (set.len() as u64, (set.len() + whole.len()) as u64);
        for step in [1, 3, 7, stream.len()] {
            let mut units = Units::new(100);
            let mut received = 0;
            for chunk in stream.as_bytes().chunks(step) {
                units.push(chunk).unwrap();
                received += chunk.len() as u64;
                let complete = match received {
                    n if n < one => 0,
                    n if n < two => one,
                    n if n < two + one => two,
                    _ => two + one,
                };
                assert_eq!(units.complete(), 100 + complete, "after {received}");
            }
            let piece = units.take(1 << 20).unwrap();
            assert_eq!(
                (piece.start, &piece.bytes[..], piece.last),
                (100, stream.as_bytes(), true)
            );
            assert_eq!(units.take(1 << 20), None);
            assert_eq!(units.taken(), units.received());
        }
    }

    #[test]
    fn long_units_are_several_pieces_and_short_ones_share() {
        let long = command(&["SET", "a", &"x".repeat(200_000)]);
        let short = command(&["SET", "b", "1"]);
        let mut units = Units::new(1);
        units
            .push((short.clone() + &long + &short).as_bytes())
            .unwrap();
        let pieces: Vec<_> = std::iter::from_fn(|| units.take(90_000)).collect();
        let lengths: Vec<_> = pieces.iter().map(|p| (p.bytes.len(), p.last)).collect();
        let (short, long) = (short.len(), long.len());
        assert_eq!(
            lengths,
            [
                (short, true),
                (90_000, false),
                (90_000, false),
                (long - 180_000 + short, true)
            ]
        );
        assert!(
            pieces
                .windows(2)
                .all(|p| p[0].start + p[0].bytes.len() as u64 == p[1].start)
        );
    }

    #[test]
    fn what_is_no_command_is_an_error() {
        for wrong in [
            "+OK\r\n",
            "$3\r\nabc\r\n",
            "*0\r\n",
            "*1\r\n*1\r\n",
            "*x\r\n",
        ] {
            assert!(Units::new(1).push(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(Units::new(1).push(&[b'*'; 100]).is_err());
    }
}
