//! The link: the driver as the master of its server.
//!
//! A server does not notice a wrong `+CONTINUE`: it goes on with whatever it has. So the offset that it asks for is
//! compared with what this driver knows of this very process (V2), and nothing else is believed.

use super::api::{Conn, Output};
use super::office::Office;
use super::{Driver, MS};
use crate::mutant::Mutant;
use crate::shared::STREAM_ID;
use bytes::{Bytes, BytesMut};
use quorate_resp::{Limits, RequestParser};

const LIMITS: Limits = Limits {
    arguments_max: 64,
    bulk_bytes_max: 4096,
    request_bytes_max: 64 << 10,
};

/// How long a server that was told to follow again has to ask for the stream.
pub(super) const DEMOTION_NS: u64 = 15_000 * MS;

/// The link to a following server.
#[derive(Debug)]
pub(super) struct Link {
    input: BytesMut,
    parser: RequestParser,
    is_open: bool,
    is_known: bool,
    is_streaming: bool,
    /// The offsets at which the process may be: from where it was known to stand to what it was fed.
    expected: Option<(u64, u64)>,
    /// Bytes that are written and not with the kernel.
    unflushed: u64,
}

impl Default for Link {
    fn default() -> Self {
        Link {
            input: BytesMut::new(),
            parser: RequestParser::new(LIMITS),
            is_open: false,
            is_known: false,
            is_streaming: false,
            expected: None,
            unflushed: 0,
        }
    }
}

impl Link {
    pub(super) fn is_streaming(&self) -> bool {
        self.is_streaming
    }

    /// The offset up to which the process was fed.
    pub(super) fn fed(&self) -> Option<u64> {
        self.expected.map(|(_, fed)| fed)
    }

    /// The process is known to stand exactly there.
    pub(super) fn expect_exactly(&mut self, offset: u64) {
        self.expected = Some((offset, offset));
    }

    /// What the process has is not known any more: it may write by itself.
    pub(super) fn expect_nothing(&mut self) {
        self.expected = None;
        self.is_streaming = false;
    }

    pub(super) fn open(&mut self) {
        *self = Link {
            is_open: true,
            expected: self.expected,
            ..Link::default()
        };
    }

    pub(super) fn close(&mut self) {
        *self = Link {
            expected: self.expected,
            ..Link::default()
        };
    }

    pub(super) fn flushed(&mut self, bytes: u64) {
        self.unflushed = self.unflushed.saturating_sub(bytes);
    }
}

/// An argument as an offset of the stream.
fn offset(argument: &Bytes) -> Option<u64> {
    std::str::from_utf8(argument).ok()?.parse().ok()
}

impl Driver {
    pub(super) fn link_received(&mut self, bytes: &[u8]) {
        if !self.link.is_open {
            return;
        }
        self.link.input.extend_from_slice(bytes);
        let life = self.server.life;
        while self.link.is_open && life == self.server.life {
            let link = &mut self.link;
            match link.parser.next(&mut link.input) {
                Ok(Some(request)) => self.link_request(&request),
                Ok(None) => break,
                Err(_) => self.refuse_link(),
            }
        }
    }

    /// Whether a broken rule would be covered up by the checks of the link.
    fn breaks_checks(&self) -> bool {
        let mutant = self.config.mutant;
        matches!(mutant, Some(Mutant::ContinueAlways | Mutant::RdbAhead))
    }

    fn refuse_link(&mut self) {
        self.link.close();
        let (life, conn) = (self.server.life, Conn::Link);
        self.out.push_back(Output::Disconnect { life, conn });
    }

    fn link_request(&mut self, request: &[Bytes]) {
        let name = request[0].to_ascii_lowercase();
        let is_known = self.link.is_known;
        match (&name[..], &request[1..]) {
            (b"auth", [.., secret]) if secret[..] == *self.config.link_secret.as_bytes() => {
                self.link.is_known = true;
                self.write(Conn::Link, Bytes::from_static(b"+OK\r\n"));
            }
            // A server asks that before it says who it is.
            (b"ping", _) => {
                self.link.is_known |= self.config.link_secret.is_empty();
                self.write(Conn::Link, Bytes::from_static(b"+PONG\r\n"));
            }
            (b"replconf", [what, acknowledged, ..])
                if is_known && what.eq_ignore_ascii_case(b"ack") =>
            {
                if let Some(acknowledged) = offset(acknowledged) {
                    self.note_progress(acknowledged);
                }
            }
            (b"replconf", _) if is_known => self.write(Conn::Link, Bytes::from_static(b"+OK\r\n")),
            (b"psync", [_, from]) if is_known => self.psync(offset(from)),
            _ => self.refuse_link(),
        }
    }

    /// The server asks for the stream from an offset on, which is one behind what it has.
    fn psync(&mut self, from: Option<u64>) {
        let has = from.and_then(|from| from.checked_sub(1));
        let is_expected = match (self.link.expected, has) {
            (Some((low, high)), Some(has)) => low <= has && has <= high,
            _ => false,
        };
        let is_expected = is_expected || self.breaks_checks();
        // A server that is to execute needs no more of the stream.
        let may_follow = !matches!(self.office, Office::Executing(_));
        let Some(has) = has.filter(|_| is_expected && may_follow) else {
            return self.give_up("it does not stand where it was known to be");
        };
        self.link.expected = Some((has, has));
        self.link.is_streaming = true;
        let reply = format!("+CONTINUE {STREAM_ID}\r\n");
        self.write(Conn::Link, reply.into());
        self.follows_again();
    }

    /// Writes what was accepted and the server does not have.
    pub(super) fn feed(&mut self) {
        let window = self.config.link_window_bytes;
        let Some((low, fed)) = self.link.expected.filter(|_| self.link.is_streaming) else {
            return;
        };
        let room = window.saturating_sub(self.link.unflushed);
        if room == 0 || fed == self.stream.len {
            return;
        }
        let found = self.shared.lock().history.from(fed, room);
        let Some(chunks) = found else {
            if !self.breaks_checks() {
                self.give_up("the stream behind what it has is not kept any more");
            }
            return;
        };
        self.note_feeding();
        let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        self.link.expected = Some((low, fed + bytes));
        self.link.unflushed += bytes;
        for chunk in chunks {
            self.write(Conn::Link, chunk);
        }
    }

    /// A state came from a peer: the server goes on if the stream behind what it has is there.
    pub(super) fn saw_install(&mut self) {
        let begin = self.shared.lock().history.begin();
        if self.link.fed().is_some_and(|fed| fed < begin) {
            self.give_up("a snapshot of a peer took the place of what it had");
        }
        self.saving.forget_candidate();
    }
}
