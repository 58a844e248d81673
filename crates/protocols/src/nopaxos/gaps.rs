//! Gaps: numbers that were stamped and did not come.
//!
//! A follower asks the leader, and nobody else: what a follower has, the leader may have given up (N-S6). The leader
//! gives up what it has not got itself: the slot holds a no-op from then on, whatever others have in it, and the
//! leader goes on once a majority has the no-op.

use super::Replica;
use super::messages::{Message, Record, Timer};
use super::replica::Written;
use quorate_core::{Due, Event, MemberIndex, MemberSet, Out, Slot};

/// Entries in the answer to one question, at most: who asks, asks again.
const TOLD_MAX: usize = 64;

/// What is missing, and what is done about it.
#[derive(Clone, Hash, Default, Debug)]
pub(super) struct Gaps {
    /// As follower: the leader was asked for what is missing before this slot.
    pub(super) asked: Slot,
    /// As leader: a gap that no majority has yet.
    pub(super) commit: Option<GapCommit>,
    /// How many no-ops this replica declared as leader: for people.
    pub(super) declared: u64,
}

/// A gap whose no-ops are on their way.
#[derive(Clone, Copy, Hash, Debug)]
pub(super) struct GapCommit {
    /// The first slot of the gap.
    pub(super) from: Slot,
    /// The first slot behind it.
    pub(super) until: Slot,
    /// Members that have the no-ops, durably.
    pub(super) had_by: MemberSet,
}

impl Replica {
    /// The first slot behind what is missing, if something came out of its turn.
    fn missing_until(&self) -> Option<Slot> {
        let (number, _) = self.early.first_key_value()?;
        let until = self.log.slot(*number);
        (self.is_normal() && self.gaps.commit.is_none() && until > self.log.end()).then_some(until)
    }

    /// Sees to what is missing: at once, or when it had some time to come late.
    pub(super) fn watch_gap(&mut self, out: &mut Out<Self>) {
        let until = self.missing_until();
        if until.is_none_or(|until| until <= self.gaps.asked) {
            return;
        }
        let gap_ns = self.config.delays.gap_ns;
        if gap_ns == 0 {
            self.on_gap_due(out);
        } else if !self.waits.armed.gap {
            self.waits.armed.gap = true;
            out.arm(Timer::Gap, Due::After(gap_ns));
        }
    }

    /// What is missing is taken for lost.
    pub(super) fn on_gap_due(&mut self, out: &mut Out<Self>) {
        match self.missing_until() {
            Some(until) if self.is_leader() => self.give_up(until, out),
            Some(until) => self.look_up(until, out),
            None => {}
        }
    }

    /// Asks the leader for the slots from the end of the log on.
    pub(super) fn look_up(&mut self, until: Slot, out: &mut Out<Self>) {
        let from = self.log.end();
        if from < until {
            self.gaps.asked = until;
            let view = self.view;
            let message = Message::Lookup { view, from, until };
            self.say_early(MemberSet::only(self.leader()), &message, out);
        }
    }

    /// A follower misses slots: it gets what the leader has in them. What the leader has not got itself it gives up.
    pub(super) fn on_lookup(
        &mut self,
        from: MemberIndex,
        first: Slot,
        until: Slot,
        out: &mut Out<Self>,
    ) {
        let it = MemberSet::only(from);
        if first < self.log.next {
            out.inform(self.config.seating.members[from], first);
        }
        let (first, end) = (first.max(self.log.stamps_from), until.min(self.log.end()));
        let asked = self
            .log
            .iter()
            .filter(|(slot, _)| (first..end).contains(slot));
        for (slot, value) in asked.take(TOLD_MAX) {
            match value {
                Some(entry) => self.say_marked(it, self.log.number(slot), entry.clone(), out),
                None => self.say_gap(it, slot, slot.next(), out),
            }
        }
        let early = self.early.first_key_value();
        let early = early.map_or(until, |(number, _)| self.log.slot(*number));
        if self.gaps.commit.is_none() {
            self.give_up(until.min(early), out);
        }
    }

    /// The leader gives up what it has not got before a slot.
    fn give_up(&mut self, until: Slot, out: &mut Out<Self>) {
        let from = self.log.end();
        let until = until.min(Slot(self.log.next.0 + self.config.slots_max));
        if until <= from {
            return;
        }
        out.emit(Event::Branch("gap"));
        while self.log.end() < until {
            self.fill(None, out);
            self.gaps.declared += 1;
        }
        self.gaps.commit = Some(GapCommit {
            from,
            until,
            had_by: MemberSet::EMPTY,
        });
        let view = self.view;
        self.disk
            .push(out.persisted(), Written::Gap { view, until });
        self.say_gap(self.others(), from, until, out);
    }

    /// Tells followers of no-ops, which are durable by then: a leader that forgot them could place what it had given up
    /// (N-S5).
    pub(super) fn say_gap(&self, to: MemberSet, from: Slot, until: Slot, out: &mut Out<Self>) {
        let view = self.view;
        self.say(to, &Message::Gap { view, from, until }, out);
    }

    /// The leader gave up slots: they hold no-ops, whatever stood there.
    pub(super) fn on_gap(&mut self, from: Slot, until: Slot, out: &mut Out<Self>) {
        if from > self.log.end() {
            return self.look_up(from, out);
        }
        let until = until.min(Slot(self.log.next.0 + self.config.slots_max));
        self.void_all(from, until, out);
        while self.log.end() < until {
            self.fill(None, out);
        }
        let number = self.log.number(self.log.end());
        self.early = self.early.split_off(&number);
        let view = self.view;
        self.say(
            MemberSet::only(self.leader()),
            &Message::GapA { view, until },
            out,
        );
    }

    /// Slots of the log hold no-ops, whatever they held.
    pub(super) fn void_all(&mut self, from: Slot, until: Slot, out: &mut Out<Self>) {
        let (from, until) = (from.max(self.log.next), until.min(self.log.end()));
        for slot in (from.0..until.0).map(Slot) {
            if self.log.void(slot) {
                out.emit(Event::Branch("entry given up"));
                let (view, value) = (self.view, None);
                out.persist(Record::Place { view, slot, value });
            }
        }
    }

    /// A member has the no-ops of a gap, durably.
    pub(super) fn count_gap(&mut self, member: MemberIndex, until: Slot, out: &mut Out<Self>) {
        let commit = self.gaps.commit.as_mut();
        let Some(commit) = commit.filter(|commit| commit.until == until) else {
            return;
        };
        commit.had_by.insert(member);
        if commit.had_by.len() >= self.config.thresholds.gap {
            self.gaps.commit = None;
            // What is behind it waits for the hosts to get past it.
            self.say_sync(self.others(), out);
        }
    }

    /// Says again what no majority has answered.
    pub(super) fn say_gap_again(&self, out: &mut Out<Self>) {
        if let Some(GapCommit {
            from,
            until,
            had_by,
        }) = self.gaps.commit
        {
            self.say_gap(self.others() - had_by, from, until, out);
        }
    }
}
