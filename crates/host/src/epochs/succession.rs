//! One replica's way from epoch to epoch.
//!
//! A state machine without clock, network or disk: [`Succession::step`] takes what happened, and says
//! what the host is to do. It holds to three rules:
//!
//! - A replica *stops* the machine of a sealed epoch only when the state through the seal is durable.
//!   If it forgot its promises earlier and then lost the seal, it would vote a second time.
//! - It *starts* the machine of an epoch only as a member in this very life, and when the state before
//!   the epoch is durable. So an epoch decides its first slot only when it no longer needs the one
//!   before.
//! - It *leaves*, and deletes its data, only when an epoch that does not list it is open, and settled.
//!
//! Nobody is in charge: every replica that has applied a seal goes on by itself, and what one knows it
//! tells whoever may not.

mod notes;
mod rules;
mod values;

pub use values::{Input, Output, Standing};

use super::change::{Expect, Order};
use super::note::{ANY_EPOCH, Known, Record};
use quorate_core::{Epoch, MILLIS, Member, SECONDS, Slot};
use rules::Rules;
use std::collections::{BTreeMap, BTreeSet};

/// How long after the first telling comes the second; each further one takes twice as long.
const RESEND_MIN_NS: u64 = 100 * MILLIS;
/// The longest time between two tellings.
const RESEND_MAX_NS: u64 = 5 * SECONDS;
/// How often an open epoch is told to those who do not answer. Afterwards they have to ask.
const TELLS_MAX: u32 = 16;

/// How far a replica is with leaving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaving {
    Stays,
    /// The record is not durable yet.
    Writes,
    Left,
}

/// What a replica does about epochs, and knows of them beyond its state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Succession {
    me: Member,
    rules: Rules,
    /// The newest epoch of the state, as far as it was acted upon.
    seen: u64,
    /// The epoch whose machine runs.
    running: Option<u64>,
    /// The newest epoch it may have spoken in, 0 if none.
    started: u64,
    /// The epoch whose start waits for its record.
    starting: Option<u64>,
    /// Members of the newest epoch known to hold the state before it.
    holders: BTreeSet<Member>,
    /// The newest epoch known to be open.
    opened: u64,
    /// An epoch that others told of, at least as new as the newest here, and what they know of it.
    told: Option<(Epoch, Known)>,
    /// What others know of the newest epoch, by their own words.
    knowing: BTreeMap<Member, Known>,
    leaving: Leaving,
    resend_ns: u64,
    is_armed: bool,
    tells: u32,
}

impl Succession {
    /// A replica after a start: `records` are its own records that are durable, `at` what its disk
    /// gave. Its first outputs say whether a machine runs. Records of machines of epochs before the
    /// newest are of no use any more.
    #[must_use]
    pub fn recover(
        me: Member,
        records: &[Record],
        at: &Standing<'_>,
        out: &mut Vec<Output>,
    ) -> Succession {
        let started = records.iter().filter_map(|record| match record {
            Record::Started { epoch } if *epoch != ANY_EPOCH => Some(*epoch),
            _ => None,
        });
        let has_left = records.iter().any(|r| matches!(r, Record::Retired { .. }));
        let newest = at.state.chain.newest();
        let mut succession = Succession {
            me,
            rules: Rules::default(),
            seen: newest.number,
            running: None,
            started: started.max().unwrap_or(0),
            starting: None,
            holders: BTreeSet::new(),
            opened: 0,
            told: None,
            knowing: BTreeMap::new(),
            leaving: Leaving::Stays,
            resend_ns: RESEND_MIN_NS,
            is_armed: false,
            tells: 0,
        };
        if has_left {
            succession.leaving = Leaving::Left;
            out.push(Output::Leave);
            return succession;
        }
        if succession.started == newest.number && newest.has(me) {
            succession.run(at, true, out);
        }
        succession.advance(at, out);
        succession
    }

    /// Takes a step.
    pub fn step(&mut self, at: &Standing<'_>, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Progress => {}
            Input::Durable(record) => self.written(at, record, out),
            Input::Heard { from, note } => self.hear(at, from, note, out),
            Input::Late { from } => self.tell(at, from, out),
            Input::Timer => {
                self.is_armed = false;
                self.resend(at, out);
            }
        }
        if self.leaving != Leaving::Left {
            self.advance(at, out);
        }
    }

    /// The epoch whose machine runs here. Messages of any other are [`Input::Late`], or too early.
    #[must_use]
    pub fn running(&self) -> Option<u64> {
        self.running
    }

    /// Whether the newest epoch is known to be open.
    #[must_use]
    pub fn is_open(&self, at: &Standing<'_>) -> bool {
        self.opened >= at.state.chain.newest().number
    }

    /// Whether this replica has left for good.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.leaving == Leaving::Left
    }

    /// Does whatever has become possible.
    fn advance(&mut self, at: &Standing<'_>, out: &mut Vec<Output>) {
        self.see_seal(at, out);
        self.see_opened(at);
        self.stop_if_durable(at, out);
        self.start_if_ready(at, out);
        self.leave_if_done(at, out);
        self.arm_if_needed(at, out);
    }

    fn see_seal(&mut self, at: &Standing<'_>, out: &mut Vec<Output>) {
        let newest = at.state.chain.newest();
        if newest.number <= self.seen {
            return;
        }
        let before = std::mem::replace(&mut self.seen, newest.number);
        self.holders.clear();
        self.knowing.clear();
        self.resend_ns = RESEND_MIN_NS;
        self.tells = 0;
        self.told.take_if(|(told, _)| told.number < newest.number);
        // Of a machine that waits for its seal to become durable it was said before.
        if let Some(epoch) = self.running.filter(|epoch| *epoch == before) {
            let slot = at.state.chain.seal_of(epoch);
            out.push(Output::Seal { epoch, slot });
        }
    }

    /// An applied slot of an epoch shows that it is open: its voters hold. The first epoch follows
    /// none.
    fn see_opened(&mut self, at: &Standing<'_>) {
        let newest = at.state.chain.newest();
        let needed = at.failures + self.rules.holders_beyond_failures;
        let is_told = self
            .told
            .as_ref()
            .is_some_and(|(told, known)| told.number == newest.number && known.opened);
        let is_open = newest.number == 1
            || at.applied > newest.first_slot
            || self.holders.len() >= needed
            || is_told;
        if is_open {
            self.opened = self.opened.max(newest.number);
        }
    }

    fn stop_if_durable(&mut self, at: &Standing<'_>, out: &mut Vec<Output>) {
        let newest = at.state.chain.newest();
        let Some(epoch) = self.running.filter(|epoch| *epoch < newest.number) else {
            return;
        };
        let seal = at.state.chain.seal_of(epoch);
        let behind = seal.map_or(newest.first_slot, Slot::next);
        if at.durable >= behind || !self.rules.stops_when_durable {
            self.running = None;
            out.push(Output::Stop { epoch });
        }
    }

    fn start_if_ready(&mut self, at: &Standing<'_>, out: &mut Vec<Output>) {
        let newest = self.to_start(at);
        let epoch = newest.number;
        let is_under_way = self.starting == Some(epoch) || self.running.is_some();
        let leaves = self.leaving != Leaving::Stays;
        if newest.has(self.me) && !is_under_way && !leaves && self.holds(at, newest) {
            self.starting = Some(epoch);
            out.push(Output::Persist(Record::Started { epoch }));
        }
    }

    fn to_start<'a>(&'a self, at: &Standing<'a>) -> &'a Epoch {
        match &self.told {
            Some((told, _)) if !self.rules.starts_with_state => told,
            _ => at.state.chain.newest(),
        }
    }

    /// Whether this replica has the state before an epoch, and will not lose it in a crash.
    fn holds(&self, at: &Standing<'_>, epoch: &Epoch) -> bool {
        let reached = match self.rules.holds_when_durable {
            true => at.durable,
            false => at.applied,
        };
        reached >= epoch.first_slot || !self.rules.starts_with_state
    }

    fn written(&mut self, at: &Standing<'_>, record: Record, out: &mut Vec<Output>) {
        match record {
            Record::Started { epoch } => {
                self.started = self.started.max(epoch);
                let is_asked = self.starting.take_if(|starting| *starting == epoch);
                // A newer epoch may have begun meanwhile: then nothing was ever said in this one.
                if is_asked.is_some() && epoch == self.to_start(at).number {
                    self.run(at, false, out);
                }
            }
            Record::Retired { .. } => {
                self.leaving = Leaving::Left;
                if let Some(epoch) = self.running.take() {
                    out.push(Output::Stop { epoch });
                }
                out.push(Output::Leave);
            }
        }
    }

    fn run(&mut self, at: &Standing<'_>, again: bool, out: &mut Vec<Output>) {
        let epoch = self.to_start(at).number;
        self.running = Some(epoch);
        self.holders.insert(self.me);
        out.push(Output::Start { epoch, again });
        self.see_opened(at);
        let is_first = epoch == 1;
        if !is_first && at.applied == at.state.chain.newest().first_slot {
            out.push(Output::Propose(Order::Opened { epoch }));
        }
        self.resend(at, out);
    }

    fn leave_if_done(&mut self, at: &Standing<'_>, out: &mut Vec<Output>) {
        if self.leaving != Leaving::Stays || !self.was_member(at) {
            return;
        }
        if let Some(successor) = self.successor(at) {
            self.leaving = Leaving::Writes;
            out.push(Output::Persist(Record::Retired { successor }));
        }
    }

    /// Whether it has anything that others may still need: a learner has not.
    fn was_member(&self, at: &Standing<'_>) -> bool {
        self.started > 0 || at.state.chain.lists(self.me)
    }

    /// An epoch that goes on without this replica, and no longer needs it. One from before its part in a
    /// later one is none: a replica whose log was damaged applies again what made it a member.
    fn successor(&self, at: &Standing<'_>) -> Option<Expect> {
        let newest = at.state.chain.newest();
        let told = self.told.as_ref().map(|(epoch, known)| (epoch, *known));
        let own = (newest, self.known(at));
        let is_released = |(epoch, known): &(&Epoch, Known)| {
            let is_open = known.opened || !self.rules.leaves_when_opened;
            let is_later = epoch.number > self.started;
            !epoch.has(self.me) && is_later && is_open && known.settled
        };
        let released = [Some(own), told].into_iter().flatten();
        released
            .filter(is_released)
            .map(|(epoch, _)| Expect::of(epoch))
            .next_back()
    }

    /// What this replica knows of the newest epoch of its state.
    fn known(&self, at: &Standing<'_>) -> Known {
        let newest = at.state.chain.newest();
        let told = self.told.as_ref();
        let told = told.filter(|(told, _)| told.number == newest.number);
        Known {
            opened: self.opened >= newest.number,
            settled: at.state.unsettled.is_none() || told.is_some_and(|(_, known)| known.settled),
        }
    }

    fn arm_if_needed(&mut self, at: &Standing<'_>, out: &mut Vec<Output>) {
        if !self.is_armed && self.has_to_speak(at) {
            self.is_armed = true;
            out.push(Output::Arm {
                after_ns: self.resend_ns,
            });
            self.resend_ns = (2 * self.resend_ns).min(RESEND_MAX_NS);
        }
    }
}

#[cfg(test)]
impl Succession {
    /// The same with a rule broken.
    pub(super) fn sabotaged(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }
}

#[cfg(test)]
pub(super) use rules::Rules as TestRules;
