//! What a replica waits for, says again, asks, and answers who waits.

use super::Replica;
use super::lanes::Lead;
use super::messages::{Ask, Message, Stamp, Timer};
use crate::shared::peers::Member;
use quorate_core::{Due, MemberIndex, MemberSet, Out, ReplicaId};

impl Replica {
    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        let is_standing = self
            .lanes
            .iter()
            .any(|lane| matches!(lane.lead, Lead::Preparing(_)));
        self.watch_leaders(out);
        if !self.armed.retransmit && (is_standing || self.is_waiting()) {
            self.armed.retransmit = true;
            let delays = &self.config.delays;
            let due = self.backoff.due(delays.rtx_min_ns, delays.rtx_max_ns);
            out.arm(Timer::Retransmit, due);
        }
        self.watch_hold(out);
        self.watch_fast_round(out);
        let (learn_ns, patience_ns) = (self.config.delays.learn_ns, self.config.delays.patience_ns);
        self.fetcher.watch(self.next, Timer::CatchUp, learn_ns, out);
        self.clients.watch(Timer::Patience, patience_ns, out);
    }

    /// Has a timer run until the own clock is past a position at which something waits, but no longer than clocks
    /// should differ since that is known; or until the next beat.
    fn watch_hold(&mut self, out: &mut Out<Self>) {
        if self.is_silent {
            return;
        }
        let past = Stamp(self.clock_ns).max(self.forced);
        let (now_ns, clock_ns, hold_ns) = (self.now_ns, self.clock_ns, self.config.hold_ns);
        let ahead = self.waits.range(past.next()..);
        let due_ns = |at: Stamp, since_ns: u64| {
            let passed_ns = now_ns.saturating_add(at.0.saturating_sub(clock_ns));
            passed_ns.min(since_ns.saturating_add(hold_ns))
        };
        let held = ahead.map(|(at, since_ns)| (due_ns(*at, *since_ns), *at));
        let first = held.min().filter(|_| self.config.has_fast_lane());
        let beat = self.armed.has_unsaid.then_some((self.armed.beat_ns, past));
        let Some((due_ns, at)) = first.into_iter().chain(beat).min() else {
            return;
        };
        if self.armed.hold.is_none() || due_ns < self.armed.hold_ns {
            (self.armed.hold, self.armed.hold_ns) = (Some(at), due_ns);
            out.arm(
                Timer::Hold,
                Due::After(due_ns.saturating_sub(now_ns).max(1)),
            );
        }
    }

    /// A position has been held for long enough, whatever the own clock shows.
    pub(super) fn on_hold(&mut self) {
        if let Some(held) = self.armed.hold.take() {
            self.forced = self.forced.max(held);
        }
    }

    /// Says again what went unanswered since the last time.
    pub(super) fn on_retransmit(&mut self, out: &mut Out<Self>) {
        self.armed.retransmit = false;
        self.age_entries();
        if self.backoff.is_still() {
            for no in self.lane_numbers() {
                self.say_prepare(no, self.others(), out);
                self.lead_if_elected(no, out);
                self.want_again_unless_fresh(no, out);
            }
            if !self.is_silent {
                self.adopt(out);
            }
            self.ask(self.others(), out);
        }
        self.ask_about_reads_again(out);
    }

    fn want_again_unless_fresh(&mut self, no: super::messages::LaneNo, out: &mut Out<Self>) {
        let others = self.others();
        if let Lead::Leading(leading) = &mut self.lane_mut(no).lead
            && !std::mem::take(&mut leading.is_fresh)
        {
            self.want_again(no, others, out);
        }
    }

    /// Asks members for what this replica waits for, and tells them again what they may wait for.
    fn ask(&mut self, to: MemberSet, out: &mut Out<Self>) {
        if !self.is_waiting() {
            return;
        }
        let until = self.waits.keys().next_back().copied().unwrap_or_default();
        let mark = self.mark();
        for member in to.iter() {
            if !self.is_silent {
                self.tell_decided(member, self.walk, out);
            }
            out.send_early(self.peer(member), Message::Ask(Ask { mark, until }));
        }
    }

    /// Asks all which time the first slot has that this replica, which has just started, has not delivered.
    pub(super) fn ask_for_time(&self, out: &mut Out<Self>) {
        let (mark, until) = (self.mark(), Stamp(0));
        self.tell(self.others(), &Message::Ask(Ask { mark, until }), out);
    }

    /// A peer waits: tells what is decided in the lanes of this replica, and what is delivered.
    pub(super) fn on_ask(&mut self, from: MemberIndex, ask: Ask, out: &mut Out<Self>) {
        self.note_wait(ask.until);
        if !self.is_silent {
            self.tell_decided(from, ask.mark.walk, out);
        }
        if ask.mark.next < self.next {
            out.inform(self.config.seating.members[from], ask.mark.next);
        }
        if ask.mark.walk < self.walk {
            let mark = self.mark();
            self.tell(MemberSet::only(from), &Message::Mark(mark), out);
        }
    }

    /// A link came up: says at once what may have been lost. Or it went down.
    pub(super) fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        let Some(member) = self.config.seating.peer(peer) else {
            return;
        };
        if !up {
            self.down.insert(member);
            return;
        }
        self.down.remove(member);
        let it = MemberSet::only(member);
        for no in self.lane_numbers() {
            self.say_prepare(no, it, out);
            self.want_again(no, it, out);
        }
        self.ask(it, out);
        self.say_query(it, out);
    }
}
