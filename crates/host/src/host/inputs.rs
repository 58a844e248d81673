//! What frames from peers and timers that are due lead to: each goes to the part of the host that it concerns.

use super::Host;
use crate::api::HostEvent;
use crate::divergence::DigestOf;
use crate::frame::{self, Body};
use crate::payloads::lacks_attachment;
use bytes::Bytes;
use quorate_core::{Application, Decoder, Input, Machine, Member, Now, Peers, ReplicaId, Slot};

impl<M: Machine, A: Application> Host<M, A> {
    /// Takes a frame from a peer. What cannot be used is dropped and reported.
    pub fn frame(&mut self, now: Now, from: ReplicaId, frame: Bytes) {
        if let Err(why) = self.take_frame(now, from, frame) {
            let events = &mut self.context.effects.events;
            events.push(HostEvent::BadFrame { peer: from, why });
        }
    }

    fn take_frame(&mut self, now: Now, from: ReplicaId, frame: Bytes) -> Result<(), String> {
        if from.is_gateway() {
            return self.take_from_gateway(now, from, frame);
        }
        if !self.context.knows(from) {
            return Err(format!("replica {from} is not a peer in any epoch"));
        }
        let supported = self.context.peer_versions.supported;
        let (header, body) = frame::decode(frame, supported).map_err(|e| e.to_string())?;
        if header.group != self.context.seat.group {
            let (its, mine) = (header.group, self.context.seat.group);
            return Err(format!(
                "it is for group {its}, this replica is in group {mine}"
            ));
        }
        let (slot, digest) = header.checkpoint;
        let of = (DigestOf::Applied, slot);
        let mut divergence = self.transfer.divergence(&mut self.context);
        divergence.compare(from, of, digest);
        self.transfer.catch_up.saw(from, header.applied, now);
        self.context.hear_claim(now, from, &header);
        let epoch = self.context.epoch().number;
        match body {
            Body::Messages(_) | Body::Attached { .. } if header.epoch < epoch => {
                self.hear_late(now, from);
            }
            // Of an epoch to come, or one in which this replica has not begun: loss is normal.
            Body::Messages(_) | Body::Attached { .. }
                if header.epoch > epoch || self.context.seat.epoch.number != epoch => {}
            // Whoever forgot what it promised must not be counted.
            Body::Messages(_) | Body::Attached { .. }
                if self.context.is_outdated(from, header.claim.as_ref()) => {}
            Body::Messages(_) | Body::Attached { .. } if self.context.storage.is_stalled => {}
            Body::Messages(messages) => self.take_messages(now, from, messages)?,
            Body::Attached { message, fragments } => {
                let mut payloads = self.payloads.with(&mut self.context);
                if let Some(message) = payloads.take_attached(from, message, fragments)? {
                    self.hear(now, from, message);
                }
            }
            body => self.take_body(now, from, header.applied, body)?,
        }
        self.transfer.catch_up(&mut self.context).watch_lag(now);
        Ok(())
    }

    /// Hands what hosts say to each other to the part that it concerns.
    fn take_body(
        &mut self,
        now: Now,
        from: ReplicaId,
        applied: Slot,
        body: Body,
    ) -> Result<(), String> {
        match body {
            Body::Note { incarnation, note } => {
                let id = from;
                self.hear_note(now, Member { id, incarnation }, note);
            }
            Body::WantFragment(payload) => {
                let mut payloads = self.payloads.with(&mut self.context);
                payloads.serve_fragment(from, payload);
            }
            Body::Fragment { payload, fragment } => {
                let mut payloads = self.payloads.with(&mut self.context);
                payloads.fragment_came(now, from, payload, fragment);
            }
            Body::Beat => self.answer_beat(from, applied),
            Body::Fetch { from: slot } => self.serve(now, from, slot, false),
            Body::Decided {
                from: slot,
                entries,
            } => self.learn(now, from, slot, entries),
            Body::Offer(snapshot) => self
                .transfer
                .snapshots(&mut self.context)
                .offered(now, from, snapshot),
            Body::Taken(snapshot) => self
                .transfer
                .snapshots(&mut self.context)
                .peer_took(from, snapshot),
            Body::WantPiece {
                slot,
                digest,
                offset,
            } => self.transfer.snapshots(&mut self.context).serve_piece(
                now,
                from,
                (slot, digest),
                offset,
            ),
            Body::Piece {
                slot,
                offset,
                bytes,
            } => {
                if self
                    .transfer
                    .snapshots(&mut self.context)
                    .piece_came(now, from, slot, offset, bytes)
                {
                    self.install_pulled(now);
                }
            }
            Body::AskDigest { of, slot } => {
                let mut divergence = self.transfer.divergence(&mut self.context);
                divergence.tell_digest(from, of, slot);
            }
            Body::Digest { of, slot, digest } => {
                let mut divergence = self.transfer.divergence(&mut self.context);
                divergence.hear_digest(now, from, (of, slot), digest);
            }
            Body::AskRemembered { incarnation } => self.context.tell_progress(from, incarnation),
            Body::Remembered {
                incarnation,
                remembered,
                waits,
            } => {
                let is_me = incarnation == self.context.membership.me.incarnation;
                let remembered = remembered.filter(|_| is_me);
                let context = &mut self.context;
                if context.hear_progress(now, from, remembered.as_ref(), waits) {
                    self.restart_without_promises();
                }
            }
            Body::WantMark { number } => {
                let mut stall = self.stall.with(&mut self.context, &mut self.requests);
                stall.wants_mark(from, number);
            }
            Body::Mark { number, slot } => self.mark_came(now, from, number, slot),
            Body::GatewayResults { .. } => return Err("it is for a gateway".to_owned()),
            Body::Messages(_) | Body::Attached { .. } => {
                debug_assert!(false, "messages are for the machine");
            }
        }
        Ok(())
    }

    /// A remote gateway has messages for the machine, and nothing for the host: it has applied nothing.
    fn take_from_gateway(&mut self, now: Now, from: ReplicaId, frame: Bytes) -> Result<(), String> {
        let supported = self.context.peer_versions.supported;
        let (header, body) = frame::decode(frame, supported).map_err(|e| e.to_string())?;
        if header.group != self.context.seat.group {
            return Err(format!("it is for group {}", header.group));
        }
        let messages = match body {
            Body::Messages(messages) => Some(messages),
            Body::Beat => None,
            _ => return Err("a gateway has only messages".to_owned()),
        };
        let epoch = self.context.epoch().number;
        if header.epoch < epoch {
            // The header says which one it is.
            self.context.post(Peers::One(from), &Body::Beat);
        }
        if header.epoch != epoch || self.context.seat.epoch.number != epoch {
            return Ok(());
        }
        messages.map_or(Ok(()), |messages| self.take_messages(now, from, messages))
    }

    fn take_messages(&mut self, now: Now, from: ReplicaId, bytes: Bytes) -> Result<(), String> {
        let mut input = Decoder::new(bytes);
        while input.remaining() > 0 {
            let message = self.context.read_message(&mut input)?;
            if lacks_attachment(&message) {
                return Err("a message came without what is attached to it".into());
            }
            self.hear(now, from, message);
        }
        Ok(())
    }

    /// Hands a message to the machine.
    fn hear(&mut self, now: Now, from: ReplicaId, message: M::Message) {
        self.step(now, Input::Message { from, message });
    }

    /// Who is behind may have missed all that was said of what it lacks: it asks when it is told how far others are.
    /// One that an epoch left out is not told otherwise, for nothing is said to it there.
    fn answer_beat(&mut self, peer: ReplicaId, applied: Slot) {
        if applied < self.context.applied() {
            self.context.post(Peers::One(peer), &Body::Beat);
        }
    }

    /// A member says where reads may be answered that wait here.
    fn mark_came(&mut self, now: Now, peer: ReplicaId, number: u64, slot: Slot) {
        let mut stall = self.stall.with(&mut self.context, &mut self.requests);
        if !stall.mark_came(number, slot) {
            return;
        }
        self.requests.with(&mut self.context).answer_reads(now);
        if slot > self.context.applied() {
            self.transfer
                .catch_up(&mut self.context)
                .fetch_from(now, peer);
        }
        let mut stall = self.stall.with(&mut self.context, &mut self.requests);
        stall.ask_for_mark(now);
    }
}
