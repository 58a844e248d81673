//! What a replica waits for, what it asks and says again, and how it answers who waits.

use super::Replica;
use super::lanes::spans;
use super::messages::{Learned, Message, Timer};
use super::state::Lead;
use crate::shared::ballot::Ballot;
use crate::shared::peers::Member;
use quorate_core::{Due, Entry, MemberIndex, MemberSet, Out, ReplicaId, Slot};

/// Decided entries in the answer to one question, at most: who asks, asks again.
const TOLD_MAX: usize = 64;

impl Replica {
    /// Something is, or may be, in the slots before this one.
    pub(super) fn see(&mut self, end: Slot) {
        self.seen = self.seen.max(end.min(self.horizon()));
    }

    /// Whether slots that were seen are not delivered.
    pub(super) fn is_blocked(&self) -> bool {
        self.next < self.seen
    }

    /// Whether somebody may have to be asked, or told again.
    fn is_waiting(&self) -> bool {
        let is_preparing = |lane: &super::state::Lane| matches!(lane.lead, Lead::Preparing(_));
        let is_busy = self.has_requests() || !self.proposals.is_empty();
        self.is_blocked() || is_busy || self.lanes.iter().any(is_preparing)
    }

    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        if self.is_waiting() && !self.armed.retransmit {
            self.armed.retransmit = true;
            let delays = &self.config.delays;
            let due = self.backoff.due(delays.rtx_min_ns, delays.rtx_max_ns);
            out.arm(Timer::Retransmit, due);
        }
        self.watch_lanes(out);
        self.watch_skips(out);
        self.watch_claim(out);
        self.watch_patience(out);
    }

    /// Has the suspicion timer run while something holds up what was seen: for less long where the connection to a
    /// leader that is waited for broke.
    fn watch_lanes(&mut self, out: &mut Out<Self>) {
        if !self.is_blocked() || self.is_silent {
            return;
        }
        let is_new = self.armed.suspect.is_none();
        let is_hurried = self.armed.suspect == Some(true);
        if is_hurried || !is_new && self.down.is_empty() {
            return;
        }
        let is_down = || {
            let awaited = self.awaited_lanes();
            awaited
                .iter()
                .any(|lane| self.down.contains(self.leader_of(*lane)))
        };
        let hurries = !self.down.is_empty() && is_down();
        if is_new || hurries {
            if is_new {
                (self.heard, self.has_moved) = (MemberSet::EMPTY, false);
            }
            self.armed.suspect = Some(hurries);
            let delays = &self.config.delays;
            let ns = if hurries {
                delays.hurried_ns
            } else {
                delays.suspect_ns
            };
            out.arm(Timer::Suspect, Due::Within(ns..=2 * ns));
        }
    }

    /// Says again what went unanswered since the last time.
    pub(super) fn on_retransmit(&mut self, out: &mut Out<Self>) {
        self.armed.retransmit = false;
        self.lanes
            .iter_mut()
            .for_each(|lane| lane.is_barred = false);
        let is_still = self.backoff.is_still();
        let all = self.config.seating.others();
        if is_still {
            for position in 0..self.lanes.len() {
                let lane = MemberIndex::new(position);
                if let Lead::Preparing(preparing) = &self.lanes[lane].lead {
                    self.say_prepare(lane, all - preparing.promised_by, out);
                }
            }
        }
        self.propose_stale(all, is_still, out);
        if is_still {
            self.ask(all, out);
        }
        self.ask_about_reads_again(out);
    }

    /// Asks members for what this replica waits for.
    pub(super) fn ask(&mut self, to: MemberSet, out: &mut Out<Self>) {
        if self.wants_slot() && self.own_ballot().is_some() {
            // The window ends before the next own slot: what is before that has to be filled.
            self.see(self.own.next);
        }
        if self.is_blocked() {
            let message = Message::Ask {
                next: self.next,
                until: self.seen,
            };
            self.send_to(to, &message, |to, message| out.send_early(to, message));
        }
    }

    /// Says proposals again to members that have not accepted them: those that were not said since the last timer,
    /// if nothing moves.
    fn propose_stale(&mut self, to: MemberSet, is_still: bool, out: &mut Out<Self>) {
        let (mut stale, now_ns) = (Vec::new(), self.now_ns);
        for (slot, proposal) in &mut self.proposals {
            let is_fresh = std::mem::take(&mut proposal.is_fresh);
            if !is_fresh && is_still && proposal.until_ns <= now_ns {
                stale.push(*slot);
            }
        }
        self.propose_to(to, &stale, out);
    }

    /// Says these proposals to those of some members that have not accepted them.
    fn propose_to(&mut self, to: MemberSet, slots: &[Slot], out: &mut Out<Self>) {
        let mut entries: Vec<(MemberSet, Slot, Ballot, Entry)> = Vec::new();
        let mut noops: Vec<(MemberSet, Ballot, Vec<Slot>)> = Vec::new();
        for slot in slots {
            let Some(proposal) = self.proposals.get(slot) else {
                continue;
            };
            let (lacking, ballot) = (to - proposal.accepted_by, proposal.ballot);
            if lacking.is_empty() {
                continue;
            }
            match &proposal.value {
                Some(entry) => entries.push((lacking, *slot, ballot, entry.clone())),
                None => match noops
                    .iter_mut()
                    .find(|(of, at, _)| (*of, *at) == (lacking, ballot))
                {
                    Some((_, _, all)) => all.push(*slot),
                    None => noops.push((lacking, ballot, vec![*slot])),
                },
            }
        }
        for (to, slot, ballot, entry) in entries {
            let until_ns = self.there_ns(&entry, to);
            if let Some(proposal) = self.proposals.get_mut(&slot) {
                proposal.until_ns = proposal.until_ns.max(until_ns);
            }
            self.say_suggest(to, slot, ballot, &entry, Learned::default(), out);
        }
        for (to, ballot, slots) in noops {
            for span in spans(slots, self.lanes()) {
                self.say_noops(to, span, ballot, out);
            }
        }
    }

    /// A peer waits: tells what is decided, and how far this replica has come. Where that is far, the peer is given
    /// the decided log.
    pub(super) fn on_ask(
        &mut self,
        from: MemberIndex,
        next: Slot,
        until: Slot,
        out: &mut Out<Self>,
    ) {
        if self.next.0.saturating_sub(next.0) > self.config.window {
            out.inform(self.config.seating.members[from], next);
        }
        if self.is_silent {
            return;
        }
        self.see(until.min(Slot(self.next.0 + self.config.window + self.config.ahead)));
        self.skip_to_seen(out);
        let it = MemberSet::only(from);
        let (mut noops, mut entries) = (Vec::new(), Vec::new());
        if next < until {
            for (slot, held) in self.slots.range(next.max(self.next)..until.max(self.next)) {
                match &held.decided {
                    Some(Some(entry)) if entries.len() < TOLD_MAX => {
                        entries.push((*slot, entry.clone()));
                    }
                    Some(None) => noops.push(*slot),
                    _ => {}
                }
            }
        }
        let learned = Learned {
            values: Vec::new(),
            noops: spans(noops, self.lanes()),
        };
        let header = self.header();
        let message = match learned.is_empty() {
            true => Message::Skip { header },
            false => Message::Learn { learned, header },
        };
        self.say(it, &message, out);
        self.tell_entries(from, entries, out);
    }

    /// Tells a peer of decided entries: of long ones no more than links move meanwhile.
    fn tell_entries(&mut self, to: MemberIndex, entries: Vec<(Slot, Entry)>, out: &mut Out<Self>) {
        for (slot, entry) in entries {
            let until_ns = self.there_ns(&entry, MemberSet::only(to));
            let is_under_way = until_ns > 0 && self.now_ns < self.told_until_ns[to];
            if !is_under_way {
                self.told_until_ns[to] = self.told_until_ns[to].max(until_ns);
                out.send_early(self.peer(to), Message::Decided { slot, entry });
            }
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
        // Nothing that was on its way arrives any more.
        self.told_until_ns[member] = 0;
        let it = MemberSet::only(member);
        self.say_skip(it, out);
        for position in 0..self.lanes.len() {
            let lane = MemberIndex::new(position);
            if let Lead::Preparing(preparing) = &self.lanes[lane].lead {
                self.say_prepare(lane, it - preparing.promised_by, out);
            }
        }
        let all: Vec<Slot> = self.proposals.keys().copied().collect();
        self.propose_to(it, &all, out);
        self.ask(it, out);
        self.ask_mark_of(member, out);
    }
}
