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
    /// A command whose asker was identified before users changed is not checked again where it is applied.
    RightsOfFaceSuffice,
    /// Nobody looks whether who reads has the right to.
    ReadsNotChecked,
    /// What was taken away is still among the rights that follow from a user's roles.
    RevokedRightsKept,
    /// What a transaction within another does takes no right.
    InnerTxnNotChecked,
    /// The previous value comes without the right to read it.
    PreviousValueNotChecked,
    /// Faces are not told to look again at the rights of watches.
    WatchesNotLookedAtAgain,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Flaw; 9] = [
        Flaw::RevisionNotCarried,
        Flaw::ExpiryIgnoresRenewals,
        Flaw::WatchDropsAtCompaction,
        Flaw::RightsOfFaceSuffice,
        Flaw::ReadsNotChecked,
        Flaw::RevokedRightsKept,
        Flaw::InnerTxnNotChecked,
        Flaw::PreviousValueNotChecked,
        Flaw::WatchesNotLookedAtAgain,
    ];

    /// The flaw's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flaw::RevisionNotCarried => "kv-revision-not-carried",
            Flaw::ExpiryIgnoresRenewals => "kv-expiry-ignores-renewals",
            Flaw::WatchDropsAtCompaction => "kv-watch-drops-at-compaction",
            Flaw::RightsOfFaceSuffice => "kv-rights-of-face-suffice",
            Flaw::ReadsNotChecked => "kv-reads-not-checked",
            Flaw::RevokedRightsKept => "kv-revoked-rights-kept",
            Flaw::InnerTxnNotChecked => "kv-inner-txn-not-checked",
            Flaw::PreviousValueNotChecked => "kv-previous-value-not-checked",
            Flaw::WatchesNotLookedAtAgain => "kv-watches-not-looked-at-again",
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
            Flaw::RightsOfFaceSuffice => {
                "rights that changed since its face looked do not count where a command is applied"
            }
            Flaw::ReadsNotChecked => "reads take no right",
            Flaw::RevokedRightsKept => "a user keeps what is taken from a role, or with a role",
            Flaw::InnerTxnNotChecked => "a transaction within another takes no right",
            Flaw::PreviousValueNotChecked => "the previous value takes no right to read",
            Flaw::WatchesNotLookedAtAgain => "a watch goes on after its right was taken away",
        }
    }
}
