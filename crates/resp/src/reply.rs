//! Replies as clients read them, for tests and tools.

use crate::number::parse_integer;
use crate::skip::{Head, ReplyError, reply_bytes};
use bytes::{Bytes, BytesMut};

/// A reply of a server.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// A short text, such as `OK`.
    Simple(String),
    /// An error, with its word in capitals.
    Error(String),
    /// An integer of 64 bits.
    Integer(i64),
    /// A string of bytes, or a text for people.
    Bulk(Bytes),
    /// Nothing: no string, or no array.
    Null,
    /// Several replies in order.
    Array(Vec<Reply>),
    /// Pairs of replies in order.
    Map(Vec<(Reply, Reply)>),
    /// Several replies without an order.
    Set(Vec<Reply>),
    /// Something that no request asked for.
    Push(Vec<Reply>),
    /// A double, as it was written.
    Double(String),
    /// A truth value, true or false.
    Boolean(bool),
}

impl Reply {
    /// Takes the first reply off a buffer; `None` if it is not complete.
    ///
    /// # Errors
    /// What begins there is no reply.
    pub fn take(input: &mut BytesMut) -> Result<Option<Reply>, ReplyError> {
        let Some(bytes) = reply_bytes(input)? else {
            return Ok(None);
        };
        let mut whole = input.split_to(bytes).freeze();
        decode(&mut whole).map(Some)
    }

    /// The text of a string, be it simple or in bulk.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Reply::Simple(text) => Some(text.clone()),
            Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}

/// Takes a complete reply off these bytes.
fn decode(input: &mut Bytes) -> Result<Reply, ReplyError> {
    let whole = input.clone();
    let head = Head::read(&whole).ok_or(ReplyError("a reply is cut off"))?;
    drop(input.split_to(head.bytes));
    let text = || String::from_utf8_lossy(head.line).into_owned();
    if let Some(length) = head.body()? {
        let body = input.split_to(length);
        drop(input.split_to(2));
        return Ok(match head.kind {
            b'!' => Reply::Error(String::from_utf8_lossy(&body).into_owned()),
            // The kind of the text, and a colon.
            b'=' => Reply::Bulk(body.slice(body.len().min(4)..)),
            _ => Reply::Bulk(body),
        });
    }
    let count = head.children()?;
    let mut children = Vec::new();
    for _ in 0..count.unwrap_or(0) {
        children.push(decode(input)?);
    }
    Ok(match head.kind {
        b'+' => Reply::Simple(text()),
        b'-' => Reply::Error(text()),
        b':' => Reply::Integer(parse_integer(head.line).ok_or(ReplyError("no integer"))?),
        b',' | b'(' => Reply::Double(text()),
        b'#' => Reply::Boolean(head.line == b"t"),
        b'*' if count.is_some() => Reply::Array(children),
        b'~' => Reply::Set(children),
        b'>' => Reply::Push(children),
        b'%' | b'|' => {
            let mut children = children.into_iter();
            let pairs = std::iter::from_fn(|| Some((children.next()?, children.next()?)));
            Reply::Map(pairs.collect())
        }
        _ => Reply::Null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Resp;
    use crate::writer::ReplyWriter;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = ReplyWriter::new(Resp::Three);
        writer.array(3);
        writer.map(1);
        writer.simple("a");
        writer.double(0.5);
        writer.set(2);
        writer.boolean(true);
        writer.null();
        writer.push(2);
        writer.verbatim("text");
        writer.error("ERR no");
        writer.integer(7);
        let mut input = BytesMut::from(&writer.into_vec()[..]);
        let first = Reply::Array(vec![
            Reply::Map(vec![(
                Reply::Simple("a".to_owned()),
                Reply::Double("0.5".to_owned()),
            )]),
            Reply::Set(vec![Reply::Boolean(true), Reply::Null]),
            Reply::Push(vec![
                Reply::Bulk(Bytes::from("text")),
                Reply::Error("ERR no".to_owned()),
            ]),
        ]);
        assert_eq!(Reply::take(&mut input), Ok(Some(first)));
        assert_eq!(Reply::take(&mut input), Ok(Some(Reply::Integer(7))));
        assert_eq!(Reply::take(&mut input), Ok(None));
    }

    #[test]
    fn nothing_has_two_forms_in_the_second_version() {
        let mut input = BytesMut::from("$-1\r\n*-1\r\n*0\r\n");
        for reply in [Reply::Null, Reply::Null, Reply::Array(Vec::new())] {
            assert_eq!(Reply::take(&mut input), Ok(Some(reply)));
        }
    }
}
