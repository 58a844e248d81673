//! Commands of the log: calls of one connection, and who waits for the replies to them.

use bytes::Bytes;
use quorate_core::{Encoder, Wire, WireError};
use quorate_redis_store::Request;

/// The first byte of every body, which no other application behind the Redis face uses.
pub const BODY_TAG: u8 = 0xC0;
/// Bytes of a body before the request: the tag, a process, and a number.
const HEAD_BYTES: usize = 17;

/// Who waits for the replies to a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// A number of the process that took the request, which no other process has.
    pub boot: u64,
    /// The number of the request within the process.
    pub number: u64,
}

/// A body that was taken: it is to be carried out by every server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Who waits for the replies.
    pub origin: Origin,
    /// The body with its tag and origin.
    pub(crate) body: Bytes,
}

/// The body of a request.
#[must_use]
pub fn body(origin: Origin, request: &Request) -> Bytes {
    let mut out = Encoder::new();
    out.u8(BODY_TAG);
    out.u64(origin.boot);
    out.u64(origin.number);
    request.encode(&mut out);
    out.into_bytes()
}

impl Entry {
    /// Reads a body up to its request.
    pub(crate) fn of(body: &Bytes) -> Option<Entry> {
        let head = body.get(..HEAD_BYTES).filter(|head| head[0] == BODY_TAG)?;
        let number = |from: usize| {
            let bytes = head.get(from..from + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        Some(Entry {
            origin: Origin {
                boot: number(1)?,
                number: number(9)?,
            },
            body: body.clone(),
        })
    }

    /// The calls that are to be carried out.
    ///
    /// # Errors
    /// When they are no such calls.
    pub fn request(&self) -> Result<Request, WireError> {
        Request::from_bytes(request_bytes(&self.body))
    }
}

/// The request of a body, encoded; nothing of one that is too short.
pub(crate) fn request_bytes(body: &Bytes) -> Bytes {
    body.slice(HEAD_BYTES.min(body.len())..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_redis_store::Call;

    #[test]
    fn a_body_says_whose_it_is_and_what_is_asked() {
        let origin = Origin {
            boot: 7,
            number: 1 << 40,
        };
        let request = Request {
            db: 3,
            calls: vec![Call {
                args: vec!["GET".into(), "a".into()],
            }],
            ..Request::default()
        };
        let entry = Entry::of(&body(origin, &request)).expect("it is a body");
        assert_eq!((entry.origin, entry.request()), (origin, Ok(request)));
        for bytes in [&b""[..], &[BODY_TAG; 16], &[0xE5; 40]] {
            assert_eq!(Entry::of(&Bytes::copy_from_slice(bytes)), None);
        }
    }
}
