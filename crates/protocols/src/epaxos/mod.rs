//! EPaxos\* (Ryabinin, Gotsman and Sutra, OPODIS'25): Egalitarian Paxos (Moraru, Andersen and Kaminsky, SOSP'13) with
//! another recovery, which is proved.
//!
//! There is no leader. A replica that has commands forms an entry and coordinates it: members keep it with what it
//! conflicts with there, its dependencies. If a fast quorum has nothing to add to those of the coordinator, it is
//! committed in one round trip; else a second one settles on all that was said. Entries that touch nothing in common
//! ([`crate::Protocol::commute`]) do not depend on each other. Where the application says nothing of what commands
//! touch, all conflict: correct, and slow.
//!
//! It is a yardstick: safe, to be compared with, and neither tuned nor whole.
//!
//! # One sequence
//!
//! A host wants one sequence, and the graph of dependencies is less. Entries that touch everything are *roots*, and so
//! are *marks*: instances without commands, which a replica proposes that has committed entries with no root above them
//! (`mark_us`). All roots conflict, so the graph orders them, and what is below the least one is delivered before
//! it, in an order that follows from the graph (`order.rs`). What comes next depends on nothing but what is delivered
//! and what is decided of the rest. So a replica may start, or be brought by its host, anywhere in the sequence.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it. `Machine::check`
//! (`check.rs`) asserts what one replica can see, the tests watch the rest:
//!
//! - E1: all that is committed of an instance agrees, but for `Deps::after`: is it void, and what is below it. A value
//!   is committed when `n - f` members accepted it at a ballot, or, at the coordinator's ballot, when `n - e` kept the
//!   entry with its initial dependencies, durably, the coordinator among them (`Replica::count_pre_accepted`). Whoever
//!   recovers hears from `n - f` members and goes on with what the highest ballot accepted, or else finds out whether
//!   the fast path can have been taken (`Replica::choose`): no, if the coordinator says so, which it knows also after a
//!   restart, for it makes a fast commit durable before others know; no, if too few kept the entry as it came; no, if a
//!   conflicting instance is committed, or one of a coordinator that cannot have missed this one, with neither below
//!   the other. (Where entries are held, see below.)
//! - E2: of two conflicting entries that are ordered one is below the other. Their quorums share a member, which knew
//!   one when it came to keep the other (`Table::extend`), or took it for an initial value (`Replica::on_validate`).
//! - E3: ballots of an instance only grow, what is accepted at one is joined, and phases only grow.
//! - E4: all replicas deliver one sequence (`order.rs`).
//! - E5: an answered entry goes before all conflicting ones that are asked for later (`answers.rs`).
//! - E6: what is delivered is closed under dependencies, up to circles, and kept in one place: the instance goes when
//!   the entry is delivered.
//! - E7: an entry is not made void that was committed on the fast path (E1). The commands of one that is void get
//!   another instance, and a notice in its place has all replicas know that it is void.
//!
//! # Entries that are held
//!
//! With `toq_us` (TOQ, *EPaxos Revisited*, NSDI'21; `toq.rs`, `hold.rs`) members keep an entry at a time that its
//! coordinator chose, and each finds its dependencies then. Clocks decide when, and nothing else. There are no initial
//! dependencies to compare with; so the coordinator names a fast quorum, and the entry is committed on the fast path if
//! all of that found the same. Any two fast quorums and any `n - f` members share one (`n >= 2e + f + 1`,
//! [`Thresholds::of_held`]). Be `y` committed so, behind `D`:
//!
//! - E2: a member of its quorum is in every other quorum that says what conflicts: fast ones, those of the slow
//!   path, and those that validate. It came to keep one of the two with the other known to it (`Table::extend`), or
//!   knew `y` when it was asked to validate, and spoke against the other if neither is behind the other
//!   (`Replica::conflicts_of`). That goes for every value that is validated, too, whoever found it.
//! - E1, E7: whoever recovers `y` hears members of its quorum, at least one, which all kept it behind `D`
//!   (`Replica::unanimous`): so `D` is what it goes on with, and no conflicting instance is committed with neither
//!   below the other. An instance `j` that speaks against `y` and is not committed is waited for, as ever. `y` is made
//!   void if whoever recovers `j` waits, too, with a value for `j` that is not behind `y`, and that all found who were
//!   heard of `j`'s quorum. One of those is in the quorum of `y`: had it kept both, it would have one behind the other.
//!   That `j` waits is not enough: its value may be behind `y`, where the member that speaks against `y` is of no
//!   quorum of `j`, or kept `j` otherwise (`Instance::rules_out`).
//! - An entry that its coordinator forgot, and others keep, makes nothing void: it speaks against `y`, is recovered,
//!   and its value, if it has one, is behind `y` or before it. So entries leave at once, before anything is durable.
//!
//! `Replica::check` asserts that all who keep an entry name a fast quorum of the right size, and go on with what they
//! found; `Replica::count_pre_accepted` that all of it found what is committed.
//!
//! # What is delivered
//!
//! Dependencies on what is delivered may be left out only where nobody can recover it any more. So members say how far
//! they have delivered, durably. What is before the slot that more members have passed than may fail is known in every
//! quorum: dependencies say of it "all before this slot" (`Deps::after`), which is never part of a comparison that
//! decides. What is delivered behind that slot is named as if it were not (`Table`). A replica that does not know the
//! names, after a start or when its host caught up, neither keeps entries nor says what contradicts until enough others
//! are as far (`Replica::may_vote`).
//!
//! # Silence
//!
//! There are no heartbeats. A replica that knows of an instance that is not committed, and hears nothing of it for
//! `recover_ms`, recovers it. A cluster where nobody waits arms no timer.
//!
//! # Lost promises
//!
//! A replica that lost its promises keeps, accepts and joins nothing, and forms no entries: it learns by the decided
//! log, and is one of those that may fail, until an epoch replaces it (`recover.rs`).

mod acceptor;
mod answers;
mod check;
mod config;
mod describe;
mod errands;
mod footprint;
mod hold;
mod learner;
mod messages;
mod mutants;
mod order;
mod propose;
mod protocol;
mod recover;
mod recovery;
mod replica;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod toq;
mod waits;
mod wire;

pub use config::{Config, Queueing, Thresholds, Waits};
pub use messages::{
    Accept, Commit, Conflict, Header, Kept, Message, PreAccept, Record, Said, Shown, Timer,
    Validate, Validated,
};
pub use mutants::Fault;
pub use protocol::EPaxos;
pub use replica::Replica;
pub use state::{Deps, Phase};
