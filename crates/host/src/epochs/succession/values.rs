//! What goes into a succession, and what comes out.

use crate::epochs::change::Order;
use crate::epochs::note::{Note, Record};
use crate::epochs::state::GroupState;
use quorate_core::{Member, Slot};

/// What the host knows whenever it takes a step.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The applied state.
    pub state: &'a GroupState,
    /// The members of the newest epoch that may fail ([`quorate_core::Numbers::failures`]).
    pub failures: usize,
    /// The first slot not applied.
    pub applied: Slot,
    /// The first slot of which the state would be gone after a crash; in memory the same as `applied`.
    pub durable: Slot,
}

/// Something happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Slots were applied, a state was installed, or either became durable: the standing says which.
    Progress,
    /// A record became durable.
    Durable(Record),
    /// A note came.
    Heard {
        /// Whose it is.
        from: Member,
        /// What it says.
        note: Note,
    },
    /// Something else came that belongs to an earlier epoch: a message, a request or a read.
    Late {
        /// Whose it is.
        from: Member,
    },
    /// The time asked for with [`Output::Arm`] is over.
    Timer,
}

/// Something is to be done, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// The epoch was sealed: its machine takes no more requests, what it decides counts for nothing,
    /// and what it did behind the seal is undone. It still votes. Own requests without an answer are
    /// submitted again, under their ids, to the next epoch.
    Seal {
        /// The sealed epoch.
        epoch: u64,
        /// The slot that sealed it; unknown if more epochs followed than are kept.
        slot: Option<Slot>,
    },
    /// The machine of this epoch may go, and its records with it. Whatever speaks to it is
    /// [`Input::Late`].
    Stop {
        /// The epoch.
        epoch: u64,
    },
    /// Make a record durable, then say so ([`Input::Durable`]).
    Persist(Record),
    /// Run the machine of this epoch, the newest.
    Start {
        /// The epoch.
        epoch: u64,
        /// Whether it ran before: then it starts from its records, otherwise afresh.
        again: bool,
    },
    /// Submit an order to the machine that runs.
    Propose(Order),
    /// Send a note. It may be lost.
    Send {
        /// To whom.
        to: Member,
        /// What.
        note: Note,
    },
    /// This replica has a state that is missing here: catch up from it.
    Fetch {
        /// Which replica.
        from: Member,
    },
    /// Call [`Input::Timer`] after this many ns.
    Arm {
        /// How long.
        after_ns: u64,
    },
    /// Delete all data: the replica may be switched off.
    Leave,
}
