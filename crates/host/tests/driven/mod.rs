//! A host whose effects a test takes one kind at a time, when it wants to.

use quorate_core::{Application, Machine, Now, ReplicaId, Seat};
use quorate_host::{
    Answer, Coding, Completed, Directive, Effects, Flush, Frame, Host, HostEvent, LogRead, Look,
    Release, Request, SnapshotRead, SnapshotWrite, Token, WireVersion, Write,
};
use std::mem::take;

/// A host, and what of its effects the test has not taken.
pub(crate) struct Driven<M: Machine, A: Application> {
    host: Host<M, A>,
    effects: Effects<A::Answer>,
    /// When the last input came.
    now: Now,
}

impl<M: Machine, A: Application> Driven<M, A> {
    pub(crate) fn new(host: Host<M, A>) -> Self {
        Driven {
            host,
            effects: Effects::default(),
            now: Now::default(),
        }
    }

    pub(crate) fn look(&self) -> Look<'_, M, A> {
        self.host.look()
    }

    pub(crate) fn submit(&mut self, now: Now, token: Token, request: Request<A::Query>) {
        self.now = now;
        self.host.submit(now, token, request);
    }

    pub(crate) fn frame(&mut self, now: Now, from: ReplicaId, frame: bytes::Bytes) {
        self.now = now;
        self.host.frame(now, from, frame);
    }

    pub(crate) fn link(&mut self, now: Now, peer: ReplicaId, version: Option<WireVersion>) {
        self.now = now;
        self.host.link(now, peer, version);
    }

    pub(crate) fn completed(&mut self, now: Now, completed: Completed) {
        self.now = now;
        self.host.completed(now, completed);
    }

    pub(crate) fn direct(&mut self, now: Now, directive: Directive) {
        self.now = now;
        self.host.direct(now, directive);
    }

    pub(crate) fn turn(&mut self, now: Now) {
        self.now = now;
        self.host.turn(now);
    }

    pub(crate) fn begin_epoch(&mut self, now: Now, seat: Seat, config: &M::Config) {
        self.now = now;
        self.host.begin_epoch(now, seat, config);
    }

    pub(crate) fn tidy(&mut self) -> bool {
        self.host.tidy()
    }

    pub(crate) fn take_frames(&mut self) -> Vec<Frame> {
        take(&mut self.collect().frames)
    }

    pub(crate) fn take_answers(&mut self) -> Vec<(Token, Answer<A::Answer>)> {
        take(&mut self.collect().answers)
    }

    pub(crate) fn take_reads(&mut self) -> Vec<LogRead> {
        take(&mut self.collect().reads)
    }

    pub(crate) fn take_events(&mut self) -> Vec<HostEvent> {
        take(&mut self.collect().events)
    }

    pub(crate) fn take_flush(&mut self, now: Now) -> Option<Flush> {
        self.now = now;
        self.collect().flush.take()
    }

    pub(crate) fn take_fragment_step(&mut self) -> Option<Write> {
        self.collect().fragment_step.take()
    }

    pub(crate) fn take_coding(&mut self) -> Vec<Coding> {
        take(&mut self.collect().coding)
    }

    pub(crate) fn take_snapshot_writes(&mut self) -> Vec<SnapshotWrite> {
        take(&mut self.collect().snapshot_writes)
    }

    pub(crate) fn take_snapshot_reads(&mut self) -> Vec<SnapshotRead> {
        take(&mut self.collect().snapshot_reads)
    }

    pub(crate) fn take_release(&mut self) -> Option<Release> {
        self.collect().release.take()
    }

    /// Everything that is to be done, with what the host wants now.
    fn collect(&mut self) -> &mut Effects<A::Answer> {
        let new = self.host.take_effects(self.now);
        let effects = &mut self.effects;
        effects.frames.extend(new.frames);
        effects.answers.extend(new.answers);
        effects.reads.extend(new.reads);
        effects.events.extend(new.events);
        effects.countdowns.extend(new.countdowns);
        effects.flush = new.flush.or(effects.flush.take());
        effects.fragment_step = new.fragment_step.or(effects.fragment_step.take());
        effects.coding.extend(new.coding);
        effects.snapshot_writes.extend(new.snapshot_writes);
        effects.snapshot_reads.extend(new.snapshot_reads);
        effects.release = new.release.or(effects.release.take());
        effects.released_fragments.extend(new.released_fragments);
        effects
    }
}
