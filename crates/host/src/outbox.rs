//! Messages of the machine on their way out: what each of them waits for, and the frames that several share.

use crate::api::Frame;
use crate::context::Context;
use crate::frame::{self, PACKING_BYTES};
use crate::log::LogWriter;
use crate::payloads::Payloads;
use crate::position::Position;
use quorate_core::{Application, Carry, Encoder, Lsn, Machine, Peers, Written};
use std::collections::VecDeque;

/// A message that waits for records to become durable.
#[derive(Debug)]
struct Gated<M: Machine> {
    to: Peers,
    message: M::Message,
    after: Lsn,
}

/// How far the machine's records are on their way to the disk, and the messages that wait for that.
pub(crate) struct Outbox<M: Machine> {
    /// The last machine record in the log's buffer.
    appended: Lsn,
    /// The last machine record in the flush under way.
    flushing: Lsn,
    /// The last machine record on the disk.
    durable: Lsn,
    /// When the flush under way was taken, on the monotonic clock in ns.
    flush_began_ns: u64,
    /// Nothing leaves before the first flush: what was recovered, and counted as durable, may
    /// until then be no more than what a killed process left in the page cache. Nor does anything after promises
    /// were lost, before the log says so.
    is_silent: bool,
    /// The silence lasts until the log is durable up to this place.
    silent_until: Position,
    gated: VecDeque<Gated<M>>,
    /// Messages that may leave.
    ready: Vec<(Peers, M::Message)>,
    /// Encodes the messages that may leave.
    packer: Encoder,
}

impl<M: Machine> Outbox<M> {
    /// Nothing leaves a replica with a log before its first flush.
    pub(crate) fn new(has_log: bool) -> Self {
        Outbox {
            appended: Lsn(0),
            flushing: Lsn(0),
            durable: Lsn(0),
            flush_began_ns: 0,
            is_silent: has_log,
            silent_until: Position::default(),
            gated: VecDeque::new(),
            ready: Vec::new(),
            packer: Encoder::with_capacity(PACKING_BYTES),
        }
    }

    /// Keeps a message until the machine's records up to `after` are durable; the record 0 always is.
    pub(crate) fn send(&mut self, to: Peers, message: M::Message, after: Lsn) {
        match after {
            Lsn(0) => self.ready.push((to, message)),
            after => self.gated.push_back(Gated { to, message, after }),
        }
    }

    /// The machine's record of this number is in the log's buffer.
    pub(crate) fn appended(&mut self, lsn: Lsn) {
        self.appended = lsn;
    }

    /// Without a log the machine's records up to this one are as durable as they will ever be; says whether that is
    /// news.
    pub(crate) fn persisted_without_log(&mut self, lsn: Lsn) -> bool {
        let is_news = self.durable < lsn;
        self.durable = self.durable.max(lsn);
        is_news
    }

    /// Another machine begins, which numbers its records anew.
    pub(crate) fn begin_epoch(&mut self) {
        (self.appended, self.flushing, self.durable) = (Lsn(0), Lsn(0), Lsn(0));
    }

    /// The machine has ended: what it wanted to say is void.
    pub(crate) fn clear(&mut self) {
        self.gated.clear();
        self.ready.clear();
    }

    /// Nothing leaves before the log is durable as far as it was written.
    pub(crate) fn fall_silent(&mut self, log: &mut LogWriter) {
        log.want_sync();
        (self.is_silent, self.silent_until) = (true, log.tail());
    }

    /// Whether nothing has left since the start, or since promises were lost.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// A flush was taken, with everything that was appended.
    pub(crate) fn flush_taken(&mut self, is_synced: bool, now_ns: u64) {
        if is_synced {
            self.flushing = self.appended;
        }
        self.flush_began_ns = now_ns;
    }

    /// The flush under way was performed: the last record that is durable now, and how long that took in ns, if
    /// there was any record in it.
    pub(crate) fn flushed(&mut self, log: &LogWriter, now_ns: u64) -> Option<(Lsn, u64)> {
        self.is_silent &= !log.is_durable(self.silent_until);
        if self.flushing <= self.durable {
            return None;
        }
        self.durable = self.flushing;
        Some((self.durable, now_ns.saturating_sub(self.flush_began_ns)))
    }

    /// Messages that wait for the disk.
    pub(crate) fn gated(&self) -> usize {
        self.gated.len()
    }

    /// The machine's last records in the log's buffer, in the flush under way and on the disk.
    pub(crate) fn progress(&self) -> (Lsn, Lsn, Lsn) {
        (self.appended, self.flushing, self.durable)
    }

    /// Frames that may leave now.
    pub(crate) fn take_frames<A: Application>(
        &mut self,
        context: &mut Context<M, A>,
        payloads: &mut Payloads<M>,
    ) -> Vec<Frame> {
        if self.is_silent {
            return Vec::new();
        }
        self.release_gated();
        self.pack(context, payloads);
        context.effects.counters.frames += context.effects.frames.len() as u64;
        std::mem::take(&mut context.effects.frames)
    }

    fn release_gated(&mut self) {
        let durable = self.durable;
        while let Some(released) = self.gated.pop_front_if(|gated| gated.after <= durable) {
            self.ready.push((released.to, released.message));
        }
    }

    /// Consecutive messages to the same peers share a frame; a broadcast is encoded once.
    fn pack<A: Application>(&mut self, context: &mut Context<M, A>, payloads: &mut Payloads<M>) {
        let mut messages = std::mem::take(&mut self.ready);
        let mut packing = None;
        for (to, message) in messages.drain(..) {
            if message.attachment().is_some() {
                self.finish_packing(context, packing.take());
                payloads.with(context).send_attached(to, &message);
                continue;
            }
            if packing != Some(to) {
                self.finish_packing(context, packing);
                frame::begin_messages(&context.header(to), &mut self.packer);
                packing = Some(to);
            }
            message.write(&mut self.packer);
        }
        self.finish_packing(context, packing);
        self.ready = messages;
    }

    fn finish_packing<A: Application>(
        &mut self,
        context: &mut Context<M, A>,
        packing: Option<Peers>,
    ) {
        if let Some(to) = packing {
            context.effects.frames.push(Frame {
                to,
                version: context.peer_versions.towards(to),
                bulk: false,
                chunks: self.packer.take_chunks(),
            });
        }
    }
}
