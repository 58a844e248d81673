//! The sender's side: what goes to one peer as datagrams, and what of it the peer has reported.

use super::packet::{DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, RECORD_BYTES, Records, charge};
use super::socket::Socket;
use super::terms::{Report, Terms};
use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::Notify;

/// Lengths that are tried: every network takes the first; then Ethernet, Ethernet with jumbo frames, loopback.
pub(super) const LADDER: [usize; 4] = [1200, 1452, 8952, DATAGRAM_BYTES_MAX];

/// Datagrams to one peer. Frames gather in a buffer until they are sent.
#[derive(Debug)]
pub(crate) struct Path {
    socket: Arc<Socket>,
    to: SocketAddr,
    terms: Terms,
    /// The longest datagram that is known to arrive; 0 before any is.
    limit: usize,
    /// The longest that ever did.
    best: usize,
    /// Datagrams sent, and what was charged for them.
    number: u64,
    charged: u64,
    report: Report,
    /// Whether the next datagram asks for a report, and who is told that it did.
    asks_next: bool,
    asked: Arc<Notify>,
    /// The number of the last one that did, until a report covers it.
    unanswered: Option<u64>,
    buffer: Vec<u8>,
    /// Where each datagram of the buffer ends; the last one is still open.
    ends: Vec<usize>,
}

/// Why a frame does not go by datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    /// The frame is longer than what arrives.
    Long,
    /// Too much is under way that no report covers.
    Full,
}

/// The result of sending what had gathered.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Datagrams that left.
    pub(crate) datagrams: u64,
    /// The bytes of the datagrams that left.
    pub(crate) bytes: usize,
    /// The frames that did not leave.
    pub(crate) back: Vec<Bytes>,
}

impl Path {
    pub(super) fn new(
        socket: Arc<Socket>,
        to: SocketAddr,
        terms: Terms,
        asked: Arc<Notify>,
    ) -> Path {
        Path {
            socket,
            to,
            terms,
            limit: 0,
            best: 0,
            number: 0,
            charged: 0,
            report: Report::default(),
            asks_next: false,
            asked,
            unanswered: None,
            buffer: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Whether datagrams arrive at all.
    pub(crate) fn is_open(&self) -> bool {
        self.limit > 0
    }

    /// Adds a frame of so many bytes to what the next [`Path::send`] sends, if it fits.
    pub(crate) fn add(&mut self, frame: &[Bytes], length: usize) -> Result<(), Unfit> {
        let record = RECORD_BYTES + length;
        if HEADER_BYTES + record > self.limit {
            return Err(Unfit::Long);
        }
        let gathered: u64 = self.lengths().map(charge).sum();
        let under_way = self.charged + gathered - self.report.charged;
        if under_way + charge(HEADER_BYTES + record) > self.terms.window {
            return Err(Unfit::Full);
        }
        let start = self.ends.iter().rev().nth(1).copied().unwrap_or_default();
        let is_room = self
            .ends
            .last()
            .is_some_and(|end| end - start + record <= self.limit);
        if !is_room {
            self.buffer.resize(self.buffer.len() + HEADER_BYTES, 0);
            self.ends.push(0);
        }
        let length = u16::try_from(length).unwrap_or_else(|_| unreachable!("the limit is lower"));
        self.buffer.extend_from_slice(&length.to_le_bytes());
        frame
            .iter()
            .for_each(|piece| self.buffer.extend_from_slice(piece));
        if let Some(end) = self.ends.last_mut() {
            *end = self.buffer.len();
        }
        Ok(())
    }

    /// Bytes of each datagram that has gathered.
    fn lengths(&self) -> impl Iterator<Item = usize> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| end - start)
    }

    /// Gives the kernel what has gathered: datagrams of one length at once, of which the last may be shorter, as it
    /// wants them. What it does not take comes back.
    pub(crate) fn send(&mut self) -> Sent {
        let mut sent = Sent::default();
        let (mut start, mut index) = (0, 0);
        while let Some(mut end) = self.ends.get(index).copied() {
            let length = end - start;
            let mut count = 1;
            let run_max = self.socket.run_max();
            while let Some(next) = self.ends.get(index + count).copied()
                && (next - end <= length && end - start == count * length)
                && (count < run_max && next - start <= RUN_BYTES_MAX)
            {
                (end, count) = (next, count + 1);
            }
            self.send_run(start..end, length, &mut sent);
            (start, index) = (end, index + count);
        }
        self.buffer.clear();
        self.ends.clear();
        sent
    }

    fn send_run(&mut self, run: Range<usize>, length: usize, sent: &mut Sent) {
        let before = (self.number, self.charged);
        let mut asks = self.asks_next;
        for datagram in self.buffer[run.clone()].chunks_mut(length) {
            self.charged += charge(datagram.len());
            let header = Header {
                secret: self.terms.secret,
                wants_report: std::mem::take(&mut asks),
                is_probe: false,
                number: self.number,
                charged: self.charged,
            };
            header.seal(datagram);
            self.number += 1;
        }
        let datagrams = &self.buffer[run];
        match self.socket.send(self.to, datagrams, length) {
            Ok(()) => {
                sent.datagrams += self.number - before.0;
                sent.bytes += datagrams.len();
                if std::mem::take(&mut self.asks_next) {
                    self.has_asked(before.0);
                }
            }
            Err(error) => {
                for datagram in datagrams.chunks(length) {
                    let frames = Records::of(datagram).flatten();
                    sent.back.extend(frames.map(Bytes::copy_from_slice));
                }
                (self.number, self.charged) = before;
                if is_too_long(&error) {
                    self.limit = self.limit.min(LADDER[0]);
                }
            }
        }
    }

    /// Sends a datagram of each of the next so many lengths that are not known to arrive.
    pub(super) fn probe(&mut self, rungs: usize) {
        let limit = self.limit;
        let longer = LADDER.iter().filter(|length| **length > limit);
        longer
            .take(rungs)
            .for_each(|length| self.send_probe(*length));
    }

    fn send_probe(&mut self, length: usize) {
        let mut probe = vec![0; length];
        let charged = self.charged + charge(length);
        let header = Header {
            secret: self.terms.secret,
            wants_report: true,
            is_probe: true,
            number: self.number,
            charged,
        };
        header.seal(&mut probe);
        // The kernel knows what its own end of the network does not take.
        if self.socket.send(self.to, &probe, length).is_ok() {
            self.number += 1;
            self.charged = charged;
        }
    }

    /// The peer reports. False if it says what cannot be.
    pub(super) fn reported(&mut self, report: Report) -> bool {
        let is_sensible = report.sent <= self.number
            && (self.report.charged..=self.charged).contains(&report.charged);
        if !is_sensible {
            return false;
        }
        let lost = |report: Report| report.sent.saturating_sub(report.received);
        if lost(report) > lost(self.report) {
            // The way may have become one for shorter datagrams. Longer ones have to show themselves again.
            self.limit = self.limit.min(LADDER[0]);
        }
        self.report = report;
        self.unanswered = self.unanswered.filter(|number| *number >= report.sent);
        let probed = LADDER
            .iter()
            .find(|length| **length == report.probed as usize);
        self.limit = self.limit.max(probed.copied().unwrap_or_default());
        self.best = self.best.max(self.limit);
        true
    }

    fn has_asked(&mut self, number: u64) {
        self.unanswered = Some(number);
        self.asked.notify_one();
    }

    /// Whether a report is asked for and has not come.
    pub(super) fn is_asking(&self) -> bool {
        self.unanswered.is_some()
    }

    /// The next datagram asks for a report. Longer ones than at present are tried, if such have arrived before.
    pub(super) fn ask(&mut self) {
        self.asks_next = true;
        if self.charged + charge(LADDER[0]) > self.report.charged + self.terms.window {
            // What is under way may all be lost, and then nothing else would ever ask.
            self.send_probe(LADDER[0]);
            self.asks_next = false;
            self.has_asked(self.number - 1);
        }
        if self.limit < self.best {
            self.probe(1);
        }
    }
}

/// The most that kernels cut into datagrams at once.
const RUN_BYTES_MAX: usize = 60_000;

fn is_too_long(error: &io::Error) -> bool {
    quinn_udp::is_msg_size_err(error)
}
