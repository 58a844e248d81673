//! Leases: for a while nobody else can lead, and a read asks nobody. Off unless `lease_ms` is set.
//!
//! A leader's question about reads (`reads.rs`) asks for a lease too. A member that has promised its
//! ballot grants one with its answer: from then on, for [`Config::hold_ns`] of its own clock, it helps
//! nobody else to lead. It promises no other candidate, votes for none beforehand, and does not stand.
//! The leader has a lease once `QL` members, itself included, have granted it: for
//! [`Config::lease_ns`] of its own clock, counted from when it *asked*. The `QR` promises that make
//! another leader include one of those members, so there is none while the lease runs, and what
//! this leader knows to be decided is all there is (I8, I10).
//!
//! Clocks need not agree. Each may run too fast or too slow by `drift_ppm`, and counts while the machine
//! is suspended. Where a hypervisor stops clocks, reads under a lease may be stale; agreement never
//! depends on it.
//!
//! Grants are not written: after a restart nobody is helped for as long as a grant could still run.
//! A leader's own grant is void with its role: it may step down for somebody else at any time.
//!
//! Leases are asked for where there are reads, and renewed as long as they come.

use super::Replica;
use super::config::Config;
use super::mutants::Fault;
use crate::shared::ballot::Ballot;
use crate::shared::led::Led;
use quorate_core::{MemberIndex, MemberSet, Slot};
use std::hash::{Hash, Hasher};

/// What was granted, and what this replica was granted.
#[derive(Clone, Default, Debug)]
pub(super) struct Lease {
    /// The ballot that this replica leads under a lease, and when that ends on its own clock, in ns.
    own: Option<(Ballot, u64)>,
    /// The only member that is helped to lead until then; after a restart there is none.
    granted: Option<MemberIndex>,
    until_ns: u64,
    /// Reads came since the lease was asked for last.
    is_used: bool,
    /// The own clock at this step, in ns.
    now_ns: u64,
}

impl Hash for Lease {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let left = |until_ns: u64| until_ns.saturating_sub(self.now_ns);
        let own = self.own.map(|(ballot, until_ns)| (ballot, left(until_ns)));
        (own, self.granted, left(self.until_ns), self.is_used).hash(to);
    }
}

impl Lease {
    /// After a start: nobody is helped for as long as what was granted before could run.
    pub(super) fn after_start(config: &Config, now_ns: u64) -> Lease {
        let bar_ns = if config.faults.is(Fault::ForgetGrants) {
            0
        } else {
            config.hold_ns
        };
        Lease {
            until_ns: now_ns + bar_ns,
            now_ns,
            ..Lease::default()
        }
    }

    /// Time goes on.
    pub(super) fn tick(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }
}

impl Replica {
    /// The own clock, in ns.
    pub(super) fn now_ns(&self) -> u64 {
        self.lease.now_ns
    }

    /// Whether a grant forbids to help this member to lead.
    pub(super) fn is_barred(&self, member: MemberIndex) -> bool {
        self.lease.granted != Some(member) && self.bar_left_ns() > 0
    }

    /// How long the last grant still runs, in ns.
    pub(super) fn bar_left_ns(&self) -> u64 {
        self.lease.until_ns.saturating_sub(self.lease.now_ns)
    }

    /// Grants a lease to a member that leads the ballot promised last, unless another's still runs.
    pub(super) fn grant(&mut self, to: MemberIndex) -> bool {
        let is_its = self.promised.node == self.config.seating.members[to];
        if self.config.lease_ns == 0 || !is_its || self.is_barred(to) {
            return false;
        }
        self.lease.granted = Some(to);
        self.lease.until_ns = self.lease.now_ns + self.config.hold_ns;
        true
    }

    /// These members have granted what was asked for at this time, leading this ballot.
    pub(super) fn take_lease(&mut self, ballot: Ballot, asked_ns: u64, granted: MemberSet) {
        let enough = self.config.thresholds.leader;
        let is_mine = self.is_leader() && self.promised == ballot;
        if is_mine && granted.len() >= enough {
            self.lease.own = Some((ballot, asked_ns + self.config.lease_ns));
        }
    }

    /// How long the own lease still runs, in ns.
    fn lease_left_ns(&self) -> u64 {
        match self.lease.own {
            Some((ballot, until_ns)) if self.is_leader() && self.promised == ballot => {
                until_ns.saturating_sub(self.lease.now_ns)
            }
            _ => 0,
        }
    }

    /// Under a lease: the first slot behind all that may hold a completed write.
    pub(super) fn leased_mark(&self) -> Option<Slot> {
        self.own_mark().filter(|_| self.lease_left_ns() > 0)
    }

    /// Reads came that a lease would answer.
    pub(super) fn use_lease(&mut self) {
        self.lease.is_used = self.config.lease_ns > 0;
    }

    /// Whether to ask for a lease now: it is used, and half of it is over.
    pub(super) fn wants_lease(&self) -> bool {
        let is_late = self.lease_left_ns() <= self.config.lease_ns / 2;
        self.lease.is_used && self.is_leader() && is_late
    }

    /// A lease was asked for.
    pub(super) fn asked_for_lease(&mut self) {
        self.lease.is_used = false;
    }
}
