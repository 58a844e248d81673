//! Lets in clients that name a URL where HTTP/2 wants an authority.
//!
//! etcdctl and other Go clients, given an endpoint such as `http://127.0.0.1:2379`, send exactly
//! that as `:authority` with some requests. Go's servers do not mind; this one's HTTP/2 library
//! resets the stream, because an authority has no scheme. Nothing here ever reads the authority,
//! so the prefix `http://` is turned into `httpB..`, which has the same length plain and under
//! HPACK's Huffman code (RFC 7541, appendix B): the bytes are changed in place, and both ends'
//! header tables still agree in size.
//!
//! A client sends the literal in the first HEADERS frame of a connection and refers to it
//! afterwards, so only that frame is looked at; from then on bytes pass untouched.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEADER_BYTES: usize = 9;
const HEADERS: u8 = 1;
const FLAG_PADDED: u8 = 0x8;
const FLAG_PRIORITY: u8 = 0x20;
/// Before settings are agreed no frame is longer than this (RFC 9113, section 4.2).
const FRAME_BYTES_MAX: usize = 16 << 10;
/// Bytes read at a time while the beginning of a connection is looked at.
const READ_BYTES: usize = 4096;
/// `:authority` in HPACK's static table (RFC 7541, appendix A).
const AUTHORITY: u64 = 1;

/// A connection whose first request may name a URL as its authority.
#[derive(Debug)]
pub(crate) struct TolerantConnection<S> {
    inner: S,
    /// `None` once the first request has passed.
    opening: Option<Opening>,
    /// Bytes looked at and not read yet.
    ready: Vec<u8>,
    read: usize,
}

/// What is known of the beginning of a connection.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    held: Vec<u8>,
    preface_seen: bool,
}

impl<S> TolerantConnection<S> {
    pub(crate) fn new(inner: S) -> Self {
        TolerantConnection {
            inner,
            opening: Some(Opening::default()),
            ready: Vec::new(),
            read: 0,
        }
    }
}

impl Opening {
    /// Takes bytes in; gives out those that may pass. True once nothing more is to be looked at.
    pub(crate) fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.held.extend_from_slice(bytes);
        if !self.preface_seen {
            let known = self.held.len().min(PREFACE.len());
            if self.held[..known] != PREFACE[..known] {
                return self.release(out); // not HTTP/2
            }
            if known < PREFACE.len() {
                return false;
            }
            self.preface_seen = true;
            out.extend(self.held.drain(..PREFACE.len()));
        }
        while let Some(header) = self.held.first_chunk::<FRAME_HEADER_BYTES>() {
            let length =
                usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
            let (kind, flags) = (header[3], header[4]);
            let end = FRAME_HEADER_BYTES + length;
            if length > FRAME_BYTES_MAX {
                return self.release(out);
            }
            if self.held.len() < end {
                return false;
            }
            if kind == HEADERS {
                if let Some(block) = block_of(&mut self.held[FRAME_HEADER_BYTES..end], flags) {
                    mend_authority(block);
                }
                return self.release(out);
            }
            out.extend(self.held.drain(..end));
        }
        false
    }

    /// What was looked at and may not pass yet.
    pub(crate) fn held(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn release(&mut self, out: &mut Vec<u8>) -> bool {
        out.append(&mut self.held);
        true
    }
}

/// The header block in the payload of a HEADERS frame.
fn block_of(payload: &mut [u8], flags: u8) -> Option<&mut [u8]> {
    let mut from = 0;
    let mut to = payload.len();
    if flags & FLAG_PADDED != 0 {
        to = to.checked_sub(usize::from(*payload.first()?))?;
        from += 1;
    }
    if flags & FLAG_PRIORITY != 0 {
        from += 5;
    }
    payload.get_mut(from..to)
}

/// Walks the fields of a header block up to `:authority` and takes the scheme out of its value.
/// A block that is not well formed is left for the HTTP/2 library to refuse.
fn mend_authority(block: &mut [u8]) {
    let mut at = 0;
    while let Some(first) = block.get(at).copied() {
        let prefix_bits = match first {
            0x80.. => 7,
            0x40..0x80 => 6,
            0x20..0x40 => 5,
            0x00..0x20 => 4,
        };
        let Some((index, after)) = integer(block, at, prefix_bits) else {
            return;
        };
        at = after;
        if prefix_bits == 7 || prefix_bits == 5 {
            continue; // a field of the tables, or a new table size: no strings follow
        }
        if index == 0 {
            let Some((_, after)) = string(block, at) else {
                return;
            };
            at = after;
        }
        let Some((value, after)) = string(block, at) else {
            return;
        };
        if index == AUTHORITY {
            let huffman = block[at] & 0x80 != 0;
            return replace_scheme(&mut block[value..after], huffman);
        }
        at = after;
    }
}

/// An HPACK integer (RFC 7541, section 5.1): its value, and where the next byte is.
fn integer(block: &[u8], at: usize, prefix_bits: u32) -> Option<(u64, usize)> {
    let mask = (1u8 << prefix_bits) - 1;
    let mut value = u64::from(block.get(at)? & mask);
    if value < u64::from(mask) {
        return Some((value, at + 1));
    }
    for (count, byte) in block[at + 1..].iter().take(4).enumerate() {
        value += u64::from(byte & 0x7f) << (7 * count);
        if byte & 0x80 == 0 {
            return Some((value, at + 2 + count));
        }
    }
    None
}

/// An HPACK string (section 5.2): where its bytes begin and end.
fn string(block: &[u8], at: usize) -> Option<(usize, usize)> {
    let (length, from) = integer(block, at, 7)?;
    let to = from.checked_add(usize::try_from(length).ok()?)?;
    (to <= block.len()).then_some((from, to))
}

fn replace_scheme(value: &mut [u8], huffman: bool) {
    for (scheme, substitute) in [("http://", "httpB.."), ("https://", "httpsB..")] {
        if !huffman {
            if value.starts_with(scheme.as_bytes()) {
                value[..scheme.len()].copy_from_slice(substitute.as_bytes());
                return;
            }
            continue;
        }
        let (old, new) = (huffman_bits(scheme), huffman_bits(substitute));
        let bit = |index: usize| value[index / 8] >> (7 - index % 8) & 1 == 1;
        if value.len() * 8 >= old.len() && (0..old.len()).all(|index| bit(index) == old[index]) {
            for (index, bit) in new.iter().enumerate() {
                let mask = 0x80 >> (index % 8);
                value[index / 8] = value[index / 8] & !mask | if *bit { mask } else { 0 };
            }
            return;
        }
    }
}

/// The Huffman code of the few symbols that schemes and their substitutes are made of.
fn huffman_bits(text: &str) -> Vec<bool> {
    let code = |symbol: char| match symbol {
        's' => (0x08, 5),
        't' => (0x09, 5),
        '.' => (0x17, 6),
        '/' => (0x18, 6),
        'h' => (0x27, 6),
        'p' => (0x2b, 6),
        ':' => (0x5c, 7),
        'B' => (0x5d, 7),
        _ => unreachable!("not in a scheme"),
    };
    let bits = |symbol| {
        let (code, length): (u32, u32) = code(symbol);
        (0..length).rev().map(move |bit| code >> bit & 1 == 1)
    };
    text.chars().flat_map(bits).collect()
}

impl<S: AsyncRead + Unpin> AsyncRead for TolerantConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.read < this.ready.len() {
                let count = buf.remaining().min(this.ready.len() - this.read);
                buf.put_slice(&this.ready[this.read..this.read + count]);
                this.read += count;
                return Poll::Ready(Ok(()));
            }
            let Some(opening) = &mut this.opening else {
                this.ready = Vec::new();
                return Pin::new(&mut this.inner).poll_read(cx, buf);
            };
            (this.read, this.ready) = (0, Vec::new());
            let mut bytes = [0; READ_BYTES];
            let mut chunk = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut chunk))?;
            let ended = chunk.filled().is_empty();
            if opening.pass(chunk.filled(), &mut this.ready) || ended {
                this.ready.append(&mut opening.held());
                this.opening = None;
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TolerantConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = payload.len() as u32;
        let mut out = length.to_be_bytes()[1..].to_vec();
        out.extend([kind, flags, 0, 0, 0, 1]);
        out.extend(payload);
        out
    }

    /// `:method POST`, a literal name, then `:authority` with this value.
    fn block(value: &[u8], huffman: bool) -> Vec<u8> {
        let mut out = vec![0x83, 0x40, 2, b'x', b'y', 1, b'z', 0x41];
        out.push(value.len() as u8 | if huffman { 0x80 } else { 0 });
        out.extend(value);
        out.push(0x86);
        out
    }

    fn connection(headers: &[u8]) -> Vec<u8> {
        let settings = frame(4, 0, &[0; 12]);
        [
            PREFACE,
            &settings,
            &frame(HEADERS, 4, headers),
            &frame(0, 1, b"data"),
        ]
        .concat()
    }

    fn huffman(text: &str) -> Vec<u8> {
        let mut bits = huffman_bits(text);
        bits.resize(bits.len().next_multiple_of(8), true);
        bits.chunks(8)
            .map(|byte| byte.iter().fold(0, |n, bit| n << 1 | u8::from(*bit)))
            .collect()
    }

    /// Everything that passes when the bytes come in pieces of `size`.
    fn passed(bytes: &[u8], size: usize) -> Vec<u8> {
        let mut opening = Opening::default();
        let mut out = Vec::new();
        let mut done = false;
        for piece in bytes.chunks(size) {
            if done {
                out.extend(piece);
            } else {
                done = opening.pass(piece, &mut out);
            }
        }
        out.append(&mut opening.held());
        out
    }

    #[test]
    fn a_scheme_is_taken_out_of_the_authority_whatever_its_code_and_however_it_arrives() {
        for (before, after) in [("http://h", "httpB..h"), ("https://h", "httpsB..h")] {
            let plain = (before.as_bytes().to_vec(), after.as_bytes().to_vec(), false);
            let coded = (huffman(before), huffman(after), true);
            for (before, after, is_huffman) in [plain, coded] {
                assert_eq!(before.len(), after.len());
                let sent = connection(&block(&before, is_huffman));
                let expected = connection(&block(&after, is_huffman));
                for size in [1, 2, 7, 40, 1000] {
                    assert_eq!(passed(&sent, size), expected);
                }
            }
        }
    }

    #[test]
    fn anything_else_passes_untouched() {
        let proper = connection(&block(b"127.0.0.1:2379", false));
        let padded = [PREFACE, &frame(HEADERS, FLAG_PADDED, &[200, 1, 2])].concat();
        let endless = [PREFACE, &frame(HEADERS, 4, &[0x7f; 60])].concat();
        let http1 = b"GET /health HTTP/1.1\r\nhost: http://x\r\n\r\n".to_vec();
        for bytes in [
            proper,
            padded,
            endless,
            http1,
            PREFACE[..9].to_vec(),
            Vec::new(),
        ] {
            for size in [1, 3, 1000] {
                assert_eq!(passed(&bytes, size), bytes);
            }
        }
    }

    #[test]
    fn no_bytes_panic_or_get_lost() {
        let sent = connection(&block(b"http://127.0.0.1:2379", false));
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut bytes = sent.clone();
            for _ in 0..3 {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let at = PREFACE.len() + (state >> 33) as usize % (bytes.len() - PREFACE.len());
                bytes[at] = (state >> 20) as u8;
            }
            assert_eq!(passed(&bytes, 11).len(), bytes.len());
        }
    }
}
