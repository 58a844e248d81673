//! Frames: a length, and as many bytes.

use crate::wire::{Reader, WireError, Writer};

/// The most bytes of a frame after its length: a snapshot of a full book is one.
pub const FRAME_MAX: usize = 32 << 20;

/// A frame of what is written.
pub(super) fn framed(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::default();
    out.u32(0);
    write(&mut out);
    let length = u32::try_from(out.bytes.len() - 4).unwrap_or(u32::MAX);
    out.bytes[..4].copy_from_slice(&length.to_be_bytes());
    out.bytes
}

/// The most bytes of a frame after its length where nothing longer than a request comes: whoever announces more would
/// have them kept.
pub(super) const REQUEST_MAX: usize = 256;

/// Takes the first frame, of at most so many bytes, out of what a connection has received; `None` where its end is
/// still to come.
pub(super) fn take<T>(
    received: &mut Vec<u8>,
    most: usize,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, WireError>,
) -> Result<Option<T>, WireError> {
    let Some((length, rest)) = received.split_first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > most {
        return Err(WireError::Value("length"));
    }
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    let message = Reader::whole(body, read)?;
    received.drain(..4 + length);
    Ok(Some(message))
}
