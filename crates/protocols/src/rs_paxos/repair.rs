//! What makes up for lost messages, and how the leader is asked for a sign of life.

use super::Replica;
use super::codes::BACKOFF_SILENT;
use super::messages::{Message, Timer};
use super::role::{Instance, Role};
use quorate_core::{Due, MemberIndex, MemberSet, Out, ReplicaId, Slot};

/// What moved since timers came due.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(super) struct Progress {
    /// Retransmissions since the last delivery.
    pub(super) backoff: u32,
    /// Something was delivered since the last retransmission timer.
    pub(super) is_stirring: bool,
}

impl Progress {
    /// Something was delivered.
    pub(super) fn moved(&mut self) {
        (self.backoff, self.is_stirring) = (0, true);
    }
}

impl Replica {
    /// Says again what went unanswered since the last time.
    pub(super) fn on_retransmit(&mut self, out: &mut Out<Self>) {
        self.armed.retransmit = false;
        let others = self.config.others();
        match self.role {
            Role::Leader(_) => {
                // That a link is down is a hint, and may be wrong.
                let is_silent = self.progress.backoff >= BACKOFF_SILENT;
                let up = if is_silent {
                    others
                } else {
                    self.presence.up()
                };
                self.repeat_proposals(others & up, true, out);
                self.shrink_codes(out);
                self.repeat_spreading(out);
            }
            Role::Canvassing { granted } => self.say_pre_vote(others - granted, out),
            Role::Candidate(_) => {
                self.say_prepare(others, out);
                self.lead_if_elected(out);
            }
            Role::Follower => {}
        }
        if !std::mem::take(&mut self.progress.is_stirring) {
            self.progress.backoff += 1;
            self.say_rejoin(others, out);
            self.ask(out);
            self.forward_stale(out);
        }
        self.ask_about_reads_again(out);
    }

    /// Asks the leader, or everybody where none is known, for a sign of life and for what was
    /// missed.
    fn ask(&self, out: &mut Out<Self>) {
        if self.is_leader() || !self.is_waiting() {
            return;
        }
        let known = &self.leadership;
        let to = match known.leader.filter(|_| known.is_led()) {
            Some(leader) => MemberSet::only(leader),
            None => self.config.others(),
        };
        let message = self.question();
        self.send_to(to, &message, |to, message| out.send_early(to, message));
    }

    fn question(&self) -> Message {
        let needed = self.voter.known_end().unwrap_or(self.ap);
        Message::Ask {
            next: self.ap,
            until: needed.max(self.accepted_end()),
        }
    }

    /// The first slot behind all in which this replica accepted something; `ap` if there is none.
    pub(super) fn accepted_end(&self) -> Slot {
        let is_accepted = |slot: &Instance| slot.accepted.is_some();
        let last = self.slots.iter().rposition(is_accepted);
        last.map_or(self.ap, |offset| self.slot_at(offset + 1))
    }

    /// A peer waits for something. What it has accepted beyond the end of the log of a leader that
    /// did not hear of it was not chosen; its slot ends as a no-op.
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

    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        let is_busy = match self.role {
            Role::Leader(ref leader) => {
                self.has_unchosen() || self.reads.count() > 0 || !leader.spreading.is_empty()
            }
            Role::Canvassing { .. } | Role::Candidate(_) => true,
            Role::Follower => self.is_waiting(),
        };
        if is_busy && !self.armed.retransmit {
            self.armed.retransmit = true;
            let wait = self.config.rtx_min_ns << self.progress.backoff.min(16);
            let wait = wait.min(self.config.rtx_max_ns);
            out.arm(Timer::Retransmit, Due::Within(wait..=wait + wait / 4));
        }
        self.watch_leader(out);
        self.watch_patience(out);
    }

    /// A link came up: say at once what may have been lost. Or went down: do not wait for the
    /// leader behind it.
    pub(super) fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        let Some(member) = self.config.member(peer).filter(|m| *m != self.config.me) else {
            return;
        };
        if !up {
            self.presence.lose(member);
            self.lose_fragments_to(member);
            if self.leadership.leader == Some(member) {
                self.leadership.give_up();
                self.armed.election = false;
            }
            return;
        }
        self.presence.regain(member);
        let it = MemberSet::only(member);
        self.say_rejoin(it, out);
        match self.role {
            Role::Leader(_) => {
                self.say_commit(it, self.ap, out);
                self.repeat_proposals(it, false, out);
            }
            Role::Canvassing { .. } => self.say_pre_vote(it, out),
            Role::Candidate(_) => self.say_prepare(it, out),
            Role::Follower if self.is_waiting() => {
                let message = self.question();
                out.send_early(self.peer(member), message);
            }
            Role::Follower => {}
        }
        self.ask_mark_of(member, out);
    }
}
