//! Rules that are broken on purpose, so that tests can tell whether they would see it.

/// A rule that is broken on purpose: one of the driver, or one of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Answers leave before their effects are accepted.
    AnswersNotHeld,
    /// A deposed server goes on whatever it has that was never ordered.
    ContinueAlways,
    /// No barrier: answers rest on whatever was submitted before them.
    NoBarrier,
    /// Answers that rest on nothing new leave without a quorum's word.
    ReadsUnproven,
    /// The newest answers leave first, before those that they rest on.
    OutOfOrder,
    /// An executor's RDB is used though the stream never got that far.
    RdbAhead,
    /// Units are cut within `MULTI`.
    CutUnits,
    /// The stream takes pieces of epochs that are over.
    EpochUnchecked,
    /// The stream takes pieces wherever they begin.
    OffsetUnchecked,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 9] = [
        Mutant::AnswersNotHeld,
        Mutant::ContinueAlways,
        Mutant::NoBarrier,
        Mutant::ReadsUnproven,
        Mutant::OutOfOrder,
        Mutant::RdbAhead,
        Mutant::CutUnits,
        Mutant::EpochUnchecked,
        Mutant::OffsetUnchecked,
    ];

    /// The name by which it is chosen on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mutant::AnswersNotHeld => "effects-answers-not-held",
            Mutant::ContinueAlways => "effects-continue-always",
            Mutant::NoBarrier => "effects-no-barrier",
            Mutant::ReadsUnproven => "effects-reads-unproven",
            Mutant::OutOfOrder => "effects-out-of-order",
            Mutant::RdbAhead => "effects-rdb-ahead",
            Mutant::CutUnits => "effects-cut-units",
            Mutant::EpochUnchecked => "effects-epoch-unchecked",
            Mutant::OffsetUnchecked => "effects-offset-unchecked",
        }
    }

    /// The broken rule in words, for people.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Mutant::AnswersNotHeld => "answers leave before their effects are accepted",
            Mutant::ContinueAlways => "a deposed server goes on with what was never ordered",
            Mutant::NoBarrier => "answers rest on what was submitted before them",
            Mutant::ReadsUnproven => "reads leave without a quorum's word",
            Mutant::OutOfOrder => "the newest answers leave before those that they rest on",
            Mutant::RdbAhead => "an RDB is used whose offset the stream never reached",
            Mutant::CutUnits => "units are cut within `MULTI`",
            Mutant::EpochUnchecked => "pieces of epochs that are over become part of the stream",
            Mutant::OffsetUnchecked => "pieces become part of the stream wherever they begin",
        }
    }
}
