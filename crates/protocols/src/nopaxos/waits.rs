//! What a replica waits for, what it says again, and whom it gives up.

use super::Replica;
use super::messages::Timer;
use crate::shared::timers::Backoff;
use quorate_core::{Due, Event, MemberIndex, MemberSet, Out, ReplicaId, Slot};

/// Leader timers in which nothing came of what a living leader says before it is given up all the same.
const STRIKES_MAX: u32 = 4;

/// The timers that run, and what happened since they were armed.
#[derive(Clone, Copy, Hash, Default, Debug)]
pub(super) struct Waits {
    pub(super) armed: Armed,
    /// How long nothing moved.
    backoff: Backoff,
    /// Members whose connection is down.
    down: MemberSet,
    /// Members that did their part since the leader timer was armed.
    pub(super) heard: MemberSet,
    /// Something was delivered since then.
    has_moved: bool,
    /// Leader timers since something was delivered.
    strikes: u32,
    /// An own entry was placed since the sequencer timer was armed.
    pub(super) has_placed: bool,
}

/// The timers that run, but for the one of patience.
#[derive(Clone, Copy, Hash, Default, Debug)]
pub(super) struct Armed {
    retry: bool,
    pub(super) gap: bool,
    sync: bool,
    leader: bool,
    sequencer: bool,
    /// The slot before which all should be delivered when it comes due.
    pub(super) catch_up: Option<Slot>,
}

impl Waits {
    /// Something was delivered.
    pub(super) fn moved(&mut self) {
        self.backoff.moved();
        (self.has_moved, self.strikes) = (true, 0);
    }

    /// A view began.
    pub(super) fn view_began(&mut self) {
        (self.strikes, self.has_moved) = (0, true);
    }
}

impl Replica {
    /// Whether somebody may have to be asked, or told again.
    fn is_waiting(&self) -> bool {
        self.gateway.is_busy() || self.awaits_leader()
    }

    /// Whether the leader has to do something, or whoever is to lead.
    fn awaits_leader(&self) -> bool {
        let has_missed = !self.early.is_empty() || self.lead.wanted.is_some();
        let is_open = self.log.len() > 0 || has_missed;
        let has_reads = self.gateway.reads.count() > 0;
        !self.is_silent && (is_open || has_reads || !self.is_normal())
    }

    /// Whether own entries wait for a stamp.
    fn awaits_sequencer(&self) -> bool {
        let mut own = self.gateway.unanswered.keys();
        self.is_normal() && own.any(|id| self.log.slot_of(*id).is_none())
    }

    /// Arms what is needed, and nothing where nobody waits.
    pub(super) fn rearm_timers(&mut self, out: &mut Out<Self>) {
        let delays = &self.config.delays;
        if self.is_waiting() && !self.waits.armed.retry {
            self.waits.armed.retry = true;
            let due = self
                .waits
                .backoff
                .due(delays.repeat_min_ns, delays.repeat_max_ns);
            out.arm(Timer::Retry, due);
        }
        let has_news = self.is_leader() && self.lead.told < self.log.end();
        if has_news && !self.waits.armed.sync {
            self.waits.armed.sync = true;
            out.arm(Timer::Sync, Due::After(delays.sync_ns));
        }
        if self.awaits_sequencer() && !self.waits.armed.sequencer {
            (self.waits.armed.sequencer, self.waits.has_placed) = (true, false);
            let is_down = self.waits.down.contains(self.config.sequencer(self.view));
            let ns = if is_down {
                delays.hurried_ns
            } else {
                delays.seq_ns
            };
            out.arm(Timer::Sequencer, Due::Within(ns..=2 * ns));
        }
        if self.awaits_leader() && !self.waits.armed.leader {
            self.postpone_leader(out);
        }
        self.watch_claim(out);
        let (is_busy, period_ns) = (self.gateway.is_busy(), self.config.delays.patience_ns);
        self.gateway
            .patience
            .watch(is_busy, Timer::Patience, period_ns, out);
    }

    /// Gives the leader, or whoever is to lead, all the time again.
    pub(super) fn postpone_leader(&mut self, out: &mut Out<Self>) {
        self.waits.armed.leader = true;
        (self.waits.heard, self.waits.has_moved) = (MemberSet::EMPTY, false);
        let delays = &self.config.delays;
        let is_down = self.waits.down.contains(self.leader());
        let ns = if is_down {
            delays.hurried_ns
        } else {
            delays.view_ns
        };
        out.arm(Timer::Leader, Due::Within(ns..=2 * ns));
    }

    /// The next turn whose member may be there.
    pub(super) fn turn_after(&self, turn: u64) -> u64 {
        let members = &self.config.seating.members;
        let is_up = |turn: &u64| {
            let member = MemberIndex::new((turn % members.len() as u64) as usize);
            !self.waits.down.contains(member)
        };
        let mut turns = turn + 1..=turn + members.len() as u64;
        turns.find(is_up).unwrap_or(turn + 1)
    }

    pub(super) fn on_timer(&mut self, timer: Timer, out: &mut Out<Self>) {
        match timer {
            Timer::Retry => self.on_retry(out),
            Timer::Gap => {
                self.waits.armed.gap = false;
                self.on_gap_due(out);
            }
            Timer::Sync => {
                self.waits.armed.sync = false;
                if self.is_leader() && self.lead.told < self.log.end() {
                    self.say_sync(self.others(), out);
                }
            }
            Timer::Leader => self.on_leader_due(out),
            Timer::Sequencer => self.on_sequencer_due(out),
            Timer::CatchUp => self.on_catch_up(out),
            Timer::Patience => self.gateway.on_patience(out),
        }
    }

    /// The time for a sign of life is over, or for a view to start.
    fn on_leader_due(&mut self, out: &mut Out<Self>) {
        self.waits.armed.leader = false;
        if !self.awaits_leader() {
            return;
        }
        if !self.is_normal() {
            out.emit(Event::Branch("view given up"));
            return self.change_leader(out);
        }
        let me = self.config.seating.me;
        let heard = self.waits.heard | MemberSet::only(me);
        self.waits.strikes += u32::from(!self.waits.has_moved);
        let is_in_vain = self.waits.strikes > STRIKES_MAX;
        // Where no majority is there, nobody else could do better.
        let is_useless = is_in_vain && heard.is_majority(self.config.seating.members.len());
        if is_useless || !heard.contains(self.leader()) {
            out.emit(Event::Branch("leader suspected"));
            self.change_leader(out);
        }
    }

    /// The time for a stamp is over.
    fn on_sequencer_due(&mut self, out: &mut Out<Self>) {
        self.waits.armed.sequencer = false;
        if self.awaits_sequencer() && !self.waits.has_placed {
            out.emit(Event::Branch("sequencer suspected"));
            self.change_session(out);
        }
    }

    /// Says again what went unanswered since the last time.
    fn on_retry(&mut self, out: &mut Out<Self>) {
        self.waits.armed.retry = false;
        let is_still = self.waits.backoff.is_still();
        if !self.is_normal() && !self.is_silent {
            self.say_change(self.others(), out);
            self.go_on_with_change(out);
        } else if is_still {
            self.say_again(out);
        }
        if self.is_normal() {
            self.want_stamps(false, out);
        }
        if self.gateway.reads.is_stale() {
            self.say_query_again(self.others(), out);
        }
    }

    /// Nothing was delivered since the last time: asks, or tells, what may have been lost.
    fn say_again(&mut self, out: &mut Out<Self>) {
        if self.is_leader() {
            self.say_gap_again(out);
            if self.log.len() > 0 {
                self.say_sync(self.behind(), out);
            }
        } else if self.is_normal() && self.awaits_leader() {
            self.ask_leader(out);
        }
    }

    /// Asks the leader for what was missed.
    fn ask_leader(&mut self, out: &mut Out<Self>) {
        let early = self.early.first_key_value();
        let early = early.map(|(number, _)| self.log.slot(*number));
        let wanted = self.lead.wanted.as_ref().map(|sync| sync.upto);
        if let Some(until) = early.max(wanted) {
            self.look_up(until, out);
        }
        let question = super::Message::Ask(self.view);
        self.say_early(MemberSet::only(self.leader()), &question, out);
    }

    /// A link came up: says at once what may have been lost. Or it went down.
    pub(super) fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        let Some(member) = self.config.seating.peer(peer) else {
            return;
        };
        let it = MemberSet::only(member);
        if up {
            self.waits.down.remove(member);
            self.say_query_again(it, out);
            if !self.is_silent {
                self.greet(it, out);
            }
            return;
        }
        self.waits.down.insert(member);
        // Timers that wait for it run anew, and shorter.
        self.waits.armed.leader &= member != self.leader();
        self.waits.armed.sequencer &= member != self.config.sequencer(self.view);
    }

    /// Says to a member that can hear again what it may have missed.
    fn greet(&mut self, it: MemberSet, out: &mut Out<Self>) {
        if !self.is_normal() {
            return self.say_change(it, out);
        }
        if self.is_leader() {
            self.say_sync(it, out);
            self.say_synced(it, out);
        } else if it.contains(self.leader()) && self.awaits_leader() {
            self.ask_leader(out);
        }
        if it.contains(self.config.sequencer(self.view)) {
            self.want_stamps(true, out);
        }
    }
}
