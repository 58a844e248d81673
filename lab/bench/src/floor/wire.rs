//! The floor's protocol: a length before every command and every batch, a count as the answer.

use std::io::{self, Read};

/// Bytes of the length in front of a command or a batch.
pub(super) const HEADER_BYTES: usize = 4;

/// Bytes of an acknowledgement: one per command or batch, content without meaning.
pub(super) const ACK_BYTES: usize = 4;

/// The largest command.
pub(super) const FRAME_BYTES_MAX: usize = 64 << 20;

/// A receive buffer that hands out whole frames, headers included.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: Vec<u8>,
    filled: usize,
}

impl Frames {
    /// Reads once from `source`; an end of stream is an error, a frame cut short or not.
    pub(super) fn fill(&mut self, source: &mut impl Read) -> io::Result<()> {
        let wanted = self.filled + READ_BYTES.max(self.missing());
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        match source.read(&mut self.buffer[self.filled..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.filled += read;
                Ok(())
            }
        }
    }

    /// The whole frames received so far, end to end, and how many.
    pub(super) fn whole(&self) -> (&[u8], usize) {
        let (mut end, mut count) = (0, 0);
        while let Some(size) = self.frame_at(end).filter(|size| end + size <= self.filled) {
            end += size;
            count += 1;
        }
        (&self.buffer[..end], count)
    }

    /// Drops the first `bytes` bytes, which were handed out.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.buffer.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
    }

    fn missing(&self) -> usize {
        self.frame_at(0)
            .map_or(0, |size| size.saturating_sub(self.filled))
    }

    fn frame_at(&self, at: usize) -> Option<usize> {
        let header = self.buffer[..self.filled].get(at..at + HEADER_BYTES)?;
        let payload = u32::from_le_bytes(header.try_into().ok()?) as usize;
        Some(HEADER_BYTES + payload)
    }
}

/// A command of `payload` bytes, with its length in front.
pub(super) fn frame(payload: usize) -> Vec<u8> {
    let mut frame = (payload as u32).to_le_bytes().to_vec();
    frame.resize(HEADER_BYTES + payload, 0x5a);
    frame
}

const READ_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_arrive() {
        let mut stream = frame(10);
        stream.extend(frame(20));
        let mut frames = Frames::default();
        frames.fill(&mut &stream[..13]).unwrap();
        assert_eq!(frames.whole().1, 0);
        frames.fill(&mut &stream[13..20]).unwrap();
        assert_eq!(frames.whole(), (&stream[..14], 1));
        frames.consume(14);
        frames.fill(&mut &stream[20..]).unwrap();
        assert_eq!(frames.whole(), (&stream[14..], 1));
        assert!(frames.fill(&mut &[][..]).is_err());
    }
}
