//! How long replies are, for who looks for the one behind them.

use crate::number::parse_integer;
use std::fmt;

/// Replies within replies, at most.
const DEPTH_MAX: u32 = 32;

/// Bytes that are no reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplyError(pub(crate) &'static str);

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for ReplyError {}

/// The head of a reply: what it begins with, and where that ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) kind: u8,
    /// The line without its first byte and its end.
    pub(crate) line: &'a [u8],
    /// Bytes of the line with its end.
    pub(crate) bytes: usize,
}

impl<'a> Head<'a> {
    /// The line that `input` begins with, if it is complete.
    pub(crate) fn read(input: &'a [u8]) -> Option<Head<'a>> {
        let end = input.windows(2).position(|two| two == b"\r\n")?;
        let (kind, line) = input[..end].split_first()?;
        Some(Head {
            kind: *kind,
            line,
            bytes: end + 2,
        })
    }

    /// How many bytes follow in one piece without their end, of a kind that has some.
    pub(crate) fn body(&self) -> Result<Option<usize>, ReplyError> {
        match self.kind {
            b'$' | b'=' | b'!' => self.count(),
            _ => Ok(None),
        }
    }

    /// How many replies follow, of a kind that consists of others.
    pub(crate) fn children(&self) -> Result<Option<usize>, ReplyError> {
        match self.kind {
            b'*' | b'~' | b'>' => self.count(),
            b'%' | b'|' => Ok(self.count()?.map(|pairs| pairs.saturating_mul(2))),
            _ => Ok(None),
        }
    }

    /// The number on the line; `None` for the one that stands for nothing.
    fn count(&self) -> Result<Option<usize>, ReplyError> {
        match parse_integer(self.line) {
            Some(-1) => Ok(None),
            Some(count) => match usize::try_from(count) {
                Ok(count) => Ok(Some(count)),
                Err(_) => Err(ReplyError("a length below none")),
            },
            None => Err(ReplyError("a length that is no number")),
        }
    }
}

/// Bytes of the reply that `input` begins with; `None` if it is not complete.
///
/// # Errors
/// What begins there is no reply.
pub fn reply_bytes(input: &[u8]) -> Result<Option<usize>, ReplyError> {
    measure(input, DEPTH_MAX)
}

fn measure(input: &[u8], depth: u32) -> Result<Option<usize>, ReplyError> {
    let Some(head) = Head::read(input) else {
        return Ok(None);
    };
    if !b"+-:$*_,#(=!%~>|".contains(&head.kind) {
        return Err(ReplyError("a reply of an unknown kind"));
    }
    if let Some(length) = head.body()? {
        let bytes = head.bytes.saturating_add(length).saturating_add(2);
        return Ok((input.len() >= bytes).then_some(bytes));
    }
    let mut bytes = head.bytes;
    for _ in 0..head.children()?.unwrap_or(0) {
        let depth = depth.checked_sub(1);
        let depth = depth.ok_or(ReplyError("replies within replies within replies"))?;
        match measure(&input[bytes..], depth)? {
            Some(child) => bytes += child,
            None => return Ok(None),
        }
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_ends_where_all_within_it_have_ended() {
        for reply in [
            "+OK\r\n",
            "$5\r\na\r\nb\n\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n*1\r\n:1\r\n$1\r\na\r\n",
            "%1\r\n+a\r\n~2\r\n:1\r\n#t\r\n",
            "=7\r\ntxt:abc\r\n",
        ] {
            let more = [reply.as_bytes(), b":7\r\n"].concat();
            assert_eq!(reply_bytes(&more), Ok(Some(reply.len())), "{reply:?}");
            for end in 0..reply.len() {
                assert_eq!(reply_bytes(&reply.as_bytes()[..end]), Ok(None), "{reply:?}");
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_refused_and_depth_is_bounded() {
        for input in ["x\r\n", "$x\r\n", "*-2\r\n", "\r\n\r\n"] {
            let measured = reply_bytes(input.as_bytes());
            assert!(measured.is_err() || measured == Ok(None), "{input:?}");
        }
        let deep = "*1\r\n".repeat(100);
        assert!(reply_bytes(deep.as_bytes()).is_err());
    }
}
