//! What makes up for lost messages, and how the leader is asked for a sign of life.

use super::Replica;
use super::messages::{Message, Timer};
use super::role::Role;
use crate::shared::leadership::Trust;
use quorate_core::{Due, MemberIndex, MemberSet, Out, ReplicaId, Slot};

/// How long nothing moved.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(super) struct Backoff {
    /// Retransmissions since the last delivery.
    repeats: u32,
    /// Something was delivered since the last retransmission timer.
    is_stirring: bool,
}

impl Backoff {
    /// Something was delivered.
    pub(super) fn moved(&mut self) {
        (self.repeats, self.is_stirring) = (0, true);
    }
}

impl Replica {
    /// Says again what went unanswered since the last time.
    pub(super) fn on_retransmit(&mut self, out: &mut Out<Self>) {
        self.armed.retransmit = false;
        let others = self.config.others();
        match self.role {
            Role::Leader(_) => self.send_again(others, true, out),
            Role::Canvassing { granted } => self.say_pre_vote(others - granted, out),
            Role::Candidate(_) => self.say_vote(others, out),
            Role::Follower => {}
        }
        if !std::mem::take(&mut self.backoff.is_stirring) {
            self.backoff.repeats += 1;
            self.say_rejoin(others, out);
            self.ask(out);
            self.offer_stale(out);
        }
        self.ask_about_reads_again(out);
    }

    /// Asks the leader, or everybody where none is known, for a sign of life and for what was missed.
    fn ask(&self, out: &mut Out<Self>) {
        if self.is_leader() || !self.is_waiting() {
            return;
        }
        let known = &self.leadership;
        let to = match known.leader.filter(|_| known.is_led()) {
            Some(leader) => MemberSet::only(leader),
            None => self.config.others(),
        };
        self.say_early(to, &self.question(), out);
    }

    fn question(&self) -> Message {
        let needed = self.voter.known_end().unwrap_or_default();
        Message::Ask {
            next: self.log.first(),
            until: needed.max(self.log.end()),
        }
    }

    /// A peer waits for something. What its log has beyond the end of the leader's was not committed, and is
    /// cut off when these slots end as no-ops.
    pub(super) fn on_ask(
        &mut self,
        from: MemberIndex,
        next: Slot,
        until: Slot,
        out: &mut Out<Self>,
    ) {
        self.tell(from, next, out);
        self.fill(until, out);
        self.note_wanted();
    }

    /// A peer waits for a leader: so does this replica, if it neither leads nor knows of one.
    pub(super) fn note_wanted(&mut self) {
        let is_free = !self.is_leader() && self.leadership.trust == Trust::None;
        self.leadership.is_wanted |= is_free;
    }

    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        let is_busy = match self.role {
            Role::Leader(_) => !self.log.is_empty() || self.reads.count() > 0,
            Role::Canvassing { .. } | Role::Candidate(_) => true,
            Role::Follower => self.is_waiting(),
        };
        if is_busy && !self.armed.retransmit {
            self.armed.retransmit = true;
            let wait_ns = self.config.rtx_min_ns << self.backoff.repeats.min(16);
            let wait_ns = wait_ns.min(self.config.rtx_max_ns);
            let due = Due::Within(wait_ns..=wait_ns + wait_ns / 4);
            out.arm(Timer::Retransmit, due);
        }
        self.watch_leader(out);
        self.watch_claim(out);
        self.watch_patience(out);
    }

    /// A link came up: say at once what may have been lost. Or went down: do not wait for the leader behind
    /// it.
    pub(super) fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        let Some(member) = self.config.member(peer).filter(|m| *m != self.config.me) else {
            return;
        };
        self.lose_sent(member);
        if !up {
            if self.leadership.leader == Some(member) {
                self.leadership.give_up();
                self.armed.election = false;
            }
            return;
        }
        let it = MemberSet::only(member);
        self.say_rejoin(it, out);
        match self.role {
            Role::Leader(_) => {
                self.say_commit(it, out);
                self.send_again(it, false, out);
            }
            Role::Canvassing { .. } => self.say_pre_vote(it, out),
            Role::Candidate(_) => self.say_vote(it, out),
            Role::Follower if self.is_waiting() => {
                out.send_early(self.peer(member), self.question());
            }
            Role::Follower => {}
        }
        self.ask_mark_of(member, out);
    }
}
