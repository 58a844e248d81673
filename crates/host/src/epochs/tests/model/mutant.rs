//! Naive variants of the rules, each of which must be caught.

use crate::epochs::succession::TestRules as Rules;

/// A broken rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::epochs::tests) enum Mutant {
    AppliesPastTheSeal,
    LastChangeWins,
    SlotAlone,
    StartsOnVotes,
    StartsWithoutState,
    LeavesAtItsSeal,
    LeavesAfterTooFewHolders,
    HoldsBeforeDurable,
    DropsRecordsEarly,
    KeepsIncarnation,
    NoSessions,
    AnswersWhenDecided,
    NoExpect,
    SealNotMarked,
    OldReadQuorum,
    ReadQuorumShort,
    ExecutesBehindChange,
    VotesWithoutBytes,
    SettlesWhenOpen,
}

impl Mutant {
    /// The rules of succession it breaks; the others are broken where the model stands for the host.
    pub(super) fn rules(self) -> Option<Rules> {
        let all = Rules::default();
        Some(match self {
            Mutant::StartsWithoutState => Rules {
                starts_with_state: false,
                ..all
            },
            Mutant::LeavesAtItsSeal => Rules {
                leaves_when_opened: false,
                ..all
            },
            Mutant::LeavesAfterTooFewHolders => Rules {
                holders_beyond_failures: 0,
                ..all
            },
            Mutant::HoldsBeforeDurable => Rules {
                holds_when_durable: false,
                ..all
            },
            Mutant::DropsRecordsEarly => Rules {
                stops_when_durable: false,
                ..all
            },
            _ => return None,
        })
    }
}
