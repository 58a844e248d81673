//! Where a machine says what it wants done.

use crate::command::RequestId;
use crate::entry::Entry;
use crate::ids::{EntryId, Lsn, ReplicaId, Slot};
use crate::machine::Machine;
use crate::step::{Event, Outcome, Output, Peers};
use crate::time::Due;

/// Collects the outputs of steps; the host reuses one.
#[derive(Clone, Debug)]
pub struct Out<M: Machine> {
    outputs: Vec<Output<M>>,
    persisted: Lsn,
}

impl<M: Machine> Default for Out<M> {
    fn default() -> Self {
        Out {
            outputs: Vec::new(),
            persisted: Lsn(0),
        }
    }
}

impl<M: Machine> Out<M> {
    /// The number of the last record persisted.
    #[must_use]
    pub fn persisted(&self) -> Lsn {
        self.persisted
    }

    /// Sends once everything persisted so far is durable: the default spelling.
    pub fn send(&mut self, to: Peers, message: M::Message) {
        self.outputs.push(Output::Send {
            to,
            message,
            after: self.persisted,
        });
    }

    /// Sends without waiting for anything: only for what promises nothing.
    pub fn send_early(&mut self, to: Peers, message: M::Message) {
        self.outputs.push(Output::Send {
            to,
            message,
            after: Lsn(0),
        });
    }

    /// Makes a record durable; what is sent afterwards waits for it.
    pub fn persist(&mut self, record: M::Record) -> Lsn {
        self.persisted.0 += 1;
        self.outputs.push(Output::Persist {
            lsn: self.persisted,
            record,
        });
        self.persisted
    }

    /// Writes a hint to the log without a flush of its own.
    pub fn note(&mut self, record: M::Record) {
        self.outputs.push(Output::Note(record));
    }

    /// Arms or moves a timer.
    pub fn arm(&mut self, timer: M::Timer, due: Due) {
        self.outputs.push(Output::Arm { timer, due });
    }

    /// Disarms a timer.
    pub fn disarm(&mut self, timer: M::Timer) {
        self.outputs.push(Output::Disarm(timer));
    }

    /// Asks the host to gather the payloads of an entry.
    pub fn gather(&mut self, entry: Entry) {
        self.outputs.push(Output::Gather(entry));
    }

    /// Lets the host forget an entry that nobody will order.
    pub fn forget(&mut self, entry: EntryId) {
        self.outputs.push(Output::Forget(entry));
    }

    /// Asks the host to fetch decided slots.
    pub fn catch_up(&mut self, from: ReplicaId, through: Slot) {
        self.outputs.push(Output::CatchUp { from, through });
    }

    /// Asks the host to give a peer the decided log.
    pub fn inform(&mut self, peer: ReplicaId, from: Slot) {
        self.outputs.push(Output::Inform { peer, from });
    }

    /// Delivers a decided slot.
    pub fn deliver(&mut self, slot: Slot, entry: Option<Entry>) {
        self.outputs.push(Output::Deliver { slot, entry });
    }

    /// Has an entry executed ahead of its decision.
    pub fn execute(&mut self, slot: Slot, entry: Entry) {
        self.outputs.push(Output::Execute { slot, entry });
    }

    /// Has what was executed ahead taken back, from a slot on.
    pub fn retract(&mut self, from: Slot) {
        self.outputs.push(Output::Retract { from });
    }

    /// Has a remote gateway told what came of an entry that is decided.
    pub fn tell(&mut self, gateway: ReplicaId, entry: EntryId, requests: Vec<RequestId>) {
        self.outputs.push(Output::Tell {
            gateway,
            entry,
            requests,
        });
    }

    /// Answers a request.
    pub fn reply(&mut self, id: RequestId, outcome: Outcome) {
        self.outputs.push(Output::Reply { id, outcome });
    }

    /// Reports something worth counting.
    pub fn emit(&mut self, event: Event) {
        self.outputs.push(Output::Emit(event));
    }

    /// Wants done what a machine inside this one wants done. A record gets a number of this
    /// machine's own, and a message waits for all that was persisted before it here.
    pub fn pass_on<N>(&mut self, output: Output<N>)
    where
        N: Machine<Message = M::Message, Record = M::Record, Timer = M::Timer>,
    {
        match output {
            Output::Send {
                to,
                message,
                after: Lsn(0),
            } => self.send_early(to, message),
            Output::Send { to, message, .. } => self.send(to, message),
            Output::Persist { record, .. } => {
                self.persist(record);
            }
            Output::Note(record) => self.note(record),
            Output::Arm { timer, due } => self.arm(timer, due),
            Output::Disarm(timer) => self.disarm(timer),
            Output::Gather(entry) => self.gather(entry),
            Output::Forget(entry) => self.forget(entry),
            Output::CatchUp { from, through } => self.catch_up(from, through),
            Output::Inform { peer, from } => self.inform(peer, from),
            Output::Deliver { slot, entry } => self.deliver(slot, entry),
            Output::Execute { slot, entry } => self.execute(slot, entry),
            Output::Retract { from } => self.retract(from),
            Output::Tell {
                gateway,
                entry,
                requests,
            } => self.tell(gateway, entry, requests),
            Output::Reply { id, outcome } => self.reply(id, outcome),
            Output::Emit(event) => self.emit(event),
        }
    }

    /// For a machine inside this one, which numbers its records as they will be numbered here.
    #[must_use]
    pub fn inner<N: Machine>(&self) -> Out<N> {
        Out {
            outputs: Vec::new(),
            persisted: self.persisted,
        }
    }

    /// Wants done what a machine inside this one wants done, in this one's words: all that it wants
    /// goes through here, from [`Out::inner`] on.
    pub fn absorb<N: Machine>(
        &mut self,
        inner: &mut Out<N>,
        message: impl Fn(N::Message) -> M::Message,
        record: impl Fn(N::Record) -> M::Record,
        timer: impl Fn(N::Timer) -> M::Timer,
    ) {
        let outputs = inner.outputs.drain(..);
        self.outputs
            .extend(outputs.map(|output| output.map(&message, &record, &timer)));
        self.persisted = inner.persisted;
    }

    /// Takes all outputs, keeping the allocation and the record count.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Output<M>> {
        self.outputs.drain(..)
    }

    /// Swaps the outputs with an empty buffer, so that they can be performed while steps go on.
    pub fn swap(&mut self, other: &mut Vec<Output<M>>) {
        debug_assert!(other.is_empty());
        std::mem::swap(&mut self.outputs, other);
    }
}
