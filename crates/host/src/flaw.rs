//! Deliberate faults of the host: a checker that catches nothing proves nothing.
//!
//! A flaw is chosen when a host is opened ([`crate::Limits::flaw`]). Nothing but tests and the
//! simulator does that: no flag, file, environment variable or message sets it, and the server
//! opens its hosts with the default, which is none.

/// Something the host is to do wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// Results of commands are not kept.
    NoDedup,
    /// A snapshot holds no sessions.
    SessionsNotCarried,
    /// A snapshot holds no base of the protocol.
    BaseNotCarried,
    /// Records that concern all slots are released with the log that holds them.
    ScalarsNotCarried,
    /// Messages do not wait for the records they depend on.
    SpeaksTooEarly,
    /// The log is released before the snapshot that replaces it is durable.
    ReleasesTooEarly,
    /// Catching up skips the first slot of an answer.
    SkipsSlot,
    /// A read is answered before the slots it has to see are applied.
    ReadsTooEarly,
    /// Digests of peers are not compared.
    DigestsNotCompared,
    /// Acknowledged records that are gone are taken for ones that were never acknowledged.
    DamageTakenForTorn,
    /// A record does not wait for the long fragments it names.
    FragmentsNotAwaited,
    /// What a sealed epoch decides behind its seal is applied.
    AppliesBehindSeal,
    /// What a sealed epoch did not answer is not asked again in the next.
    AsksNoneAgain,
    /// What peers claim of their promises is not written down.
    ClaimsNotNoted,
    /// Messages are taken from a replica that claims less than is remembered of it.
    ClaimsNotChecked,
    /// Promises are claimed before they are durable.
    ClaimsTooEarly,
    /// A request that nobody waits for is said to be withdrawn, although the machine may have offered it.
    WithdrawsWhatIsOffered,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Flaw; 17] = [
        Flaw::NoDedup,
        Flaw::SessionsNotCarried,
        Flaw::BaseNotCarried,
        Flaw::ScalarsNotCarried,
        Flaw::SpeaksTooEarly,
        Flaw::ReleasesTooEarly,
        Flaw::SkipsSlot,
        Flaw::ReadsTooEarly,
        Flaw::DigestsNotCompared,
        Flaw::DamageTakenForTorn,
        Flaw::FragmentsNotAwaited,
        Flaw::AppliesBehindSeal,
        Flaw::AsksNoneAgain,
        Flaw::ClaimsNotNoted,
        Flaw::ClaimsNotChecked,
        Flaw::ClaimsTooEarly,
        Flaw::WithdrawsWhatIsOffered,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flaw::NoDedup => "host-no-dedup",
            Flaw::SessionsNotCarried => "host-sessions-not-carried",
            Flaw::BaseNotCarried => "host-base-not-carried",
            Flaw::ScalarsNotCarried => "host-scalars-not-carried",
            Flaw::SpeaksTooEarly => "host-speaks-too-early",
            Flaw::ReleasesTooEarly => "host-releases-too-early",
            Flaw::SkipsSlot => "host-skips-slot",
            Flaw::ReadsTooEarly => "host-reads-too-early",
            Flaw::DigestsNotCompared => "host-digests-not-compared",
            Flaw::DamageTakenForTorn => "host-damaged-log-taken-for-torn",
            Flaw::FragmentsNotAwaited => "host-fragments-not-awaited",
            Flaw::AppliesBehindSeal => "host-applies-behind-seal",
            Flaw::AsksNoneAgain => "host-asks-none-again",
            Flaw::ClaimsNotNoted => "host-claims-not-noted",
            Flaw::ClaimsNotChecked => "host-claims-not-checked",
            Flaw::ClaimsTooEarly => "host-claims-too-early",
            Flaw::WithdrawsWhatIsOffered => "host-withdraws-what-is-offered",
        }
    }

    /// What is broken.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Flaw::NoDedup => "a command that comes twice is executed twice",
            Flaw::SessionsNotCarried => "a snapshot holds no sessions",
            Flaw::BaseNotCarried => "a snapshot holds no base of the protocol",
            Flaw::ScalarsNotCarried => "a release of the log drops records that concern all slots",
            Flaw::SpeaksTooEarly => "messages do not wait for the records they depend on",
            Flaw::ReleasesTooEarly => "the log is released before its snapshot is durable",
            Flaw::SkipsSlot => "catching up skips a slot",
            Flaw::ReadsTooEarly => "a read is answered before the slots it has to see are applied",
            Flaw::DigestsNotCompared => "replicas that differ do not notice",
            Flaw::DamageTakenForTorn => "a damaged log is taken for one with a torn tail",
            Flaw::FragmentsNotAwaited => "a record does not wait for the long fragments it names",
            Flaw::AppliesBehindSeal => "what a sealed epoch decides behind its seal is applied",
            Flaw::AsksNoneAgain => "what a sealed epoch did not answer is not asked again",
            Flaw::ClaimsNotNoted => "a restart forgets how far the promises of peers went",
            Flaw::ClaimsNotChecked => "messages of an old copy of a folder are taken",
            Flaw::ClaimsTooEarly => "promises are claimed before they are durable",
            Flaw::WithdrawsWhatIsOffered => "what is offered is said to be withdrawn",
        }
    }
}
