//! What a replica says again, asks, and answers who waits.

use super::Replica;
use super::messages::{Message, Timer};
use super::state::Role;
use crate::shared::peers::Member;
use quorate_core::{MemberIndex, MemberSet, Out, ReplicaId, Slot};

impl Replica {
    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        let is_standing = matches!(self.role, Role::Candidate(_));
        if !self.armed.retransmit && (is_standing || self.is_waiting()) {
            self.armed.retransmit = true;
            let (min_ns, max_ns) = (self.config.delays.rtx_min_ns, self.config.delays.rtx_max_ns);
            out.arm(Timer::Retransmit, self.backoff.due(min_ns, max_ns));
        }
        self.watch_leader(out);
        self.watch_fast_rounds(out);
        let learn_ns = self.config.delays.learn_ns;
        self.fetcher.watch(self.next, Timer::CatchUp, learn_ns, out);
        let patience_ns = self.config.delays.patience_ns;
        self.clients.watch(Timer::Patience, patience_ns, out);
    }

    /// Says again what went unanswered since the last time.
    pub(super) fn on_retransmit(&mut self, out: &mut Out<Self>) {
        self.armed.retransmit = false;
        let others = self.config.seating.others();
        let is_still = self.backoff.is_still();
        if is_still {
            self.say_prepare(others, out);
            self.lead_if_elected(out);
            self.repeat_accepts(others, false, out);
            self.retry(out);
            self.ask(others, out);
        }
        self.ask_about_reads_again(out);
    }

    /// Asks the leader, or members where none is known, for what this replica waits for, and tells it again what it
    /// may not have heard.
    fn ask(&mut self, to: MemberSet, out: &mut Out<Self>) {
        if !matches!(self.role, Role::Follower) || !self.is_waiting() {
            return;
        }
        let slots: Vec<Slot> = self.votes.keys().copied().collect();
        slots
            .into_iter()
            .for_each(|slot| self.say_fast_vote(slot, out));
        let leader = self.trust.leader;
        if let Some(leader) = leader.filter(|_| !self.is_silent) {
            self.relay(leader, out);
        }
        let to = leader.map_or(to, MemberSet::only);
        self.tell(to, &Message::Ask(self.next), out);
    }

    /// A peer waits: a leader tells what is decided; others note that one is wanted.
    pub(super) fn on_ask(&mut self, from: MemberIndex, next: Slot, out: &mut Out<Self>) {
        let is_leader = self.leader().is_some();
        let told_from = if is_leader {
            self.remembered_from()
        } else {
            self.next
        };
        if next < told_from {
            out.inform(self.config.seating.members[from], next);
        }
        if is_leader {
            self.say_commit(MemberSet::only(from), next.min(self.next), out);
        }
        self.note_wanted();
    }

    /// A peer waits for a leader: so does this replica, if it neither leads nor knows of one.
    pub(super) fn note_wanted(&mut self) {
        let is_led = self.leader().is_some() || self.trust.leader.is_some();
        self.trust.is_wanted |= !is_led && !self.is_silent;
    }

    /// A link came up: says at once what may have been lost. Or it went down: the leader behind it is not waited
    /// for.
    pub(super) fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        match self.config.seating.peer(peer) {
            Some(member) if up => self.greet(member, out),
            Some(member) => {
                self.down.insert(member);
                if self
                    .trust
                    .leader
                    .take_if(|leader| *leader == member)
                    .is_some()
                {
                    (self.trust.is_heard, self.armed.election) = (false, false);
                }
            }
            None => {}
        }
    }

    /// Says to a member that can hear again what may have been lost.
    fn greet(&mut self, member: MemberIndex, out: &mut Out<Self>) {
        self.down.remove(member);
        let it = MemberSet::only(member);
        match self.role {
            Role::Leader(_) => {
                self.say_commit(it, self.next, out);
                self.repeat_accepts(it, true, out);
            }
            Role::Candidate(_) => self.say_prepare(it, out),
            Role::Follower => self.ask(it, out),
        }
        for entry in self.clients.offers.entries() {
            self.propose(it, entry, out);
        }
        self.say_query(it, out);
    }
}
