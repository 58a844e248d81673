//! What a machine starts from, what happens to it, and what it wants done.

use crate::command::{Command, RequestId};
use crate::entry::Entry;
use crate::ids::{EntryId, Lsn, ReplicaId, Slot};
use crate::machine::Machine;
use crate::time::Due;
use bytes::Bytes;
use std::collections::BTreeSet;

/// What a machine starts from. The host judges which; a machine never guesses.
#[derive(Clone, Debug)]
pub enum Past<M: Machine> {
    /// A new epoch, started on purpose.
    Fresh,
    /// Everything this incarnation ever persisted that still matters.
    Intact {
        /// The first slot not decided in the host's log.
        next: Slot,
        /// The state after the slots before `next`.
        base: M::Base,
        /// The surviving records, in the order they were persisted.
        records: Vec<M::Record>,
    },
    /// Promises may be missing: the machine must not vote as if they were not. Before it speaks it
    /// persists a record by which its next start knows; as long as there is none, that start is
    /// the same.
    Lost {
        /// The first slot not decided in the host's log.
        next: Slot,
        /// The state after the slots before `next`.
        base: M::Base,
    },
}

/// What happens to a machine.
#[derive(Clone, Debug)]
pub enum Input<M: Machine> {
    /// Everything that waits; the machine forms its own batch.
    Submit(Vec<Command>),
    /// Nobody waits for these requests any more. The machine refuses those of them that it has offered to
    /// nobody and written nowhere ([`Refusal::Withdrawn`]), and never orders them; it goes on with the others.
    Withdraw(BTreeSet<RequestId>),
    /// A peer said this.
    Message {
        /// Who, authenticated by the connection.
        from: ReplicaId,
        /// What; untrusted beyond its decoding.
        message: M::Message,
    },
    /// A timer came due; it is disarmed.
    Timer(M::Timer),
    /// Every record up to here survives a crash.
    Durable(Lsn),
    /// The payloads of an entry that was asked for are here, all of them, checked.
    Held(Entry),
    /// An entry was executed ahead of its decision, as [`Output::Execute`] asked for. What follows from
    /// it may leave before it is decided only where every later view is sure to decide the same. At a gateway
    /// apart, the entry is decided, and its clients were answered.
    Applied {
        /// In which slot.
        slot: Slot,
        /// The entry that was executed.
        entry: EntryId,
        /// The results of its commands, in their order.
        results: Vec<Bytes>,
    },
    /// The host caught up from a peer: every slot before `next` is decided and delivered.
    Installed {
        /// The first slot not covered.
        next: Slot,
        /// The state after the slots before `next`.
        base: M::Base,
    },
    /// The group prefers this member as its leader from now on. Where one replica leads, that one makes room, and
    /// the others let the preferred one take its place for a moment; where none does, it means nothing. A hint
    /// that may be lost, and never a matter of safety.
    Prefer(ReplicaId),
    /// The connection to a peer came up or went down: a hint for speed, never for safety.
    Link {
        /// The peer at the other end.
        peer: ReplicaId,
        /// Whether messages to it have a chance now.
        up: bool,
    },
}

impl<M: Machine> Past<M> {
    /// The past of another machine, with records in its words.
    pub fn map<N>(self, record: impl FnMut(M::Record) -> N::Record) -> Past<N>
    where
        N: Machine<Base = M::Base>,
    {
        match self {
            Past::Fresh => Past::Fresh,
            Past::Intact {
                next,
                base,
                records,
            } => Past::Intact {
                next,
                base,
                records: records.into_iter().map(record).collect(),
            },
            Past::Lost { next, base } => Past::Lost { next, base },
        }
    }
}

impl<M: Machine> Input<M> {
    /// The input of another machine, in its words; `None` if it has none for this.
    pub fn try_map<N>(
        self,
        message: impl FnOnce(M::Message) -> Option<N::Message>,
        timer: impl FnOnce(M::Timer) -> Option<N::Timer>,
    ) -> Option<Input<N>>
    where
        N: Machine<Base = M::Base>,
    {
        Some(match self {
            Input::Submit(commands) => Input::Submit(commands),
            Input::Withdraw(ids) => Input::Withdraw(ids),
            Input::Message {
                from,
                message: said,
            } => Input::Message {
                from,
                message: message(said)?,
            },
            Input::Timer(due) => Input::Timer(timer(due)?),
            Input::Durable(lsn) => Input::Durable(lsn),
            Input::Held(entry) => Input::Held(entry),
            Input::Applied {
                slot,
                entry,
                results,
            } => Input::Applied {
                slot,
                entry,
                results,
            },
            Input::Installed { next, base } => Input::Installed { next, base },
            Input::Prefer(member) => Input::Prefer(member),
            Input::Link { peer, up } => Input::Link { peer, up },
        })
    }

    /// The input of another machine of the same words: for a machine around another one.
    #[must_use]
    pub fn pass_on<N>(self) -> Input<N>
    where
        N: Machine<Message = M::Message, Timer = M::Timer, Base = M::Base>,
    {
        let same = self.try_map(Some, Some);
        same.expect("every word is one of the other machine, too")
    }
}

/// Who a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peers {
    /// Every other member; encoded once.
    All,
    /// One member alone.
    One(ReplicaId),
}

/// What a machine wants done. Outputs take effect in the order emitted.
#[derive(Clone, Debug)]
pub enum Output<M: Machine> {
    /// Send once every record up to `after` is durable.
    Send {
        /// The receivers of the message.
        to: Peers,
        /// The message to send.
        message: M::Message,
        /// The record that the message depends on; `Lsn(0)` for none.
        after: Lsn,
    },
    /// Append to the log and make durable soon.
    Persist {
        /// The number of the record.
        lsn: Lsn,
        /// The record to append.
        record: M::Record,
    },
    /// Append to the log when convenient; nothing waits for it.
    Note(M::Record),
    /// Give [`Input::Timer`] later. An armed timer is moved.
    Arm {
        /// The timer to arm.
        timer: M::Timer,
        /// When the timer comes due.
        due: Due,
    },
    /// Forget a timer.
    Disarm(M::Timer),
    /// Gather the payloads of this entry from whoever has fragments of them: [`Input::Held`] follows,
    /// unless the entry is decided before.
    Gather(Entry),
    /// This entry was never offered to be ordered, and never will be, or the log made it void: what is
    /// kept of it here, records and fragments, may go.
    Forget(EntryId),
    /// Slots at least up to `through` were decided elsewhere: fetch them from this peer.
    CatchUp {
        /// Who has them.
        from: ReplicaId,
        /// The last slot known decided there.
        through: Slot,
    },
    /// A peer asked about a slot that is decided here: give it the decided log from there on.
    Inform {
        /// The peer it is about.
        peer: ReplicaId,
        /// The first slot it misses.
        from: Slot,
    },
    /// Decided, in slot order without gaps: apply it and answer clients. `None` is a no-op.
    Deliver {
        /// The slot of the entry.
        slot: Slot,
        /// The entry it is about.
        entry: Option<Entry>,
    },
    /// Not decided yet: execute it as if it were the entry of this slot, behind those of the slots
    /// before. [`Input::Applied`] follows, at once or, where results depend on what is not certain
    /// yet, not at all.
    Execute {
        /// The slot of the entry.
        slot: Slot,
        /// The entry it is about.
        entry: Entry,
    },
    /// What was to be executed in this slot and those behind it is not decided there: take it back.
    Retract {
        /// The first slot.
        from: Slot,
    },
    /// An entry of a remote gateway is decided here, and what came of it was not said by a machine: the host
    /// says so, as far as its sessions know.
    Tell {
        /// The gateway of the entry.
        gateway: ReplicaId,
        /// The entry it is about.
        entry: EntryId,
        /// The requests of its commands.
        requests: Vec<RequestId>,
    },
    /// The fate of a request that is known without applying it.
    Reply {
        /// The request that is answered.
        id: RequestId,
        /// How it went.
        outcome: Outcome,
    },
    /// For metrics and traces.
    Emit(Event),
}

impl<M: Machine> Output<M> {
    /// The output of another machine, in its words.
    pub fn map<N: Machine>(
        self,
        message: impl FnOnce(M::Message) -> N::Message,
        record: impl FnOnce(M::Record) -> N::Record,
        timer: impl FnOnce(M::Timer) -> N::Timer,
    ) -> Output<N> {
        match self {
            Output::Send {
                to,
                message: said,
                after,
            } => Output::Send {
                to,
                message: message(said),
                after,
            },
            Output::Persist { lsn, record: kept } => Output::Persist {
                lsn,
                record: record(kept),
            },
            Output::Note(kept) => Output::Note(record(kept)),
            Output::Arm { timer: armed, due } => Output::Arm {
                timer: timer(armed),
                due,
            },
            Output::Disarm(armed) => Output::Disarm(timer(armed)),
            Output::Gather(entry) => Output::Gather(entry),
            Output::Forget(entry) => Output::Forget(entry),
            Output::CatchUp { from, through } => Output::CatchUp { from, through },
            Output::Inform { peer, from } => Output::Inform { peer, from },
            Output::Deliver { slot, entry } => Output::Deliver { slot, entry },
            Output::Execute { slot, entry } => Output::Execute { slot, entry },
            Output::Retract { from } => Output::Retract { from },
            Output::Tell {
                gateway,
                entry,
                requests,
            } => Output::Tell {
                gateway,
                entry,
                requests,
            },
            Output::Reply { id, outcome } => Output::Reply { id, outcome },
            Output::Emit(event) => Output::Emit(event),
        }
    }
}

/// The fate of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A read may be answered once every slot before this one is applied.
    ReadAt(Slot),
    /// The request is as good as applied: whatever is decided yet, this is its slot and this its result.
    Applied(Slot, Bytes),
    /// What was answered so is decided: nothing can come before it any more. Said where nothing is delivered,
    /// by the machine of a remote gateway.
    Decided,
    /// The request will not be executed by this submission.
    Refused(Refusal),
}

/// Why a request was not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Too much is waiting; try again later.
    Overloaded,
    /// Larger than an entry may be.
    TooLarge,
    /// The session is unknown or ended. Whether earlier submissions under the same id were
    /// executed is unknown.
    NoSession,
    /// The answer was acknowledged before and is gone.
    Forgotten,
    /// This replica cannot order commands in its present role.
    NotServing,
    /// The request may have been executed or may be yet, and this replica does not know: it has skipped the slots
    /// around it, or another submission of it is under way.
    Unknown,
    /// Nobody waited for it any more before it was offered to anybody: this submission never executes it.
    Withdrawn,
}

/// Something worth counting or tracing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A slot was decided by this replica's own count.
    Decided {
        /// The slot that was decided.
        slot: Slot,
        /// Whether on the protocol's fastest path.
        fast: bool,
        /// Whether no entry got the slot.
        noop: bool,
        /// Message delays between the proposals and the values that decided: 1 for a decision by
        /// the proposals alone.
        delays: u32,
    },
    /// A named rare branch was taken.
    Branch(&'static str),
    /// A peer broke the protocol; the message was ignored.
    Misbehaved {
        /// The peer it is about.
        peer: ReplicaId,
        /// How the protocol was broken.
        what: &'static str,
    },
}
