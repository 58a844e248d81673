//! Redis servers beside the replicas of a cluster, with their drivers and clients.

use quorate_host::Token;
use quorate_redis_effects::Mutant;
use quorate_redis_sim::{Asker, Beside, Options};
use std::collections::BTreeSet;

/// Tokens from here on are drivers', up to those of chores.
const DRIVERS: Token = 1 << 61;

/// Servers, their drivers and clients.
pub(crate) struct Servers {
    pub(crate) beside: Beside,
    /// Who waits for what was asked, in order.
    askers: Vec<Asker>,
    /// Replicas whose processes have to start anew.
    pub(crate) restarts: BTreeSet<usize>,
    /// Until when processes are stopped, as far as drivers know.
    pub(crate) stopped_ns: Vec<u64>,
}

impl Servers {
    /// The servers of a cluster.
    pub(crate) fn new(seed: u64, replicas: usize, mutant: Option<Mutant>) -> Servers {
        let options = Options {
            replicas,
            has_races: true,
            mutant,
            ..Options::new(seed)
        };
        Servers {
            beside: Beside::new(options),
            askers: Vec::new(),
            restarts: BTreeSet::new(),
            stopped_ns: vec![0; replicas],
        }
    }

    /// Whether a token is a driver's.
    pub(crate) fn owns(token: Token) -> bool {
        (DRIVERS..2 * DRIVERS).contains(&token)
    }

    /// A new token, for a request of a driver.
    pub(crate) fn token(&mut self, asker: Asker) -> Token {
        self.askers.push(asker);
        DRIVERS + self.askers.len() as u64 - 1
    }

    /// The driver that waits under a token.
    pub(crate) fn asker(&self, token: Token) -> Asker {
        self.askers[(token - DRIVERS) as usize]
    }
}
