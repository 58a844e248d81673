//! Replies of commands.

use crate::fault::Fault;
use bytes::Bytes;
use quorate_resp::{ReplyWriter, Resp};
use std::ops::{Deref, DerefMut};

/// Writes replies one behind the other.
#[derive(Debug)]
pub(crate) struct Reply(ReplyWriter);

impl Deref for Reply {
    type Target = ReplyWriter;

    fn deref(&self) -> &ReplyWriter {
        &self.0
    }
}

impl DerefMut for Reply {
    fn deref_mut(&mut self) -> &mut ReplyWriter {
        &mut self.0
    }
}

/// Bytes of most replies, at most.
const SHORT_BYTES: usize = 64;

/// The reply to most commands that write, which takes no memory.
const OK: &[u8] = b"+OK\r\n";

impl Reply {
    pub(crate) fn new(resp: Resp) -> Self {
        Reply::behind(Vec::with_capacity(SHORT_BYTES), resp)
    }

    /// Writes behind what is there.
    pub(crate) fn behind(out: Vec<u8>, resp: Resp) -> Self {
        Reply(ReplyWriter::behind(out, resp))
    }

    /// Everything that was written, and empty space to write further replies to.
    pub(crate) fn finish(self) -> (Bytes, Vec<u8>) {
        let mut written = self.0.into_vec();
        if written.len() > SHORT_BYTES {
            return (written.into(), Vec::new());
        }
        let replies = match &written[..] {
            OK => Bytes::from_static(OK),
            short => Bytes::copy_from_slice(short),
        };
        written.clear();
        (replies, written)
    }

    pub(crate) fn into_writer(self) -> ReplyWriter {
        self.0
    }

    pub(crate) fn fault(&mut self, fault: &Fault) {
        // What an error quotes may end with ends of lines.
        self.error(fault.0.trim_matches(['\r', '\n']));
    }

    /// A length or number of things.
    pub(crate) fn count(&mut self, count: usize) {
        self.integer(count as i64);
    }

    /// 1 for what is so, 0 for what is not.
    pub(crate) fn flag(&mut self, is_so: bool) {
        self.integer(i64::from(is_so));
    }

    /// A string, or the null in its place.
    pub(crate) fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// The head of a list of pairs, which the third version nests; [`Reply::pair`] stands before each.
    pub(crate) fn pairs(&mut self, pairs: usize) {
        match self.resp() {
            Resp::Two => self.array(2 * pairs),
            Resp::Three => self.array(pairs),
        }
    }

    /// The head of one pair of [`Reply::pairs`].
    pub(crate) fn pair(&mut self) {
        if self.resp() == Resp::Three {
            self.array(2);
        }
    }
}
