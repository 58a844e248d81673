//! A delay that is as short as a share of late arrivals allows.

/// The bounds of a delay, and what it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayBounds {
    /// The shortest delay, in ns.
    pub least_ns: u64,
    /// The longest delay, in ns.
    pub most_ns: u64,
    /// How many of a million arrivals may be late.
    pub late_per_million: u32,
    /// How much longer the delay is after a late arrival, in ns.
    pub step_ns: u32,
}

/// Chooses a delay: each late arrival makes it longer, each other one a little shorter, so that both are in balance
/// where the wanted share is late.
#[derive(Clone, Debug)]
pub struct DelayControl {
    bounds: DelayBounds,
    /// The delay in millionths of a ns.
    delay: u128,
}

/// The parts that a ns has here.
const PARTS: u128 = 1_000_000;

impl DelayControl {
    /// Begins with a delay, if it is within the bounds.
    #[must_use]
    pub fn new(delay_ns: u64, bounds: DelayBounds) -> DelayControl {
        let mut control = DelayControl {
            bounds,
            delay: u128::from(delay_ns) * PARTS,
        };
        control.keep_within_bounds();
        control
    }

    /// Counts an arrival, and returns the delay from now on, in ns.
    pub fn handle_arrival(&mut self, is_late: bool) -> u64 {
        let late = PARTS.min(u128::from(self.bounds.late_per_million));
        let step = u128::from(self.bounds.step_ns);
        self.delay = match is_late {
            true => self.delay + step * (PARTS - late),
            false => self.delay.saturating_sub(step * late),
        };
        self.keep_within_bounds();
        self.delay_ns()
    }

    /// The delay, in ns.
    #[must_use]
    pub fn delay_ns(&self) -> u64 {
        u64::try_from(self.delay / PARTS).unwrap_or(u64::MAX)
    }

    fn keep_within_bounds(&mut self) {
        let least = u128::from(self.bounds.least_ns) * PARTS;
        let most = u128::from(self.bounds.most_ns) * PARTS;
        self.delay = self.delay.min(most).max(least);
    }
}
