//! One instance of Weak-MVC (Algorithms 2 and 3): what was said in a slot, and what follows.
//!
//! Everything is recomputed from the values themselves, one per (replica, step). There are no
//! counters to keep right, and a duplicate has nothing to increment.

use super::config::{Config, Thresholds};
use super::messages::SlotMessage;
use super::trail::{Mode, Step, Trail, Value};
use super::voice::{SlotValue, Voice};
use super::waits::Wait;
use quorate_core::{EntryId, MemberIndex, MemberSet, Slot, coin};

/// The state of one slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Instance {
    me: MemberIndex,
    /// What each member has said, by member, this replica included.
    pub(crate) voices: Vec<Voice>,
    /// The request that has the slot if anyone has.
    pub(crate) q: Option<EntryId>,
    /// Whether the own proposal survives a crash.
    pub(crate) prop_durable: bool,
    /// How many of the own trail's values survive a crash.
    pub(crate) trail_durable: usize,
    /// The outcome of the slot.
    pub(crate) decided: SlotValue,
    /// The first vote's wait for a faster decision.
    pub(crate) hold: Wait,
    /// The proposal's wait for a batch that peers proposed.
    pub(crate) adopt: Wait,
    /// The index in the trail of the value that waited last for more values than it needs, and that wait.
    pub(crate) grace: (usize, Wait),
    /// Whether something was said here since the last retransmission timer.
    pub(crate) fresh: bool,
}

/// The account of this replica's own values that is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// Everything in memory: right for choosing the next own value.
    All,
    /// Only what survives a crash: right for a decision.
    Durable,
}

/// A decision that follows from what was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    /// The request that the slot is decided for; `None` is NULL.
    pub(crate) value: Option<EntryId>,
    /// Whether no round after the first vote was needed.
    pub(crate) fast: bool,
    /// Exchanges of messages it took: one of proposals, and one per value of the trails.
    pub(crate) delays: u32,
}

/// What to do about the next own value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Take this value; more of the others' values would not change it.
    Take(Value),
    /// Take this value for want of a decisive one; rare ways to it have a name.
    Settle(Value, Option<&'static str>),
    /// A value could be taken, but a faster decision may be near.
    Hold,
    /// A value could be taken, but says nothing decisive, and members that may still speak could change
    /// that.
    Grace,
    /// Not enough was heard to take a value.
    Wait,
}

impl Next {
    fn is_indecisive(self) -> bool {
        matches!(self, Next::Settle(..))
    }
}

/// The proposals heard.
struct Proposals {
    seen: usize,
    nulls: usize,
    /// The request proposed most often, and how often.
    best: Option<EntryId>,
    best_count: usize,
}

/// The values heard at one index of the trails.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) zeros: usize,
    pub(super) ones: usize,
    unsure: usize,
}

impl Tally {
    fn seen(&self) -> usize {
        self.zeros + self.ones + self.unsure
    }
}

impl Instance {
    pub(crate) fn new(config: &Config) -> Instance {
        let silent = Voice {
            prop: SlotValue::Unheard,
            trail: Trail::new(config.mode),
        };
        Instance {
            me: config.me,
            voices: vec![silent; config.members.len()],
            q: None,
            prop_durable: false,
            trail_durable: 0,
            decided: SlotValue::Unheard,
            hold: Wait::Ahead,
            adopt: Wait::Ahead,
            grace: (0, Wait::Ahead),
            fresh: false,
        }
    }

    /// Forgets everything, keeping the allocation.
    pub(crate) fn clear(&mut self, mode: Mode) {
        for voice in &mut self.voices {
            voice.prop = SlotValue::Unheard;
            voice.trail = Trail::new(mode);
        }
        self.q = None;
        self.prop_durable = false;
        self.trail_durable = 0;
        self.decided = SlotValue::Unheard;
        self.hold = Wait::Ahead;
        self.adopt = Wait::Ahead;
        self.grace = (0, Wait::Ahead);
        self.fresh = false;
    }

    /// What this replica itself has said.
    pub(crate) fn own(&self) -> &Voice {
        &self.voices[self.me]
    }

    /// Whether this replica has proposed.
    pub(crate) fn is_proposed(&self) -> bool {
        self.own().prop.is_heard()
    }

    /// Whether this replica has said NULL and nothing else.
    pub(crate) fn is_plain_null(&self) -> bool {
        let own = self.own();
        own.prop == SlotValue::Null && own.trail.is_empty()
    }

    /// Whether the outcome is known.
    pub(crate) fn is_decided(&self) -> bool {
        self.decided.is_heard()
    }

    /// Whether this replica takes part and the outcome is open.
    pub(crate) fn is_working(&self) -> bool {
        self.is_proposed() && !self.is_decided()
    }

    /// Whether anybody, this replica included, has started the slot.
    pub(crate) fn is_started(&self) -> bool {
        self.is_decided() || self.voices.iter().any(|voice| voice.prop.is_heard())
    }

    /// Members not heard on what the next own value is made of.
    pub(crate) fn silent(&self) -> MemberSet {
        match self.own().trail.len().checked_sub(1) {
            Some(before) => self.members_where(|voice| voice.trail.len() <= before),
            None => self.unheard(),
        }
    }

    /// Members whose proposal was not heard.
    pub(crate) fn unheard(&self) -> MemberSet {
        self.members_where(|voice| !voice.prop.is_heard())
    }

    /// Members that have proposed this value.
    pub(crate) fn supporters(&self, value: SlotValue) -> MemberSet {
        self.members_where(|voice| voice.prop == value)
    }

    fn members_where(&self, holds: impl Fn(&Voice) -> bool) -> MemberSet {
        let members = self.members();
        members
            .filter(|member| holds(&self.voices[*member]))
            .collect()
    }

    /// How many members have proposed a request, as far as heard.
    pub(crate) fn support(&self, id: EntryId) -> usize {
        let voices = self.voices.iter();
        voices.filter(|v| v.prop == SlotValue::Request(id)).count()
    }

    /// Whether the slot may still go to `id`, which somebody proposed in it.
    pub(crate) fn may_choose(&self, id: EntryId, thresholds: &Thresholds) -> bool {
        if self.is_decided() {
            return self.decided == SlotValue::Request(id);
        }
        let support = self.support(id);
        let unheard = self.unheard().len();
        support > 0 && support + unheard >= thresholds.proposal
    }

    /// Makes the own proposal.
    pub(crate) fn propose(&mut self, prop: Option<EntryId>) {
        assert!(!self.is_proposed(), "one proposal per slot (I1)");
        self.voices[self.me].prop = prop.into();
        self.fresh = true;
    }

    /// Appends an own value.
    pub(crate) fn append(&mut self, value: Value) {
        assert!(
            value != Value::One || self.q.is_some(),
            "who says 1 knows the request (I4)"
        );
        self.voices[self.me].trail.push(value);
        self.fresh = true;
    }

    /// Whether all own values are on disk: then both views are one.
    pub(crate) fn is_durable(&self) -> bool {
        self.prop_durable && self.trail_durable == self.own().trail.len()
    }

    /// The own values are on disk up to this many of the trail.
    pub(crate) fn harden(&mut self, trail_len: usize) {
        self.prop_durable = true;
        self.trail_durable = self.trail_durable.max(trail_len);
    }

    /// Takes up own values after a restart: what was written last says all that was ever said.
    pub(crate) fn restore(&mut self, prop: Option<EntryId>, trail: Trail, q: Option<EntryId>) {
        let own = &mut self.voices[self.me];
        assert!(
            (!own.prop.is_heard() || own.prop == prop.into()) && own.trail.is_prefix_of(&trail),
            "records of a slot extend each other (I1)"
        );
        own.prop = prop.into();
        own.trail = trail;
        self.q = self.q.or(q);
        self.harden(trail.len());
    }

    /// Adds what a peer says to what it said before. Two statements of one replica, in whatever
    /// order they come, extend one another; an error says how these do not.
    pub(crate) fn merge(
        &mut self,
        from: MemberIndex,
        message: &SlotMessage,
    ) -> Result<(), &'static str> {
        let voice = &self.voices[from];
        if voice.prop.is_heard() && voice.prop != message.prop.into() {
            return Err("two proposals in one slot");
        }
        let longer = voice.trail.is_prefix_of(&message.trail);
        if !longer && !message.trail.is_prefix_of(&voice.trail) {
            return Err("two values for one step");
        }
        if let (Some(mine), Some(theirs)) = (self.q, message.q)
            && mine != theirs
        {
            return Err("two requests with a majority in one slot");
        }
        let voice = &mut self.voices[from];
        voice.prop = message.prop.into();
        if longer {
            voice.trail = message.trail;
        }
        self.q = self.q.or(message.q);
        Ok(())
    }

    /// Algorithm 3, done as soon as it can be: the request with `T` proposals is the only one any
    /// replica can ever find (I2), and it travels with every later message.
    pub(crate) fn learn(&mut self, thresholds: &Thresholds) {
        if self.q.is_none() {
            let proposals = self.proposals(View::All);
            let has_it = proposals.best_count >= thresholds.proposal;
            self.q = proposals.best.filter(|_| has_it);
        }
    }

    /// The decision that follows from what was heard, by any rule at any step.
    pub(crate) fn decision(&self, config: &Config, view: View) -> Option<Verdict> {
        let t = &config.thresholds;
        if config.fast_rules {
            let proposals = self.proposals(view);
            if proposals.best_count >= t.fast_1 {
                return Some(Verdict {
                    value: proposals.best,
                    fast: true,
                    delays: 1,
                });
            }
            if proposals.seen - proposals.best_count >= t.fast_0 {
                return Some(Verdict {
                    value: None,
                    fast: true,
                    delays: 1,
                });
            }
        }
        (0..self.longest_trail()).find_map(|index| self.decision_at(index, config, view))
    }

    fn decision_at(&self, index: usize, config: &Config, view: View) -> Option<Verdict> {
        let tally = self.tally(index, view);
        let enough = match config.mode.step(index) {
            Step::Vote(_) => config.thresholds.decide,
            Step::State(_) if config.fast_rules => config.thresholds.fast_state,
            Step::State(_) => return None,
        };
        let fast = index <= config.mode.first_vote();
        let value = match (tally.ones >= enough, tally.zeros >= enough) {
            (true, _) => Some(self.q?),
            (false, true) => None,
            (false, false) => return None,
        };
        Some(Verdict {
            value,
            fast,
            delays: index as u32 + 2,
        })
    }

    /// The next own value. `expected` are the members that may speak at any moment.
    pub(crate) fn next_value(&self, config: &Config, slot: Slot, expected: MemberSet) -> Next {
        let trail = &self.own().trail;
        if trail.is_full() {
            return Next::Wait;
        }
        let index = trail.len();
        let next = match (index.checked_sub(1), config.mode.step(index)) {
            (None, step) => self.first_value(config, step, expected),
            (Some(before), Step::Vote(_)) => self.vote(&self.tally(before, View::All), config),
            (Some(before), Step::State(phase)) => {
                self.state(&self.tally(before, View::All), config, slot, phase - 1)
            }
        };
        let may_wait = config.grace_ns > 0 && self.grace != (index, Wait::Over);
        if may_wait && next.is_indecisive() && self.silent().intersects(expected) {
            return Next::Grace;
        }
        next
    }

    /// Algorithm 2, lines 3 to 7. A vote is decisive as soon as `T` requests or `M` NULLs are
    /// heard; only a value that says "nothing decisive" has to wait for `n - f`.
    fn first_value(&self, config: &Config, step: Step, expected: MemberSet) -> Next {
        let t = &config.thresholds;
        let awaited = (self.unheard() & expected).len();
        let proposals = self.proposals(View::All);
        let has_sample = proposals.seen >= t.wait;
        let unheard = t.n - proposals.seen;
        let fast_1_open = config.fast_rules && proposals.best_count + unheard >= t.fast_1;
        if fast_1_open && t.is_fast_1_always_reachable() && !has_sample {
            return Next::Wait;
        }
        let (next, may_hold) = if proposals.best_count >= t.proposal {
            let near = proposals.best_count + awaited >= t.fast_1;
            (Next::Take(Value::One), config.fast_rules && near)
        } else if matches!(step, Step::Vote(_)) && proposals.nulls >= t.state_majority {
            (Next::Take(Value::Zero), false)
        } else if has_sample {
            let value = match step {
                Step::Vote(_) => Value::Unsure,
                Step::State(_) => Value::Zero,
            };
            (Next::Settle(value, None), config.fast_rules && awaited > 0)
        } else {
            return Next::Wait;
        };
        if may_hold && config.vote_hold_ns > 0 && self.hold != Wait::Over {
            Next::Hold
        } else {
            next
        }
    }

    /// Algorithm 2, lines 13 to 17.
    fn vote(&self, states: &Tally, config: &Config) -> Next {
        let t = &config.thresholds;
        if states.ones >= t.state_majority {
            Next::Take(Value::One)
        } else if states.zeros >= t.state_majority {
            Next::Take(Value::Zero)
        } else if states.seen() >= t.wait {
            Next::Settle(Value::Unsure, None)
        } else {
            Next::Wait
        }
    }

    /// Algorithm 2, lines 20 to 26, where line 21 found no decision. After vote 0 of the
    /// two-step mode nobody may know a request, so that there the coin is always 0.
    fn state(&self, votes: &Tally, config: &Config, slot: Slot, phase: u32) -> Next {
        if votes.seen() < config.thresholds.wait {
            Next::Wait
        } else if votes.ones > 0 {
            Next::Settle(Value::One, Some("vote adopted"))
        } else if votes.zeros > 0 {
            Next::Settle(Value::Zero, Some("vote adopted"))
        } else if phase == 0 {
            Next::Settle(Value::Zero, Some("no vote at all"))
        } else if coin(config.seed, config.epoch, slot, phase) {
            Next::Settle(Value::One, Some("coin tossed"))
        } else {
            Next::Settle(Value::Zero, Some("coin tossed"))
        }
    }

    pub(super) fn longest_trail(&self) -> usize {
        self.voices.iter().map(|v| v.trail.len()).max().unwrap_or(0)
    }

    /// A member's proposal, as far as it counts.
    fn prop_of(&self, member: MemberIndex, view: View) -> SlotValue {
        match self.counts(member, view) {
            true => self.voices[member].prop,
            false => SlotValue::Unheard,
        }
    }

    /// One pass if all requests proposed are the same, as they mostly are.
    fn proposals(&self, view: View) -> Proposals {
        let mut all = Proposals {
            seen: 0,
            nulls: 0,
            best: None,
            best_count: 0,
        };
        let mut is_contested = false;
        for member in self.members() {
            match (self.prop_of(member, view), all.best) {
                (SlotValue::Unheard, _) => continue,
                (SlotValue::Null, _) => all.nulls += 1,
                (SlotValue::Request(id), Some(best)) if id != best => is_contested = true,
                (SlotValue::Request(id), _) => {
                    all.best = Some(id);
                    all.best_count += 1;
                }
            }
            all.seen += 1;
        }
        if is_contested {
            self.find_best(view, &mut all);
        }
        all
    }

    fn find_best(&self, view: View, all: &mut Proposals) {
        all.best_count = 0;
        for member in self.members() {
            let SlotValue::Request(id) = self.prop_of(member, view) else {
                continue;
            };
            let same = |other: &MemberIndex| self.prop_of(*other, view) == SlotValue::Request(id);
            let up_to = self.members().take(member.position() + 1);
            let count = up_to.filter(same).count();
            if count > all.best_count {
                (all.best, all.best_count) = (Some(id), count);
            }
        }
    }

    fn members(&self) -> impl Iterator<Item = MemberIndex> {
        MemberSet::first(self.voices.len()).iter()
    }

    fn counts(&self, member: MemberIndex, view: View) -> bool {
        member != self.me || view == View::All || self.prop_durable
    }

    pub(super) fn tally(&self, index: usize, view: View) -> Tally {
        let mut tally = Tally::default();
        for (member, voice) in self.members().zip(&self.voices) {
            if member == self.me && view == View::Durable && index >= self.trail_durable {
                continue;
            }
            match voice.trail.get(index) {
                None => {}
                Some(Value::Zero) => tally.zeros += 1,
                Some(Value::One) => tally.ones += 1,
                Some(Value::Unsure) => tally.unsure += 1,
            }
        }
        tally
    }
}
