//! What befalls replicas and messages in a run.

use super::cost::Cost;
use super::lab::Wiring;
use std::ops::Range;

/// One of them. Times are in ns since the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// A replica stops for good.
    Stop { node: usize, at_ns: u64 },
    /// A replica does nothing for a time, and then goes on where it was.
    Pause { node: usize, time: Range<u64> },
    /// All that a replica does takes it so many times as long.
    Slow {
        node: usize,
        time: Range<u64>,
        times: u64,
    },
    /// Every message takes as long as it takes at least, up to so many times that, evenly.
    Delays { time: Range<u64>, times: u64 },
}

impl Trouble {
    /// When it begins.
    pub(super) fn begins_ns(&self) -> u64 {
        match self {
            Trouble::Stop { at_ns, .. } => *at_ns,
            Trouble::Pause { time, .. }
            | Trouble::Slow { time, .. }
            | Trouble::Delays { time, .. } => time.start,
        }
    }
}

/// What things cost a replica at a time.
pub(super) fn cost(troubles: &[Trouble], (node, now_ns): (usize, u64), usual: Cost) -> Cost {
    let times = troubles.iter().filter_map(|trouble| match trouble {
        Trouble::Slow {
            node: slow,
            time,
            times,
        } if *slow == node && time.contains(&now_ns) => Some(*times),
        _ => None,
    });
    usual.times(times.product())
}

/// How long messages are on their way that leave at a time.
pub(super) fn wiring(troubles: &[Trouble], now_ns: u64, usual: Wiring) -> Wiring {
    let times = troubles.iter().find_map(|trouble| match trouble {
        Trouble::Delays { time, times } if time.contains(&now_ns) => Some(*times),
        _ => None,
    });
    let varied = |times: u64| Wiring {
        range_ns: usual.least_ns * (times - 1),
        ..usual
    };
    times.map_or(usual, varied)
}
