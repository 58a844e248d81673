//! Where the frames of an HTTP/2 connection begin and end.

/// What an HTTP/2 connection begins with.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const FRAME_HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const FLAG_END_STREAM: u8 = 0x1;
const FLAG_END_HEADERS: u8 = 0x4;

/// What keeping a frame of data costs the library, in bytes. It counts by how much shorter a frame is.
const FRAME_COST: usize = 256;

/// What a client speaks, as far as it has said.
#[derive(Debug)]
pub(super) enum Language {
    /// The bytes so far are the beginning of HTTP/2's preface: their number.
    Unknown(usize),
    Http1,
    Http2(Frames),
}

impl Default for Language {
    fn default() -> Self {
        Language::Unknown(0)
    }
}

impl Language {
    /// Follows these bytes, which come next, or the first of them: to the end of the preface or a frame. Says how many.
    pub(super) fn next(&mut self, bytes: &[u8]) -> usize {
        match self {
            Language::Unknown(known) => {
                let count = bytes.len().min(PREFACE.len() - *known);
                if bytes[..count] != PREFACE[*known..*known + count] {
                    *self = Language::Http1;
                    return bytes.len();
                }
                *known += count;
                if *known == PREFACE.len() {
                    *self = Language::Http2(Frames::default());
                }
                count
            }
            Language::Http1 => bytes.len(),
            Language::Http2(frames) => frames.next(bytes),
        }
    }

    /// What the library counts for the frame that has just ended; 0 if none has.
    pub(super) fn cost(&self) -> usize {
        match self {
            Language::Http2(frames) => frames.cost(),
            Language::Unknown(_) | Language::Http1 => 0,
        }
    }
}

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
    /// Follows these bytes, which come next, up to the end of a frame. Says how many.
    fn next(&mut self, bytes: &[u8]) -> usize {
        let header = &mut self.header[self.header_bytes..];
        let of_header = header.len().min(bytes.len());
        header[..of_header].copy_from_slice(&bytes[..of_header]);
        self.header_bytes += of_header;
        if self.header_bytes < FRAME_HEADER_BYTES {
            return of_header;
        }
        if of_header > 0 {
            self.payload_bytes_left = self.payload_bytes();
        }
        let of_payload = self.payload_bytes_left.min(bytes.len() - of_header);
        self.payload_bytes_left -= of_payload;
        if self.payload_bytes_left == 0 {
            if self.is_of_head() {
                self.is_block_open = self.header[4] & FLAG_END_HEADERS == 0;
            }
            self.header_bytes = 0;
        }
        of_header + of_payload
    }

    fn payload_bytes(&self) -> usize {
        let [a, b, c, ..] = self.header;
        u32::from_be_bytes([0, a, b, c]) as usize
    }

    /// What the library counts for the frame that has just ended: of frames of data, but not for the last of a stream.
    fn cost(&self) -> usize {
        let is_counted = self.header_bytes == 0
            && self.header[3] == DATA
            && self.header[4] & FLAG_END_STREAM == 0
            && self.payload_bytes() > 0;
        match is_counted {
            true => FRAME_COST.saturating_sub(self.payload_bytes()),
            false => 0,
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
                let mut left = piece;
                while !left.is_empty() {
                    left = &left[followed.next(left)..];
                }
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
