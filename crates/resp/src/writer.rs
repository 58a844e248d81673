//! Replies as they are written.

use crate::number::{IntegerText, format_double};
use crate::version::Resp;
use bytes::Bytes;

/// The end of a line, and of what has a length.
const END: &[u8] = b"\r\n";

/// Writes replies in one version of the protocol.
///
/// What the second version does not have is written as Redis writes it there: maps as arrays twice as long, sets and
/// pushes as arrays, doubles and texts as bulk strings, booleans as integers.
#[derive(Clone, Debug)]
pub struct ReplyWriter {
    out: Vec<u8>,
    resp: Resp,
}

impl ReplyWriter {
    /// A writer that has written nothing.
    #[must_use]
    pub fn new(resp: Resp) -> ReplyWriter {
        ReplyWriter::behind(Vec::new(), resp)
    }

    /// A writer that goes on behind these bytes.
    #[must_use]
    pub fn behind(out: Vec<u8>, resp: Resp) -> ReplyWriter {
        ReplyWriter { out, resp }
    }

    /// The version that is written.
    #[must_use]
    pub fn resp(&self) -> Resp {
        self.resp
    }

    /// Goes on in another version.
    pub fn set_resp(&mut self, resp: Resp) {
        self.resp = resp;
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Forgets what was written behind so many bytes.
    pub fn truncate(&mut self, bytes: usize) {
        self.out.truncate(bytes);
    }

    /// What was written.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.out
    }

    /// What was written, as shared bytes.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.out.into()
    }

    /// `+OK`, the usual answer of what was done.
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A short text without ends of lines.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: a word in capitals, and what went wrong. Ends of lines become spaces.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text.as_bytes());
    }

    /// An integer of 64 bits.
    pub fn integer(&mut self, value: i64) {
        self.number(b':', value);
    }

    /// A string of bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        // All at once: room that grows by and by is copied each time.
        let length = IntegerText::new(bytes.len() as i64);
        self.out
            .reserve(1 + length.as_bytes().len() + END.len() + bytes.len() + END.len());
        self.out.push(b'$');
        self.out.extend_from_slice(length.as_bytes());
        self.end();
        self.out.extend_from_slice(bytes);
        self.end();
    }

    /// No string, where there could be one.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.resp {
            Resp::Two => b"$-1\r\n",
            Resp::Three => b"_\r\n",
        });
    }

    /// No array, where there could be one.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.resp {
            Resp::Two => b"*-1\r\n",
            Resp::Three => b"_\r\n",
        });
    }

    /// The beginning of an array: so many replies follow.
    pub fn array(&mut self, count: usize) {
        self.length(b'*', count);
    }

    /// The beginning of a map: so many pairs follow.
    pub fn map(&mut self, pairs: usize) {
        match self.resp {
            Resp::Two => self.length(b'*', 2 * pairs),
            Resp::Three => self.length(b'%', pairs),
        }
    }

    /// The beginning of a set: so many members follow.
    pub fn set(&mut self, count: usize) {
        match self.resp {
            Resp::Two => self.length(b'*', count),
            Resp::Three => self.length(b'~', count),
        }
    }

    /// The beginning of a push, which no request asked for: so many replies follow.
    pub fn push(&mut self, count: usize) {
        match self.resp {
            Resp::Two => self.length(b'*', count),
            Resp::Three => self.length(b'>', count),
        }
    }

    /// A double with 17 digits.
    pub fn double(&mut self, value: f64) {
        let text = format_double(value);
        match self.resp {
            Resp::Two => self.bulk(text.as_bytes()),
            Resp::Three => self.line(b',', text.as_bytes()),
        }
    }

    /// A truth value, true or false.
    pub fn boolean(&mut self, value: bool) {
        match self.resp {
            Resp::Two => self.integer(i64::from(value)),
            Resp::Three => self.line(b'#', if value { b"t" } else { b"f" }),
        }
    }

    /// A text for people.
    pub fn verbatim(&mut self, text: &str) {
        match self.resp {
            Resp::Two => self.bulk(text.as_bytes()),
            Resp::Three => {
                self.length(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// Replies that were written elsewhere, in the same version.
    pub fn raw(&mut self, replies: &[u8]) {
        self.out.extend_from_slice(replies);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        let clean = text.iter().map(|byte| match byte {
            b'\r' | b'\n' => b' ',
            byte => *byte,
        });
        self.out.extend(clean);
        self.end();
    }

    fn number(&mut self, kind: u8, number: i64) {
        self.out.push(kind);
        self.out
            .extend_from_slice(IntegerText::new(number).as_bytes());
        self.end();
    }

    fn length(&mut self, kind: u8, length: usize) {
        self.number(kind, length as i64);
    }

    fn end(&mut self) {
        self.out.extend_from_slice(END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(resp: Resp, write: impl Fn(&mut ReplyWriter)) -> String {
        let mut writer = ReplyWriter::new(resp);
        write(&mut writer);
        String::from_utf8(writer.into_vec()).expect("these are texts")
    }

    #[test]
    fn each_kind_of_reply_has_its_form_in_both_versions() {
        type Write = fn(&mut ReplyWriter);
        let kinds: [(Write, &str, &str); 17] = [
            (|w| w.ok(), "+OK\r\n", "+OK\r\n"),
            (|w| w.simple("PONG"), "+PONG\r\n", "+PONG\r\n"),
            (|w| w.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (|w| w.integer(-5), ":-5\r\n", ":-5\r\n"),
            (
                |w| w.bulk(b"a\r\nb"),
                "$4\r\na\r\nb\r\n",
                "$4\r\na\r\nb\r\n",
            ),
            (|w| w.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|w| w.null(), "$-1\r\n", "_\r\n"),
            (|w| w.null_array(), "*-1\r\n", "_\r\n"),
            (|w| w.array(2), "*2\r\n", "*2\r\n"),
            (|w| w.map(2), "*4\r\n", "%2\r\n"),
            (|w| w.set(2), "*2\r\n", "~2\r\n"),
            (|w| w.push(3), "*3\r\n", ">3\r\n"),
            (|w| w.double(0.5), "$3\r\n0.5\r\n", ",0.5\r\n"),
            (|w| w.boolean(true), ":1\r\n", "#t\r\n"),
            (|w| w.boolean(false), ":0\r\n", "#f\r\n"),
            (|w| w.verbatim("a:b"), "$3\r\na:b\r\n", "=7\r\ntxt:a:b\r\n"),
            (|w| w.raw(b":1\r\n"), ":1\r\n", ":1\r\n"),
        ];
        for (write, two, three) in kinds {
            assert_eq!(written(Resp::Two, write), two);
            assert_eq!(written(Resp::Three, write), three);
        }
    }

    #[test]
    fn a_writer_goes_on_behind_what_there_is() {
        let mut writer = ReplyWriter::behind(b"+OK\r\n".to_vec(), Resp::Two);
        writer.null();
        writer.set_resp(Resp::Three);
        writer.null();
        let before = writer.len();
        writer.error("ERR no");
        writer.truncate(before);
        assert_eq!(&writer.into_bytes()[..], b"+OK\r\n$-1\r\n_\r\n");
    }
}
