//! Where the messages of a gRPC call begin and end.

/// In front of every message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Follows the messages in the body of a call.
#[derive(Debug, Default)]
pub(super) struct Messages {
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of `prefix` that came; all of them while the message is awaited.
    prefix_bytes: usize,
    /// Bytes of the message that did not come yet; of no meaning before its prefix is complete.
    bytes_left: usize,
    /// Bytes of the message that is not complete.
    incomplete: usize,
    /// Bytes of messages that are complete.
    complete: usize,
}

impl Messages {
    /// Follows these bytes, which come next.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let prefix = &mut self.prefix[self.prefix_bytes..];
            let count = if prefix.is_empty() {
                let count = self.bytes_left.min(bytes.len());
                self.bytes_left -= count;
                count
            } else {
                let count = prefix.len().min(bytes.len());
                prefix[..count].copy_from_slice(&bytes[..count]);
                self.prefix_bytes += count;
                let [_, length @ ..] = self.prefix;
                self.bytes_left = u32::from_be_bytes(length) as usize;
                count
            };
            bytes = &bytes[count..];
            self.incomplete += count;
            if self.prefix_bytes == PREFIX_BYTES && self.bytes_left == 0 {
                self.complete += std::mem::take(&mut self.incomplete);
                self.prefix_bytes = 0;
            }
        }
    }

    /// The bytes of messages completed since this was last asked.
    pub(super) fn take_complete(&mut self) -> usize {
        std::mem::take(&mut self.complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: messages of 3, 0 and 300 bytes and the beginning of another, in pieces of any length.
    #[test]
    fn a_message_is_complete_with_its_last_byte() {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for length in [3_u32, 0, 300] {
            bytes.push(0);
            bytes.extend(length.to_be_bytes());
            bytes.resize(bytes.len() + length as usize, 7);
            ends.push(bytes.len());
        }
        bytes.extend([0, 0, 0, 1]);
        for piece_bytes in 1..=bytes.len() {
            let mut messages = Messages::default();
            let (mut at, mut complete) = (0, 0);
            for piece in bytes.chunks(piece_bytes) {
                messages.pass(piece);
                at += piece.len();
                complete += messages.take_complete();
                let last = ends.iter().rev().find(|end| **end <= at);
                assert_eq!(complete, last.copied().unwrap_or(0), "after {at} bytes");
            }
        }
    }
}
