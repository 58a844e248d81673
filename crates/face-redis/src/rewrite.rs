//! Replies that a client gets in another form than the store gave them.

use bytes::Bytes;
use quorate_resp::reply_bytes;

/// A change to a reply of the store before the client gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Rewrite {
    /// The number of receivers of a message to this channel is that of this replica.
    Receivers(Bytes),
    /// A key and a list of one element become a key and an element.
    Element,
    /// A key and a list of one member with its score become a key, a member and a score.
    Member,
}

impl Rewrite {
    /// Writes a reply as the client gets it. What is no such reply, an error for one, stays as it is.
    fn write(&self, reply: &[u8], receivers: &impl Fn(&Bytes) -> usize, out: &mut Vec<u8>) {
        match self {
            Rewrite::Receivers(channel) if reply.starts_with(b":") => {
                out.extend_from_slice(format!(":{}\r\n", receivers(channel)).as_bytes());
            }
            Rewrite::Element => flatten(reply, (b"*2\r\n", b"*1\r\n"), out),
            Rewrite::Member => flatten(reply, (b"*3\r\n", b"*1\r\n*2\r\n"), out),
            Rewrite::Receivers(_) => out.extend_from_slice(reply),
        }
    }
}

/// Writes a pair of a key and a list with the head of a flat one, without the heads within.
fn flatten(reply: &[u8], (head, inner): (&[u8], &[u8]), out: &mut Vec<u8>) {
    let flat = || {
        let pair = reply.strip_prefix(b"*2\r\n")?;
        let key = reply_bytes(pair).ok()??;
        Some((&pair[..key], pair[key..].strip_prefix(inner)?))
    };
    match flat() {
        Some((key, rest)) => [head, key, rest]
            .iter()
            .for_each(|part| out.extend_from_slice(part)),
        None => out.extend_from_slice(reply),
    }
}

/// Replies, one behind the other or as an array, with those at some places rewritten.
pub(crate) fn rewritten(
    replies: Bytes,
    is_array: bool,
    rewrites: &[(usize, Rewrite)],
    receivers: impl Fn(&Bytes) -> usize,
) -> Bytes {
    let mut out = Vec::with_capacity(replies.len() + 8 * rewrites.len());
    let mut rest = &replies[..];
    if is_array {
        let head = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        if !rest.starts_with(b"*") || rest.starts_with(b"*-") {
            return replies;
        }
        out.extend_from_slice(&rest[..head]);
        rest = &rest[head..];
    }
    for number in 0.. {
        let Ok(Some(bytes)) = reply_bytes(rest) else {
            break;
        };
        let (reply, others) = rest.split_at(bytes);
        rest = others;
        match rewrites.iter().find(|(at, _)| *at == number) {
            Some((_, rewrite)) => rewrite.write(reply, &receivers, &mut out),
            None => out.extend_from_slice(reply),
        }
    }
    out.extend_from_slice(rest);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(replies: &'static str, is_array: bool, rewrites: &[(usize, Rewrite)]) -> Bytes {
        rewritten(replies.into(), is_array, rewrites, |channel| channel.len())
    }

    #[test]
    fn receivers_are_counted_where_messages_were_published() {
        let counts = [(1, "seven--"), (2, "eight---")];
        let counts = counts.map(|(at, channel)| (at, Rewrite::Receivers(channel.into())));
        assert_eq!(
            with("+OK\r\n:0\r\n-ERR\r\n", false, &counts),
            "+OK\r\n:7\r\n-ERR\r\n"
        );
        let all = "*3\r\n$2\r\n:5\r\n:0\r\n:0\r\n";
        assert_eq!(with(all, true, &counts), "*3\r\n$2\r\n:5\r\n:7\r\n:8\r\n");
        assert_eq!(with("*-1\r\n", true, &counts), "*-1\r\n");
        assert_eq!(with("_\r\n", true, &counts), "_\r\n");
    }

    #[test]
    fn what_was_taken_stands_beside_its_key() {
        let element = [(0, Rewrite::Element)];
        let taken = "*2\r\n$1\r\na\r\n*1\r\n$1\r\nx\r\n";
        assert_eq!(with(taken, false, &element), "*2\r\n$1\r\na\r\n$1\r\nx\r\n");
        let member = [(0, Rewrite::Member)];
        let taken = "*2\r\n$1\r\na\r\n*1\r\n*2\r\n$1\r\nx\r\n,1.5\r\n";
        assert_eq!(
            with(taken, false, &member),
            "*3\r\n$1\r\na\r\n$1\r\nx\r\n,1.5\r\n"
        );
        for other in ["*-1\r\n", "_\r\n", "-WRONGTYPE no\r\n"] {
            assert_eq!(with(other, false, &element), other);
        }
    }
}
