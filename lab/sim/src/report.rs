//! What came of a seed.

use crate::meter::Measured;
use std::collections::BTreeMap;
use std::fmt;

/// What must not happen, and did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which promise was broken.
    pub kind: &'static str,
    /// How.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(kind: &'static str, what: String) -> Self {
        Violation { kind, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.what)
    }
}

/// Counts of one seed, or of many.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Operations of clients that got an answer.
    pub ops: u64,
    /// Replicas that crashed.
    pub crashes: u64,
    /// Frames that were lost.
    pub dropped: u64,
    /// Snapshots that replicas took of their state.
    pub snapshots: u64,
    /// Snapshots of others that took the place of a replica's state.
    pub installed: u64,
    /// Log segments that were given up.
    pub released: u64,
    /// Starts with a damaged snapshot, from the one before it.
    pub rotten: u64,
    /// Leases granted.
    pub granted: u64,
    /// Leases that ended because their time was over.
    pub expired: u64,
    /// Changes told to watchers.
    pub watched: u64,
    /// Watchers that were too late for what was compacted.
    pub overtaken: u64,
    /// Compactions.
    pub compactions: u64,
    /// Virtual time.
    pub simulated_ns: u64,
    /// How often each kind of fault was injected.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often each named rare branch of the protocol was taken.
    pub branches: BTreeMap<&'static str, u64>,
    /// How often each kind of change of the group led to an epoch that decided something.
    pub changes: BTreeMap<String, u64>,
}

impl Totals {
    /// A fault was injected.
    pub(crate) fn hit(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// The counts that are neither faults nor branches, by name.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 13] {
        [
            ("ops", self.ops),
            ("crashes", self.crashes),
            ("dropped", self.dropped),
            ("snapshots", self.snapshots),
            ("installed", self.installed),
            ("released", self.released),
            ("rotten", self.rotten),
            ("granted", self.granted),
            ("expired", self.expired),
            ("watched", self.watched),
            ("overtaken", self.overtaken),
            ("compactions", self.compactions),
            ("simulated_ms", self.simulated_ns / 1_000_000),
        ]
    }

    /// Adds the counts of another seed.
    pub fn add(&mut self, other: &Totals) {
        self.ops += other.ops;
        self.crashes += other.crashes;
        self.dropped += other.dropped;
        self.snapshots += other.snapshots;
        self.installed += other.installed;
        self.released += other.released;
        self.rotten += other.rotten;
        self.granted += other.granted;
        self.expired += other.expired;
        self.watched += other.watched;
        self.overtaken += other.overtaken;
        self.compactions += other.compactions;
        self.simulated_ns += other.simulated_ns;
        for (name, count) in &other.faults {
            *self.faults.entry(name).or_default() += count;
        }
        for (name, count) in &other.branches {
            *self.branches.entry(name).or_default() += count;
        }
        for (kind, count) in &other.changes {
            *self.changes.entry(kind.clone()).or_default() += count;
        }
    }
}

/// One seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Which.
    pub seed: u64,
    /// Hash of everything that happened: equal whenever the seed is run.
    pub digest: u64,
    /// What was done.
    pub totals: Totals,
    /// The promise that was broken first, if one was.
    pub violation: Option<Violation>,
    /// What a run that was to be measured came to.
    pub measured: Option<Measured>,
}
