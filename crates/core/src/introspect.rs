//! What people and checkers look at in a machine. No host depends on it.

use crate::ids::ReplicaId;
use std::hash::Hasher;

/// A machine as people and checkers see it: nothing here changes what it does.
pub trait Introspect {
    /// Feeds everything the machine can act on to `to`, times and log positions relative, without statistics.
    /// Two machines with equal fingerprints answer every input alike.
    fn fingerprint(&self, to: &mut impl Hasher);

    /// Says why nothing happens: what is undecided here, what was heard of it, and what it still lacks.
    fn explain(&self) -> String {
        String::new()
    }

    /// Metrics of the machine by name; one that only grows ends in `_total`.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Metrics of the machine's peers, one by one, by name.
    fn peer_figures(&self) -> Vec<(ReplicaId, &'static str, f64)> {
        Vec::new()
    }

    /// Asserts the paper's lemmas over this replica's state; tests call it after every step.
    fn check(&self) {}

    /// Whether this replica leads at present; `None` for a protocol without a leader.
    fn leads(&self) -> Option<bool> {
        None
    }

    /// Whether it makes room for another leader at present ([`crate::Input::Prefer`]); `None` for a protocol in
    /// which no leader does.
    fn hands_over(&self) -> Option<bool> {
        None
    }

    /// How many steps of its own the furthest undecided slot has taken (values, ballots, views): the model
    /// checker searches up to a given depth.
    fn depth(&self) -> usize {
        0
    }
}

/// Passes on what a machine is asked to the machine inside it: methods of an `impl Machine` or an
/// `impl Introspect`. A line names the inner type, and by patterns the inner configuration and machine; an enum
/// of machines has a line for each variant.
///
/// What a wrapper must do itself (`recover`, `step`, the encodings, `rests_on`, `fingerprint`) is not passed on.
#[macro_export]
macro_rules! delegate {
    (Machine: $($inner:ty, $config:pat => $inner_config:expr, $machine:pat => $inner_machine:expr);+ $(;)?) => {
        fn room(&self) -> usize {
            match self { $($machine => $inner_machine.room()),+ }
        }

        fn is_serving(&self) -> bool {
            match self { $($machine => $inner_machine.is_serving()),+ }
        }

        fn reach(config: &Self::Config) -> Option<u64> {
            match config { $($config => <$inner as $crate::Machine>::reach($inner_config)),+ }
        }

        fn payloads(config: &Self::Config) -> Option<$crate::PayloadRule> {
            match config { $($config => <$inner as $crate::Machine>::payloads($inner_config)),+ }
        }
    };
    (Introspect: $($machine:pat => $inner_machine:expr);+ $(;)?) => {
        fn explain(&self) -> String {
            match self { $($machine => $inner_machine.explain()),+ }
        }

        fn figures(&self) -> Vec<(&'static str, f64)> {
            match self { $($machine => $inner_machine.figures()),+ }
        }

        fn peer_figures(&self) -> Vec<($crate::ReplicaId, &'static str, f64)> {
            match self { $($machine => $inner_machine.peer_figures()),+ }
        }

        fn leads(&self) -> Option<bool> {
            match self { $($machine => $inner_machine.leads()),+ }
        }

        fn hands_over(&self) -> Option<bool> {
            match self { $($machine => $inner_machine.hands_over()),+ }
        }

        fn check(&self) {
            match self { $($machine => $inner_machine.check()),+ }
        }

        fn depth(&self) -> usize {
            match self { $($machine => $inner_machine.depth()),+ }
        }
    };
}
