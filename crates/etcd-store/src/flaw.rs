//! Deliberate faults of the store: a checker that catches nothing proves nothing.
//!
//! A flaw is given to a store when it is made ([`crate::Store::with_flaw`]). Nothing but tests and
//! the simulator does that: no flag, file, environment variable or request sets it, and it is in
//! no snapshot.

/// Something the store is to do wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// The revision is not taken from a snapshot.
    RevisionNotCarried,
    /// The end of a lease's time counts although the lease was renewed since.
    ExpiryIgnoresRenewals,
    /// What changed at the compacted revision itself is not told.
    WatchDropsAtCompaction,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Flaw; 3] = [
        Flaw::RevisionNotCarried,
        Flaw::ExpiryIgnoresRenewals,
        Flaw::WatchDropsAtCompaction,
    ];

    /// The flaw's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flaw::RevisionNotCarried => "kv-revision-not-carried",
            Flaw::ExpiryIgnoresRenewals => "kv-expiry-ignores-renewals",
            Flaw::WatchDropsAtCompaction => "kv-watch-drops-at-compaction",
        }
    }

    /// What is broken.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Flaw::RevisionNotCarried => "a snapshot does not carry the store's revision",
            Flaw::ExpiryIgnoresRenewals => "a lease ends at its time although it was renewed",
            Flaw::WatchDropsAtCompaction => {
                "a watch is not told what changed at the compacted revision"
            }
        }
    }
}
