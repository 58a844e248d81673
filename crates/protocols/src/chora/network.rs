//! The paper's network model (sections 4.1 and 4.2), as far as one replica sees it: for people, nothing
//! depends on it.
//!
//! A machine has no clock within a step: what a message costs to process is given (`message_ns`). All else
//! is counted, and timed from step to step.

use quorate_core::MILLIS;

/// What is measured is measured over so long, in ns.
const WINDOW_NS: u64 = 50 * MILLIS;
/// Rounds in it, at least.
const ROUNDS_MIN: u64 = 16;
/// Of a window so much is spent in rounds: else it says more about what there was to do.
const PULSING_MIN: f64 = 0.9;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Time in pulsing mode, in ns.
    pub(super) pulsing_ns: u64,
    /// Rounds, and those that ended early.
    pub(super) rounds: u64,
    pub(super) early: u64,
    /// Slots committed in them.
    pub(super) slots: u64,
    /// Messages processed in them.
    pub(super) messages: u64,
    /// In either mode: repairs, entries committed, and pulses said to everybody, here or elsewhere. What
    /// was said to this replica alone is counted with what others said, for it looks the same.
    pub(super) repairs: u64,
    pub(super) entries: u64,
    pub(super) multicasts: u64,
}

/// What a window of pulses came to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Measure {
    /// How long its rounds were in the mean, in ns.
    pub(super) round_ns: f64,
    /// Of the rounds, those that ended early.
    pub(super) early: f64,
    /// `alpha`: of the time of rounds, what its messages cost to process.
    pub(super) efficiency: f64,
    /// `beta`: of the slots dealt in its rounds, those committed.
    pub(super) effectiveness: f64,
}

/// What was seen of the network.
#[derive(Clone, Debug)]
pub(super) struct Network {
    message_ns: u64,
    is_pulsing: bool,
    /// When the present mode began, and when the last step was, in ns.
    mode_since_ns: u64,
    now_ns: u64,
    pub(super) counts: Counts,
    /// When the window began, and the counts then.
    since: (u64, Counts),
    /// Of the last window of pulses.
    pub(super) pulses: Option<Measure>,
    /// `kappa`: the greatest `alpha * beta` of any window in this view.
    pub(super) kappa: Option<f64>,
    /// Of the last window in which anything was committed.
    pub(super) multicasts_per_commit: Option<f64>,
}

impl Network {
    pub(super) fn new(message_ns: u64) -> Network {
        Network {
            message_ns,
            is_pulsing: false,
            mode_since_ns: 0,
            now_ns: 0,
            counts: Counts::default(),
            since: (0, Counts::default()),
            pulses: None,
            kappa: None,
            multicasts_per_commit: None,
        }
    }

    /// The replica starts.
    pub(super) fn begin(&mut self, now_ns: u64) {
        (self.now_ns, self.mode_since_ns, self.since.0) = (now_ns, now_ns, now_ns);
    }

    /// A step begins, in a view of so many proposers.
    pub(super) fn tick(&mut self, now_ns: u64, proposers: usize) {
        if self.is_pulsing {
            self.counts.pulsing_ns += now_ns.saturating_sub(self.now_ns);
        }
        self.now_ns = now_ns;
        let (since_ns, before) = self.since;
        let ns = now_ns.saturating_sub(since_ns);
        if ns >= WINDOW_NS {
            self.since = (now_ns, self.counts);
            self.measure(ns, self.counts.since(&before), proposers);
        }
    }

    fn measure(&mut self, ns: u64, seen: Counts, proposers: usize) {
        if seen.entries > 0 {
            self.multicasts_per_commit = Some(seen.multicasts as f64 / seen.entries as f64);
        }
        let is_full = seen.pulsing_ns as f64 >= PULSING_MIN * ns as f64;
        if !is_full || seen.rounds < ROUNDS_MIN || proposers == 0 {
            return;
        }
        let (rounds, pulsing_ns) = (seen.rounds as f64, seen.pulsing_ns as f64);
        let measure = Measure {
            round_ns: pulsing_ns / rounds,
            early: seen.early as f64 / rounds,
            efficiency: (seen.messages * self.message_ns) as f64 / pulsing_ns,
            effectiveness: seen.slots as f64 / (rounds * proposers as f64),
        };
        let product = measure.efficiency * measure.effectiveness;
        self.pulses = Some(measure);
        self.kappa = Some(self.kappa.map_or(product, |kappa| kappa.max(product)));
    }

    /// A view begins: other proposers, other rounds.
    pub(super) fn enter_view(&mut self) {
        (self.since, self.kappa) = ((self.now_ns, self.counts), None);
    }

    /// Pulses have begun or ended.
    pub(super) fn switched(&mut self, is_pulsing: bool) {
        (self.is_pulsing, self.mode_since_ns) = (is_pulsing, self.now_ns);
    }

    /// A message of a member is processed.
    pub(super) fn note_message(&mut self) {
        self.counts.messages += u64::from(self.is_pulsing);
    }

    /// A slot was committed.
    pub(super) fn note_committed(&mut self, is_entry: bool) {
        self.counts.slots += u64::from(self.is_pulsing);
        self.counts.entries += u64::from(is_entry);
    }

    /// What a message costs to process, as given, in ns.
    pub(super) fn message_ns(&self) -> u64 {
        self.message_ns
    }

    /// How long the present mode has lasted at the last step, in ns.
    pub(super) fn mode_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.mode_since_ns)
    }

    /// `S^x`, where one message in so many is later than its mean by `tail_ns`: equation 5 with the sign of
    /// that tail as in equation 4. What a message costs is taken to be the same for all.
    pub(super) fn synchrony(&self, tail_ns: u64) -> f64 {
        self.message_ns as f64 / (tail_ns + self.message_ns) as f64
    }
}

impl Counts {
    fn since(&self, before: &Counts) -> Counts {
        Counts {
            pulsing_ns: self.pulsing_ns - before.pulsing_ns,
            rounds: self.rounds - before.rounds,
            early: self.early - before.early,
            slots: self.slots - before.slots,
            messages: self.messages - before.messages,
            repairs: self.repairs - before.repairs,
            entries: self.entries - before.entries,
            multicasts: self.multicasts - before.multicasts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of three proposers, of `round_ns` each, that commit `slots` slots and see two messages.
    fn pulse(network: &mut Network, rounds: u64, round_ns: u64, slots: u64) {
        for _ in 0..rounds {
            network.tick(network.now_ns + round_ns, 3);
            network.counts.rounds += 1;
            network.counts.multicasts += 3;
            (0..2).for_each(|_| network.note_message());
            (0..slots).for_each(|_| network.note_committed(true));
        }
    }

    #[test]
    fn kappa_is_the_best_product_of_a_view() {
        let mut network = Network::new(10_000);
        network.switched(true);
        pulse(&mut network, 600, 100_000, 3);
        let measure = network.pulses.unwrap();
        assert!((measure.efficiency - 0.2).abs() < 0.01, "{measure:?}");
        assert!((measure.effectiveness - 1.0).abs() < 0.01, "{measure:?}");
        assert!((measure.round_ns - 1e5).abs() < 500.0, "{measure:?}");
        assert!((network.multicasts_per_commit.unwrap() - 1.0).abs() < 0.01);
        let long = network.kappa.unwrap();
        // Half as long, and a third is lost.
        pulse(&mut network, 3_000, 50_000, 2);
        let short = network.kappa.unwrap();
        assert!(
            (long - 0.2).abs() < 0.01 && (short - 0.267).abs() < 0.01,
            "{long} {short}"
        );
        pulse(&mut network, 600, 100_000, 3);
        assert_eq!(network.kappa, Some(short));
        network.enter_view();
        assert_eq!((network.kappa, network.mode_ns()), (None, 270_000_000));
    }

    #[test]
    fn time_without_rounds_measures_none() {
        let mut network = Network::new(1_000);
        pulse(&mut network, 600, 100_000, 3);
        assert_eq!((network.pulses, network.counts.slots), (None, 0));
        assert!(network.multicasts_per_commit.is_some());
    }

    /// The paper's figures, with a tail of 1.2 us and 0.2 us a message.
    #[test]
    fn a_longer_tail_is_less_synchrony() {
        let network = Network::new(200);
        assert_eq!(network.synchrony(0), 1.0);
        assert!((network.synchrony(1_200) - 0.143).abs() < 0.001);
    }
}
