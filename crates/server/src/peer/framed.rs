//! A frame on its way to several connections: one header for all.

use super::frame;
use bytes::Bytes;
use std::cell::OnceCell;

/// A frame for some peers.
#[derive(Debug)]
pub(crate) struct Framed<'a> {
    pub(super) chunks: &'a [Bytes],
    pub(super) length: usize,
    /// The header, made when the first connection needs it.
    header: OnceCell<Bytes>,
}

impl<'a> Framed<'a> {
    /// `None` if it is larger than a peer would take.
    pub(crate) fn of(chunks: &'a [Bytes]) -> Option<Framed<'a>> {
        let length = chunks.iter().map(Bytes::len).sum();
        frame::is_length(length).then(|| Framed {
            chunks,
            length,
            header: OnceCell::new(),
        })
    }

    /// What goes before the frame on a connection.
    pub(super) fn header(&self) -> Bytes {
        let made = || header(self.chunks).unwrap_or_else(|| unreachable!("its length is right"));
        self.header.get_or_init(made).clone()
    }
}

/// The header of a frame as a piece of its own; `None` if the frame is too large to send.
pub(super) fn header(payload: &[Bytes]) -> Option<Bytes> {
    frame::header(payload).map(|header| Bytes::copy_from_slice(&header))
}
