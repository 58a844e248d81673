//! The mode, and the length of a round: decided by each replica for itself, from
//! what it sees. Nothing but speed depends on it.

use std::ops::RangeInclusive;

/// What was seen in one window of time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Window {
    /// How long it was.
    pub(super) ns: u64,
    /// Commands proposed by the proposer that proposed least.
    pub(super) least_offered: u64,
    /// Slots committed in it.
    pub(super) committed: u64,
    /// Rounds begun in it.
    pub(super) rounds: u64,
    /// Repairs in it.
    pub(super) repairs: u64,
    /// Whether other members pulse.
    pub(super) is_mixed: bool,
}

impl Window {
    /// Slots committed, of those dealt in its rounds (`beta`).
    pub(super) fn effectiveness(&self, proposers: u64) -> f64 {
        self.committed as f64 / (self.rounds.max(1) * proposers.max(1)) as f64
    }
}

/// What the modes depend on besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Setting {
    /// `T`, in ns.
    pub(super) round_ns: u64,
    /// `T0`: what the network asks for now.
    pub(super) needed_ns: u64,
    /// `T_max`: the longest round, ns.
    pub(super) round_max_ns: u64,
    /// How many members propose.
    pub(super) proposers: u64,
}

/// Windows that must speak for pulses before there are any.
const WINDOWS_FOR: u32 = 5;
/// Windows that must speak against them.
const WINDOWS_AGAINST: u32 = 2;
/// Windows that a mode lasts at least.
const DWELL: u32 = 10;
/// Commands of each proposer in a round from which on pulses are worth it, and below which they are not
/// any more.
const OFFERED_FOR: f64 = 0.5;
const OFFERED_AGAINST: f64 = 0.25;
/// Slots committed, of those dealt in the rounds of a window, below which pulses are not worth it.
const EFFECTIVENESS_MIN: f64 = 0.6;
/// The effectiveness expected of pulses.
const EFFECTIVENESS_EXPECTED: f64 = 0.9;
/// Repairs, of rounds, above which pulses are lost too often.
const REPAIRS_MAX: f64 = 0.05;
/// What is left of the capacity after a window: a burst after a pause is none.
const FORGOTTEN: f64 = 0.8;
/// How much more pulses must promise than was measured without.
const GAIN_MIN: f64 = 1.1;

/// The switching policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Policy {
    /// Slots per second seen in responsive mode, at most; forgotten slowly.
    capacity: f64,
    /// Windows in a row that speak for the other mode.
    in_favour: u32,
    /// Windows since the last switch.
    dwelt: u32,
}

impl Policy {
    /// Takes a window into account; says whether to go to the other mode.
    pub(super) fn judge(&mut self, is_pulsing: bool, window: Window, setting: Setting) -> bool {
        self.dwelt = self.dwelt.saturating_add(1);
        let (speaks, needed) = match is_pulsing {
            true => (speaks_against(window, setting), WINDOWS_AGAINST),
            false => (self.speaks_for(window, setting), WINDOWS_FOR),
        };
        self.in_favour = if speaks { self.in_favour + 1 } else { 0 };
        let is_time = self.in_favour >= needed && self.dwelt >= DWELL;
        if is_time {
            self.switched();
        }
        is_time
    }

    /// The mode has changed.
    pub(super) fn switched(&mut self) {
        (self.in_favour, self.dwelt) = (0, 0);
    }

    /// Every proposer would have something to say in half of its rounds, and these would commit more than is
    /// committed now.
    fn speaks_for(&mut self, window: Window, setting: Setting) -> bool {
        let seconds = window.ns as f64 / 1e9;
        let measured = window.committed as f64 / seconds.max(1e-9);
        if !window.is_mixed {
            // What is committed beside others' pulses is not what the group does without.
            self.capacity = measured.max(self.capacity * FORGOTTEN);
        }
        let promised = setting.proposers as f64 * 1e9 / setting.round_ns as f64;
        offered(window, setting) >= OFFERED_FOR
            && setting.needed_ns <= setting.round_max_ns
            && (window.is_mixed || promised * EFFECTIVENESS_EXPECTED > GAIN_MIN * self.capacity)
    }
}

/// Commands per round, of the proposer that proposed least.
fn offered(window: Window, setting: Setting) -> f64 {
    let rounds = window.ns as f64 / setting.round_ns as f64;
    window.least_offered as f64 / rounds
}

fn speaks_against(window: Window, setting: Setting) -> bool {
    let rounds = window.rounds.max(1) as f64;
    window.effectiveness(setting.proposers) < EFFECTIVENESS_MIN
        || offered(window, setting) < OFFERED_AGAINST
        || window.repairs as f64 > REPAIRS_MAX * rounds
        || setting.needed_ns > setting.round_max_ns
}

/// How long a length of rounds is tried, in ns.
const TRIAL_NS: u64 = 50_000_000;
/// What a trial changes of it.
const STEP: f64 = 0.05;
/// How much more must be committed for a trial to be kept.
const KEPT_FROM: f64 = 1.01;

/// The round-timeout tuner: climbs as long as more is committed.
#[derive(Clone, Debug)]
pub(super) struct Tuner {
    range_ns: RangeInclusive<u64>,
    kept_ns: u64,
    trial_ns: u64,
    is_longer: bool,
    best: f64,
    elapsed_ns: u64,
    committed: u64,
}

impl Tuner {
    pub(super) fn new(first_ns: u64, range_ns: RangeInclusive<u64>) -> Tuner {
        let first_ns = first_ns.clamp(*range_ns.start(), *range_ns.end());
        Tuner {
            range_ns,
            kept_ns: first_ns,
            trial_ns: first_ns,
            is_longer: false,
            best: 0.0,
            elapsed_ns: 0,
            committed: 0,
        }
    }

    /// The length to use.
    pub(super) fn length_ns(&self) -> u64 {
        self.trial_ns
    }

    /// Takes a window of pulses into account.
    pub(super) fn note(&mut self, window: Window) {
        self.elapsed_ns += window.ns;
        self.committed += window.committed;
        if self.elapsed_ns < TRIAL_NS {
            return;
        }
        let rate = self.committed as f64 / self.elapsed_ns as f64;
        (self.elapsed_ns, self.committed) = (0, 0);
        if rate > self.best * KEPT_FROM {
            (self.best, self.kept_ns) = (rate, self.trial_ns);
        } else {
            // Worse or the same: back, and the other way. What was best then is forgotten slowly.
            self.is_longer = !self.is_longer;
            self.best *= 1.0 - STEP / 2.0;
        }
        let factor = if self.is_longer {
            1.0 + STEP
        } else {
            1.0 - STEP
        };
        let (least, most) = (*self.range_ns.start(), *self.range_ns.end());
        self.trial_ns = ((self.kept_ns as f64 * factor) as u64).clamp(least, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: Setting = Setting {
        round_ns: 100_000,
        needed_ns: 100_000,
        round_max_ns: 2_000_000,
        proposers: 3,
    };
    const BUSY: Window = Window {
        ns: 10_000_000,
        least_offered: 80,
        committed: 200,
        rounds: 100,
        repairs: 0,
        is_mixed: false,
    };

    fn windows_until_switch(policy: &mut Policy, is_pulsing: bool, window: Window) -> Option<u32> {
        (1..100).find(|_| policy.judge(is_pulsing, window, SETTING))
    }

    #[test]
    fn load_everywhere_brings_pulses_and_its_end_takes_them_away() {
        let mut policy = Policy::default();
        assert_eq!(windows_until_switch(&mut policy, false, BUSY), Some(DWELL));
        let empty = Window {
            committed: 100,
            ..BUSY
        };
        assert_eq!(windows_until_switch(&mut policy, true, empty), Some(DWELL));
    }

    #[test]
    fn a_proposer_with_little_to_say_keeps_the_group_responsive() {
        let idle = Window {
            least_offered: 40,
            ..BUSY
        };
        assert_eq!(
            windows_until_switch(&mut Policy::default(), false, idle),
            None
        );
    }

    /// What brings pulses is more than what keeps them: a load in between changes nothing.
    #[test]
    fn pulses_last_while_half_of_what_brought_them_is_offered() {
        let some = |least_offered| Window {
            least_offered,
            committed: 290,
            ..BUSY
        };
        let switch = |window| windows_until_switch(&mut Policy::default(), true, window);
        assert_eq!((switch(some(26)), switch(some(24))), (None, Some(DWELL)));
    }

    #[test]
    fn a_network_that_asks_for_rounds_too_long_ends_pulses_and_brings_none() {
        let slow = Setting {
            needed_ns: 2_000_001,
            ..SETTING
        };
        let full = Window {
            committed: 300,
            ..BUSY
        };
        let mut policy = Policy::default();
        assert!(!(0..100).any(|_| policy.judge(false, BUSY, slow)));
        assert!(!(0..100).any(|_| policy.judge(true, full, SETTING)));
        assert!((0..3).any(|_| policy.judge(true, full, slow)));
    }

    #[test]
    fn what_is_fast_enough_without_pulses_stays_without() {
        let fast = Window {
            committed: 270,
            ..BUSY
        };
        assert_eq!(
            windows_until_switch(&mut Policy::default(), false, fast),
            None
        );
    }

    /// Others' pulses commit what looks like more than they promise.
    #[test]
    fn whoever_is_left_responsive_among_pulses_joins_them() {
        let mixed = Window {
            committed: 290,
            is_mixed: true,
            ..BUSY
        };
        let mut policy = Policy::default();
        assert_eq!(windows_until_switch(&mut policy, false, mixed), Some(DWELL));
    }

    #[test]
    fn losses_end_pulses_that_are_full() {
        let lossy = Window {
            committed: 300,
            repairs: 6,
            ..BUSY
        };
        let full = Window {
            repairs: 5,
            ..lossy
        };
        let switch = |window| windows_until_switch(&mut Policy::default(), true, window);
        assert_eq!((switch(lossy), switch(full)), (Some(DWELL), None));
    }

    /// Ten thousand slots a second at 60 us, fewer the further away.
    #[test]
    fn the_tuner_climbs_to_where_most_is_committed() {
        let mut tuner = Tuner::new(150_000, 20_000..=2_000_000);
        for _ in 0..200 {
            let off = (tuner.length_ns() as f64 - 60_000.0).abs() / 60_000.0;
            let committed = 500.0 / (1.0 + off);
            tuner.note(Window {
                ns: TRIAL_NS,
                committed: committed as u64,
                ..Window::default()
            });
        }
        assert!((50_000..72_000).contains(&tuner.length_ns()), "{tuner:?}");
    }
}
