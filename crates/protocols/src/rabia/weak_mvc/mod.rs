//! The machine of Rabia (Pan et al., SOSP'21): a window of instances of Weak-MVC over a queue of requests.
//! Racos has one within it, to order what it has spread.
//!
//! Every replica offers its batches of commands to all, keeps what it was offered in a priority
//! queue, and proposes the oldest in the next slots of the log; Weak-MVC, one instance per slot,
//! agrees on one proposal or on NULL. Nobody leads, so nothing has to fail over.
//!
//! # Why it is safe
//!
//! The paper's section 5 proves four invariants of Weak-MVC; `../README.md` says
//! which function embodies which line, where we depart from the paper, and why that is safe too.
//! The arithmetic is in [`Thresholds`], the lemmas one replica can see are asserted by
//! [`Machine::check`], and the others by the cluster in the tests:
//!
//! - I1: one value per replica, slot and step, over restarts. [`Record::Own`] is written before
//!   the value is said, and a record extends its predecessors (`Instance::restore`).
//! - I2: no two requests have `T` proposals in a slot (`Instance::check`).
//! - I3: votes 0 and 1 exclude each other in a phase (`Instance::check`).
//! - I4: who says 1 knows the request (`Instance::append`): it travels in every message that
//!   holds a 1, so that Algorithm 3 never fails to find it.
//! - I5: all decisions of a slot are equal (`Replica::check_all`, and the tests across replicas).
//! - I6: a decided request is held by `T` replicas: a batch is written with the proposal naming it.
//! - I7: every batch takes effect once: a second decision is skipped by [`DecidedSet`], on all alike.
//! - I8: a slot starts only within the window (`Replica::propose`).
//! - I9: who lost its promises votes in no slot it may have made them in (`rejoin.rs`).
//! - I10: a read sees every write completed before it began (`reads.rs`).
//!
//! # Whose values a decision counts
//!
//! A message waits for the disk, so that a peer's values can be counted as they come. The
//! replica's own are different: a decision is acted on at once (a client is answered, a peer is
//! told), so if it counted an own value that is not durable, a crash could undo the value and a
//! restarted replica say another one; the decision would stand on one replica too few. Hence a
//! decision counts the own proposal and the own trail only as far as [`Input::Durable`] has
//! confirmed them (`View::Durable`). The next own value may rest on own values that are not
//! durable yet (`View::All`): records are durable in order, so whatever becomes visible of the
//! later value implies the earlier ones.
//!
//! # Idle lanes
//!
//! With `lanes` above 1 a slot is only for the requests of some members, so that origins do not
//! compete. A lane without a request costs nothing of its own: its slots start only because a
//! later slot does, everybody proposes NULL in them at once, all of that leaves as one
//! [`Nulls`] with the message of the slot that needed it, and any `n - T + 1` of those decide. NULL
//! proposals have no records. Instead, every slot of theirs is before a reserve that is durable
//! before they are said ([`Record::Reserve`]), and a replica that restarts proposes NULL, whatever
//! it holds by then, in slots before the reserve without a record (I1). The reserve that counts
//! is the one read at the restart: the running one is raised ahead of need, and would turn
//! slots into NULL that nobody has started.
//!
//! # What waiting is for
//!
//! Every wait beyond the thresholds is for speed and ends by a timer: a vote waits a moment for
//! the proposals that would decide without it ([`Timer::Hold`]), a proposal for a batch that
//! peers already proposed ([`Timer::Adopt`]). Off unless asked for: a step that would learn nothing
//! decisive waits for more values ([`Timer::Grace`]), and a slot for its batch to have reached
//! everybody ([`Timer::Thaw`]). More values at a step never make it less safe. Nobody is waited for
//! whose link is known to be down, or who was late for the last wait and for every probe since.

mod check;
mod config;
mod deliver;
pub(crate) mod describe;
mod embedding;
mod held;
mod lanes;
mod messages;
mod needs;
mod pool;
mod propose;
mod queue;
mod reads;
mod recover;
mod rejoin;
mod repair;
mod replica;
mod reserve;
pub(crate) mod slot;
mod trail;
pub(crate) mod voice;
mod waits;
mod wire;

pub(crate) use config::Fault;
pub(crate) use config::PARAMS;
pub use config::{Config, Thresholds};
pub use messages::{Bits, Message, Nulls, Record, SlotMessage, Timer};
pub(crate) use messages::{gist, value_at};
pub use replica::Replica;
pub use trail::{Mode, Step, TRAIL_VALUES_MAX, Trail, Value};

/// The rare branches of the machine.
pub(crate) const BRANCHES: &[&str] = &[
    "adopt wait expired",
    "coin tossed",
    "double decision skipped",
    "grace expired",
    "need sent",
    "no vote at all",
    "outcome told",
    "pool share full",
    "rejoined",
    "vote adopted",
    "vote hold expired",
];
