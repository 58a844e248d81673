//! Loss recovery: NACK, RECOVER, and the coordination timer.

use super::Replica;
use super::messages::{Logged, RANGES_MAX, RECOVER_MAX, Value};
use super::mutants::Fault;
use super::normal::Body;
use super::role::Role;
use quorate_core::{Event, MemberIndex, Out, Peers, Slot};
use std::collections::BTreeMap;
use std::ops::Range;

/// NACKs to who should know, before others are asked.
const NACK_RETRY: u32 = 2;

/// Missing slots, by the member that is asked for them.
type Ranges = BTreeMap<MemberIndex, Vec<Range<Slot>>>;

impl Replica {
    /// The time for what is missing, or unanswered, to come by itself is over.
    pub(super) fn on_gap(&mut self, out: &mut Out<Self>) {
        let before = self.watch.armed.gap.take();
        self.watch.armed.is_hurried = false;
        let is_lost = std::mem::take(&mut self.watch.is_lost);
        if before != Some(self.progress()) {
            if is_lost {
                self.say_nacks(out);
            }
            return;
        }
        self.rounds.load.note_repair();
        match self.role {
            Role::Canvassing { granted, reason } => {
                self.say_pre_vc(self.config.others() - granted, reason, out)
            }
            Role::Candidate { votes } => self.say_vcr(self.config.others() - votes, out),
            Role::Follower | Role::Initiator => {}
        }
        self.say_nacks(out);
        self.coordinate(out);
        self.catch_up(out);
        self.offer_again();
        self.ask_about_reads_again(out);
        self.say_rejoin_again(out);
        self.watch.attempts += 1;
    }

    /// The coordination timer: what nobody says that it has is said again, and all are asked how far
    /// they are.
    fn coordinate(&mut self, out: &mut Out<Self>) {
        let body = Body {
            proposal: self.first_uncommitted(),
            asks: true,
            ..Body::default()
        };
        self.say_pulse(Peers::All, body, out);
    }

    /// What others say is committed, and is not known here, is fetched.
    fn catch_up(&mut self, out: &mut Out<Self>) {
        let ahead = self.traffic.heard_claim;
        if ahead <= self.ap() || self.watch.attempts == 0 {
            return;
        }
        let members = self.config.all();
        let mut having = members
            .iter()
            .filter(|member| self.traffic.acked[*member] >= ahead);
        if let Some(member) = having.find(|member| *member != self.config.me) {
            out.emit(Event::Branch("committed elsewhere"));
            out.catch_up(self.config.id(member), Slot(ahead.0 - 1));
        }
    }

    /// NACKs: whoever should have what is missing is asked for it; after some attempts others are, one
    /// at a time.
    fn say_nacks(&mut self, out: &mut Out<Self>) {
        for (member, nack) in self.missing() {
            let body = Body {
                nack,
                asks: true,
                ..Body::default()
            };
            self.say_pulse(self.peer(member), body, out);
        }
    }

    /// What is neither verified nor waits to be.
    fn missing(&self) -> Ranges {
        let mut missing = Ranges::new();
        let Some(start) = self.start else {
            return missing;
        };
        if self.init.is_none() {
            let at = Slot(start.0.saturating_sub(1));
            self.note_missing(&mut missing, at);
        }
        let end = self.traffic.latest.max(self.log.end()).min(self.horizon());
        let mut slot = self.verified;
        while slot < end {
            if !self.pending.contains_key(&slot) {
                self.note_missing(&mut missing, slot);
            }
            slot = slot.next();
        }
        missing
    }

    fn note_missing(&self, missing: &mut Ranges, slot: Slot) {
        let Some(member) = self.who_has(slot) else {
            return;
        };
        let ranges = missing.entry(member).or_default();
        if let Some(last) = ranges.last_mut()
            && last.end == slot
        {
            last.end = slot.next();
        } else if ranges.len() < RANGES_MAX {
            ranges.push(slot..slot.next());
        }
    }

    /// The member to ask for a slot: its owner, the initiator for what is before its view, or whoever told of
    /// the view; later on, others.
    fn who_has(&self, slot: Slot) -> Option<MemberIndex> {
        let (me, init) = (self.config.me, self.init.as_ref());
        let owner = init.map(|init| init.owner(slot).unwrap_or(init.initiator));
        let first = owner.or(self.informant).unwrap_or(me);
        if first == me
            && init.is_some_and(|init| init.owner(slot) == Some(me))
            && self.may_propose()
        {
            // It is this replica's to say.
            return None;
        }
        let is_out = first == me || self.down.contains(first);
        let turn = match self.watch.attempts.checked_sub(NACK_RETRY) {
            None if !is_out => return Some(first),
            None => self.watch.attempts as usize + 1,
            Some(late) => late as usize + 1,
        };
        let others = self.config.others();
        let turn = (first.position() + turn) % others.len().max(1);
        others.iter().nth(turn)
    }

    /// A peer lacks slots. What is committed it gets from the host; of the rest, what is verified here,
    /// or of this view and so the only thing its slot can hold (paper, section 6.3).
    pub(super) fn on_nack(
        &mut self,
        from: MemberIndex,
        missing: &[Range<Slot>],
        out: &mut Out<Self>,
    ) {
        let mut recover = Vec::new();
        let mut bytes = 0;
        for Range { start: first, end } in missing.iter().cloned() {
            if first < self.ap() {
                out.inform(self.config.id(from), first);
            }
            if let Some(init) = self.committed_init(first, end) {
                recover.push(init);
            }
            let mut slot = first.max(self.ap());
            let end = end.min(self.horizon());
            while slot < end && recover.len() < RECOVER_MAX && bytes < self.config.batch_bytes_max {
                if let Some(logged) = self.recoverable(slot) {
                    bytes += logged.value.entry().map_or(0, |entry| entry.body_len());
                    recover.push(logged.clone());
                }
                slot = slot.next();
            }
            self.give_up_until(first, end);
        }
        recover.truncate(RECOVER_MAX);
        if !recover.is_empty() {
            let body = Body {
                recover,
                ..Body::default()
            };
            self.say_pulse(self.peer(from), body, out);
        }
    }

    /// VIEW-INIT of this view, if it is asked for and committed already.
    fn committed_init(&self, first: Slot, until: Slot) -> Option<Logged> {
        let init = self.init.as_ref().filter(|init| init.view > 0)?;
        let is_asked = first <= init.at && init.at < until && init.at < self.ap();
        is_asked.then(|| Logged {
            slot: init.at,
            eview: init.view,
            value: Value::Init(init.clone()),
        })
    }

    fn recoverable(&self, slot: Slot) -> Option<&Logged> {
        let is_safe = |logged: &&Logged| {
            slot < self.verified
                || logged.eview == self.view
                || self.config.faults.is(Fault::RecoverUnverified)
        };
        let pending = self.pending.get(&slot).filter(is_safe);
        pending.or_else(|| self.log.get(slot).filter(is_safe))
    }

    /// Own slots that somebody waits for, and that are not proposed, are skipped.
    fn give_up_until(&mut self, first: Slot, until: Slot) {
        let Some(init) = self.init.as_ref() else {
            return;
        };
        let me = self.config.me;
        let first = init.next_of(me, first.max(self.own.next));
        if first.is_some_and(|slot| slot < until) {
            self.own.skip_until = self.own.skip_until.max(until);
        }
    }
}
