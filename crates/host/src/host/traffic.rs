//! Frames from peers and to them, and the timers that cause some.

use super::{BEAT_NS, BEATS, Host};
use crate::api::Frame;
use crate::divergence::DigestOf;
use crate::frame::{self, Body, Header};
use crate::payloads::lacks_attachment;
use crate::timers::Timer;
use bytes::Bytes;
use quorate_core::{
    Application, Carry, Decoder, Input, Machine, Member, Now, Peers, ReplicaId, Slot, Written,
};

impl<M: Machine, A: Application> Host<M, A> {
    pub(super) fn take_frame(
        &mut self,
        now: Now,
        from: ReplicaId,
        frame: Bytes,
    ) -> Result<(), String> {
        if from.is_gateway() {
            return self.take_from_gateway(now, from, frame);
        }
        if !self.knows(from) {
            return Err(format!("replica {from} is not a peer in any epoch"));
        }
        let (header, body) =
            frame::decode(frame, self.peer_versions.supported).map_err(|e| e.to_string())?;
        if header.group != self.seat.group {
            let (its, mine) = (header.group, self.seat.group);
            return Err(format!(
                "it is for group {its}, this replica is in group {mine}"
            ));
        }
        let (slot, digest) = header.checkpoint;
        self.compare(from, (DigestOf::Applied, slot), digest);
        self.catch_up.saw(from, header.applied, now);
        self.hear_claim(now, from, &header);
        let epoch = self.applier.newest().number;
        match body {
            Body::Messages(_) | Body::Attached { .. } if header.epoch < epoch => {
                self.hear_late(now, from);
            }
            // Of an epoch to come, or one in which this replica has not begun: loss is normal.
            Body::Messages(_) | Body::Attached { .. }
                if header.epoch > epoch || self.seat.epoch.number != epoch => {}
            // Whoever forgot what it promised must not be counted.
            Body::Messages(_) | Body::Attached { .. }
                if self.is_outdated(from, header.claim.as_ref()) => {}
            Body::Messages(_) | Body::Attached { .. } if self.is_stalled() => {}
            Body::Note { incarnation, note } => {
                let id = from;
                self.hear_note(now, Member { id, incarnation }, note);
            }
            Body::Messages(messages) => self.take_messages(now, from, messages)?,
            Body::Attached { message, fragments } => {
                self.take_attached(now, from, message, fragments)?;
            }
            Body::WantFragment(payload) => self.serve_fragment(from, payload),
            Body::Fragment { payload, fragment } => {
                self.fragment_came(now, from, payload, fragment);
            }
            Body::Beat => self.answer_beat(from, header.applied),
            Body::Fetch { from: slot } => self.serve(now, from, slot, false),
            Body::Decided {
                from: slot,
                entries,
            } => self.learn(now, from, slot, entries),
            Body::Offer(snapshot) => self.offered(now, from, snapshot),
            Body::Taken(snapshot) => self.peer_took(from, snapshot),
            Body::AskDigest { of, slot } => self.tell_digest(from, of, slot),
            Body::Digest { of, slot, digest } => self.hear_digest(now, from, (of, slot), digest),
            Body::WantPiece {
                slot,
                digest,
                offset,
            } => self.serve_piece(now, from, (slot, digest), offset),
            Body::Piece {
                slot,
                offset,
                bytes,
            } => self.piece_came(now, from, slot, offset, bytes),
            Body::AskRemembered { incarnation } => self.tell_progress(from, incarnation),
            Body::Remembered {
                incarnation,
                remembered,
                waits,
            } => {
                let is_me = incarnation == self.transition.me().incarnation;
                let remembered = remembered.filter(|_| is_me);
                self.hear_progress(now, from, remembered.as_ref(), waits);
            }
            Body::GatewayResults { .. } => return Err("it is for a gateway".to_owned()),
            Body::WantMark { number } => self.wants_mark(from, number),
            Body::Mark { number, slot } => self.mark_came(now, from, number, slot),
        }
        self.watch_lag(now);
        Ok(())
    }

    /// A remote gateway has messages for the machine, and nothing for the host: it has applied nothing.
    fn take_from_gateway(&mut self, now: Now, from: ReplicaId, frame: Bytes) -> Result<(), String> {
        let (header, body) =
            frame::decode(frame, self.peer_versions.supported).map_err(|e| e.to_string())?;
        if header.group != self.seat.group {
            return Err(format!("it is for group {}", header.group));
        }
        let messages = match body {
            Body::Messages(messages) => Some(messages),
            Body::Beat => None,
            _ => return Err("a gateway has only messages".to_owned()),
        };
        let epoch = self.applier.newest().number;
        if header.epoch < epoch {
            // The header says which one it is.
            self.post(Peers::One(from), &Body::Beat);
        }
        if header.epoch != epoch || self.seat.epoch.number != epoch {
            return Ok(());
        }
        messages.map_or(Ok(()), |messages| self.take_messages(now, from, messages))
    }

    fn take_messages(&mut self, now: Now, from: ReplicaId, bytes: Bytes) -> Result<(), String> {
        let mut input = Decoder::new(bytes);
        while input.remaining() > 0 {
            let message = self.read_message(&mut input)?;
            if lacks_attachment(&message) {
                return Err("a message came without what is attached to it".into());
            }
            self.step(now, Input::Message { from, message });
        }
        Ok(())
    }

    /// A message of the present epoch's machines.
    fn read_message(&self, input: &mut Decoder) -> Result<M::Message, String> {
        M::message(&self.seat.epoch.protocol, input).map_err(|e| e.to_string())
    }

    /// The same, alone.
    pub(crate) fn read_one_message(&self, bytes: Bytes) -> Result<M::Message, String> {
        let mut input = Decoder::new(bytes);
        let message = self.read_message(&mut input)?;
        input.finish().map_err(|e| e.to_string())?;
        Ok(message)
    }

    /// Sends a frame that waits for nothing.
    pub(crate) fn post(&mut self, to: Peers, body: &Body) {
        let header = self.header(to);
        let chunks = frame::encode(&header, body);
        let version = header.version;
        let bulk = matches!(
            body,
            Body::Attached { .. }
                | Body::Fragment {
                    fragment: Some(_),
                    ..
                }
        );
        self.frames.push(Frame {
            to,
            version,
            bulk,
            chunks,
        });
    }

    fn header(&self, to: Peers) -> Header {
        let version = self.peer_versions.towards(to);
        Header {
            version,
            group: self.seat.group,
            epoch: self.applier.newest().number,
            applied: self.applier.next(),
            checkpoint: self.shown_digest(version),
            claim: self.claim(),
        }
    }

    pub(super) fn release_gated(&mut self) {
        while self
            .gated
            .front()
            .is_some_and(|message| message.after <= self.durable)
        {
            let released = self.gated.pop_front().expect("there is a front");
            self.early.push((released.to, released.message));
        }
    }

    /// Consecutive messages to the same peers share a frame; a broadcast is encoded once.
    pub(super) fn pack_messages(&mut self) {
        let mut messages = std::mem::take(&mut self.early);
        let mut packing = None;
        for (to, message) in messages.drain(..) {
            if message.attachment().is_some() {
                self.finish_packing(packing.take());
                self.send_attached(to, &message);
                continue;
            }
            if packing != Some(to) {
                self.finish_packing(packing);
                frame::begin_messages(&self.header(to), &mut self.packer);
                packing = Some(to);
            }
            message.write(&mut self.packer);
        }
        self.finish_packing(packing);
        self.early = messages;
    }

    fn finish_packing(&mut self, packing: Option<Peers>) {
        if let Some(to) = packing {
            self.frames.push(Frame {
                to,
                version: self.peer_versions.towards(to),
                bulk: false,
                chunks: self.packer.take_chunks(),
            });
        }
    }

    pub(super) fn fire(&mut self, now: Now, timer: Timer<M::Timer>) {
        match timer {
            Timer::Machine(timer) if self.stall.is_some() => {
                if let Some(stall) = &mut self.stall {
                    stall.keep_timer(timer);
                }
            }
            Timer::Mark => self.ask_for_mark_again(now),
            Timer::Machine(timer) => self.step(now, Input::Timer(timer)),
            Timer::Lag => self.look_for_lag(now),
            Timer::FetchTimeout => self.fetch_timed_out(now),
            Timer::WriteBehind => self.write_all(),
            Timer::ReadRepair => self.read_repair_next(now),
            Timer::Claim => self.claim_again(),
            Timer::Note => self.note_progress(now),
            Timer::Ask => self.ask_again(now),
            Timer::Digests => self.ask_digests(now),
            Timer::Epochs => self.pass(now, crate::epochs::Input::Timer),
            Timer::Pull => self.pull_further(now),
            Timer::Forget => self.forget_snapshot(now),
            Timer::Gather => self.gather_further(now),
            Timer::Settle => self.settle_further(now),
            Timer::Beat => {
                self.post(Peers::All, &Body::Beat);
                self.arm_beat(now, self.beats + 1);
            }
        }
    }

    /// Who is behind may have missed all that was said of what it lacks: it asks when it is told how far others are.
    /// One that an epoch left out is not told otherwise, for nothing is said to it there.
    fn answer_beat(&mut self, peer: ReplicaId, applied: Slot) {
        if applied < self.applier.next() {
            self.post(Peers::One(peer), &Body::Beat);
        }
    }

    /// After news, peers are told how far this replica is a few times, ever more rarely; then it is
    /// silent. A peer whose last messages were lost learns that it misses something.
    pub(crate) fn arm_beat(&mut self, now: Now, beats: u32) {
        self.beats = beats;
        if beats < BEATS {
            self.timers
                .arm(Timer::Beat, now.mono_ns + (BEAT_NS << (2 * beats)));
        }
    }
}
