//! Where the frames of an HTTP/2 connection begin and end.

const FRAME_HEADER_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const FLAG_END_HEADERS: u8 = 0x4;

/// Follows the frames that a client sends (RFC 9113, section 4.1) to know whether a head has begun and is not
/// complete.
#[derive(Debug, Default)]
pub(super) struct Frames {
    header: [u8; FRAME_HEADER_BYTES],
    /// Bytes of `header` that came; all of them while the frame's payload is awaited.
    header_bytes: usize,
    /// Bytes of the payload that did not come yet.
    payload_bytes_left: usize,
    /// Whether a block of headers is to be continued by another frame.
    is_block_open: bool,
}

impl Frames {
    /// Follows these bytes, which come next.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        loop {
            let header = &mut self.header[self.header_bytes..];
            let count = header.len().min(bytes.len());
            header[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.header_bytes += count;
            if self.header_bytes < FRAME_HEADER_BYTES {
                return;
            }
            if count > 0 {
                let [a, b, c, ..] = self.header;
                self.payload_bytes_left = u32::from_be_bytes([0, a, b, c]) as usize;
            }
            let count = self.payload_bytes_left.min(bytes.len());
            bytes = &bytes[count..];
            self.payload_bytes_left -= count;
            if self.payload_bytes_left > 0 {
                return;
            }
            if self.is_of_head() {
                self.is_block_open = self.header[4] & FLAG_END_HEADERS == 0;
            }
            self.header_bytes = 0;
        }
    }

    /// Whether more has to come before the head of a request is complete.
    pub(super) fn is_in_head(&self) -> bool {
        let is_whole = self.header_bytes == FRAME_HEADER_BYTES;
        self.is_block_open || (self.header_bytes > 0 && (!is_whole || self.is_of_head()))
    }

    /// Whether the present frame carries headers.
    fn is_of_head(&self) -> bool {
        matches!(self.header[3], HEADERS | CONTINUATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: u8 = 0;

    fn frame(kind: u8, flags: u8, payload_bytes: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, payload_bytes, kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEADER_BYTES + usize::from(payload_bytes), 7);
        frame
    }

    /// Scenario: a head in two frames, a body, an empty frame, another head; in pieces of any length.
    #[test]
    fn a_head_is_incomplete_from_its_first_byte_to_its_last() {
        let frames = [
            (frame(HEADERS, 0, 20), true),
            (frame(CONTINUATION, FLAG_END_HEADERS, 3), true),
            (frame(DATA, 0, 30), false),
            (frame(DATA, 1, 0), false),
            (frame(HEADERS, FLAG_END_HEADERS, 5), true),
        ];
        let mut incomplete_after = Vec::new();
        for (frame, is_of_head) in &frames {
            let last = frame.len() - 1;
            let ends_head = frame[4] & FLAG_END_HEADERS != 0;
            incomplete_after.extend((0..frame.len()).map(|at| match at {
                at if at == last => *is_of_head && !ends_head,
                at if at + 1 < FRAME_HEADER_BYTES => true,
                _ => *is_of_head,
            }));
        }
        let bytes: Vec<u8> = frames
            .iter()
            .flat_map(|(frame, _)| frame)
            .copied()
            .collect();
        for piece_bytes in 1..=bytes.len() {
            let mut followed = Frames::default();
            let mut at = 0;
            for piece in bytes.chunks(piece_bytes) {
                followed.pass(piece);
                at += piece.len();
                let expected = incomplete_after[at - 1];
                assert_eq!(
                    followed.is_in_head(),
                    expected,
                    "after {at} bytes in pieces of {piece_bytes}"
                );
            }
        }
    }
}
