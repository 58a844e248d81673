//! Requests of this replica's clients, from submission to answer.

mod again;
mod inside;
mod own_session;
mod withdraw;

use crate::api::Token;
use crate::epochs::Order;
use bytes::Bytes;
use own_session::own_client;
use quorate_core::{
    Boot, Class, ClientId, Command, Payload, Principal, Refusal, ReplicaId, RequestId, Slot, Wire,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
pub(crate) use withdraw::Withdrawn;

/// The client id under which machines see reads; they never enter the log.
const READER: ClientId = ClientId(u64::MAX);

/// A request that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiting {
    pub(crate) token: Token,
    pub(crate) submitted_ns: u64,
    /// When the machine got it; 0 before.
    pub(crate) ordered_ns: u64,
}

/// Whether the host's own session may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OwnSession {
    /// To be opened with the next write.
    Closed,
    /// Its opening is on its way through the log.
    Opening,
    /// Open.
    Open,
}

/// Nobody waits for the answer: this replica itself asks.
pub(crate) const NOBODY: Token = Token::MAX;

impl Waiting {
    /// What this replica itself asks for.
    pub(crate) fn of_nobody(now_ns: u64) -> Waiting {
        Waiting {
            token: NOBODY,
            submitted_ns: now_ns,
            ordered_ns: 0,
        }
    }
}

/// A write and who waits for it. The command stays until it is applied: an epoch that is sealed before
/// has not ordered it.
#[derive(Debug)]
struct Write {
    waiting: Waiting,
    command: Command,
    /// Nobody waits for it any more, and the machine, which has it, was told so.
    is_withdrawn: bool,
    /// A former machine had it, and may have offered it: whatever becomes of it now, it may be decided yet.
    is_doubtful: bool,
}

impl Write {
    fn bytes(&self) -> usize {
        self.command.body.len() + self.command.bulk_len() as usize
    }

    /// What to say of it where this is why it is not ordered now.
    fn refusal(&self, why: Refusal) -> Refusal {
        if self.is_doubtful {
            Refusal::Unknown
        } else {
            why
        }
    }
}

/// A read and who waits for it.
#[derive(Debug)]
pub(crate) struct Read<Q> {
    pub(crate) waiting: Waiting,
    pub(crate) query: Q,
}

/// Everything submitted here and not answered yet.
#[derive(Debug)]
pub(crate) struct Requests<Q> {
    me: ReplicaId,
    boot: Boot,
    client: ClientId,
    session: OwnSession,
    /// Sessions this boot has had before this one.
    renewals: u64,
    next_seq: u64,
    next_read: u64,
    /// Commands that the machine has not taken yet.
    queue: VecDeque<Command>,
    writes: BTreeMap<RequestId, Write>,
    /// Bytes of all writes, payloads included.
    bytes: usize,
    /// What countdowns have come to, and waits: nobody asks for it twice.
    due: BTreeSet<Bytes>,
    /// Writes that were answered ahead of their decision.
    early: BTreeSet<RequestId>,
    reads: BTreeMap<u64, Read<Q>>,
    /// Reads that stand for the questions of peers: of each peer the last, by the read's number and the question's.
    peer_reads: BTreeMap<ReplicaId, (u64, u64)>,
    /// Reads whose slot is known, by that slot.
    located: BTreeMap<Slot, Vec<Read<Q>>>,
    located_count: usize,
    /// The machine gets nothing for now: too few members can be reached.
    holds_back: bool,
}

impl<Q> Requests<Q> {
    pub(crate) fn new(me: ReplicaId, boot: Boot) -> Self {
        Requests {
            me,
            boot,
            client: own_client(me, boot, 0),
            renewals: 0,
            session: OwnSession::Closed,
            next_seq: 1,
            next_read: 1,
            queue: VecDeque::new(),
            writes: BTreeMap::new(),
            bytes: 0,
            due: BTreeSet::new(),
            early: BTreeSet::new(),
            reads: BTreeMap::new(),
            peer_reads: BTreeMap::new(),
            located: BTreeMap::new(),
            located_count: 0,
            holds_back: false,
        }
    }

    /// Requests without an answer.
    pub(crate) fn count(&self) -> usize {
        self.writes.len() + self.reads.len() + self.located_count
    }

    /// Bytes of writes without a result, payloads included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// For people: what waits, by what it waits for.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} requests not taken by the machine, {} writes without a result, {} reads without a \
             slot, {} reads whose slot is not applied, own session {:?}",
            self.queue.len(),
            self.writes.len(),
            self.reads.len(),
            self.located_count,
            self.session
        )
    }

    /// Queues a write under the host's own session.
    pub(crate) fn write(
        &mut self,
        waiting: Waiting,
        (body, payloads): (Bytes, Vec<Payload>),
        principal: Principal,
    ) {
        self.own(waiting, Class::Write, (body, payloads), principal);
    }

    /// Queues what a countdown has come to, under the host's own session, unless it waits already: a group that
    /// is slower than countdowns ask again would have ever more to order.
    pub(crate) fn due(&mut self, now_ns: u64, body: Bytes) {
        if self.due.insert(body.clone()) {
            let waiting = Waiting::of_nobody(now_ns);
            let content = (body, Vec::new());
            self.own(waiting, Class::Write, content, Principal::default());
        }
    }

    /// Queues an order under the host's own session.
    pub(crate) fn order(&mut self, waiting: Waiting, order: &Order) {
        let content = (order.to_bytes(), Vec::new());
        self.own(waiting, Class::Order, content, Principal::default());
    }

    /// Whether this order waits for its result.
    pub(crate) fn has_order(&self, order: &Order) -> bool {
        let body = order.to_bytes();
        let mut commands = self.writes.values().map(|write| &write.command);
        commands.any(|command| command.class == Class::Order && command.body == body)
    }

    /// Queues the next command of the host's own session.
    fn own(
        &mut self,
        waiting: Waiting,
        class: Class,
        (body, payloads): (Bytes, Vec<Payload>),
        principal: Principal,
    ) {
        let (client, seq) = (self.client, self.next_seq);
        self.next_seq += 1;
        let command = Command {
            id: RequestId { client, seq },
            acked: 0,
            class,
            principal,
            body,
            payloads,
        };
        self.enqueue(waiting, command);
    }

    fn enqueue(&mut self, waiting: Waiting, command: Command) {
        self.queue.push_back(command.clone());
        let write = Write {
            waiting,
            command,
            is_withdrawn: false,
            is_doubtful: false,
        };
        self.bytes += write.bytes();
        if let Some(before) = self.writes.insert(write.command.id, write) {
            self.bytes -= before.bytes();
        }
    }

    /// Queues a command of a client with its own session. Submitting it again replaces who waits.
    pub(crate) fn command(&mut self, waiting: Waiting, command: Command) {
        let before = self.writes.get_mut(&command.id);
        // Who asks again and again must not fill the queue.
        if let Some(before) = before.filter(|before| before.waiting.ordered_ns == 0) {
            before.waiting = waiting;
            return;
        }
        self.enqueue(waiting, command);
    }

    /// Commands that the machine has not taken yet.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Queues a linearizable read.
    pub(crate) fn read(&mut self, waiting: Waiting, query: Q) {
        let id = self.read_for_host();
        self.reads.insert(id.seq, Read { waiting, query });
    }

    /// Queues a read that stands for a peer's question.
    pub(crate) fn read_for(&mut self, peer: ReplicaId, number: u64) {
        let id = self.read_for_host();
        self.peer_reads.insert(peer, (id.seq, number));
    }

    /// Queues a read of which only the slot is of interest.
    pub(crate) fn read_for_host(&mut self) -> RequestId {
        let id = RequestId {
            client: READER,
            seq: self.next_read,
        };
        self.next_read += 1;
        self.queue.push_back(reading(id));
        id
    }

    /// Takes the peer whose question a read stands for, and the question's number.
    pub(crate) fn take_peer_read(&mut self, id: RequestId) -> Option<(ReplicaId, u64)> {
        if id.client != READER || self.peer_reads.is_empty() {
            return None;
        }
        let mut reads = self.peer_reads.iter();
        let (peer, _) = reads.find(|(_, (seq, _))| *seq == id.seq)?;
        let peer = *peer;
        let (_, number) = self.peer_reads.remove(&peer)?;
        Some((peer, number))
    }

    /// Takes the reads that the machine has not got.
    pub(crate) fn take_queued_reads(&mut self) -> Vec<RequestId> {
        if !self.queue.iter().any(|command| command.id.client == READER) {
            return Vec::new();
        }
        let (reads, others): (VecDeque<_>, VecDeque<_>) =
            (self.queue.drain(..)).partition(|command: &Command| command.id.client == READER);
        self.queue = others;
        reads.into_iter().map(|command| command.id).collect()
    }

    /// Reads that are for the machine after all.
    pub(crate) fn read_again(&mut self, reads: impl Iterator<Item = RequestId>) {
        self.queue.extend(reads.map(reading));
    }

    /// Up to `room` commands for the machine. While the own session is not open, its opening goes
    /// first and writes under it wait; everything else passes.
    pub(crate) fn take(&mut self, room: usize, now_ns: u64) -> Vec<Command> {
        let mut taken = Vec::with_capacity(room.min(self.queue.len()));
        let mut held = VecDeque::new();
        while taken.len() < room {
            let Some(mut command) = self.queue.pop_front() else {
                break;
            };
            let own = command.id.client == self.client;
            if own && self.session != OwnSession::Open {
                held.push_back(command);
                continue;
            }
            if own {
                command.acked = self.next_seq - 1;
            }
            command.acked = command.acked.min(self.acknowledgeable(command.id.client));
            self.mark_ordered(command.id, now_ns);
            taken.push(command);
        }
        if !held.is_empty() && self.session == OwnSession::Closed && taken.len() < room {
            self.session = OwnSession::Opening;
            taken.push(self.opening());
        }
        held.append(&mut self.queue);
        self.queue = held;
        taken
    }

    /// Whether the machine gets nothing for now.
    pub(crate) fn hold_back(&mut self, holds_back: bool) {
        self.holds_back = holds_back;
    }

    /// Whether the machine is to be given what waits for it.
    pub(crate) fn may_be_taken(&self) -> bool {
        self.has_queued() && !self.holds_back
    }

    /// Whether the machine should be offered commands.
    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty() && (self.session != OwnSession::Opening || self.has_foreign())
    }

    /// The own session's state changed: opened, or its opening was refused.
    pub(crate) fn set_session(&mut self, session: OwnSession) {
        self.session = session;
    }

    /// Whether this names the opening of the own session.
    pub(crate) fn is_opening(&self, id: RequestId) -> bool {
        id == self.opening_id()
    }

    /// The id under which the own session is opened.
    pub(crate) fn opening_id(&self) -> RequestId {
        RequestId {
            client: self.client,
            seq: 0,
        }
    }

    /// Every write that waits.
    pub(crate) fn writes(&self) -> Vec<RequestId> {
        self.writes.keys().copied().collect()
    }

    /// Who waits for a request.
    pub(crate) fn token_of(&self, id: RequestId) -> Option<Token> {
        let waiting = if id.client == READER {
            self.reads.get(&id.seq).map(|read| &read.waiting)
        } else {
            self.writes.get(&id).map(|write| &write.waiting)
        };
        waiting.map(|waiting| waiting.token)
    }

    /// Takes who waits for a write.
    pub(crate) fn take_write(&mut self, id: RequestId) -> Option<Waiting> {
        let write = self.writes.remove(&id)?;
        self.bytes -= write.bytes();
        if write.waiting.token == NOBODY {
            self.due.remove(&write.command.body);
        }
        Some(write.waiting)
    }

    /// Takes who waits for a write that the machine refuses, and says why it is refused.
    pub(crate) fn take_refused(
        &mut self,
        id: RequestId,
        refusal: Refusal,
    ) -> Option<(Token, Refusal)> {
        let refusal = self.writes.get(&id)?.refusal(refusal);
        let waiting = self.take_write(id)?;
        Some((waiting.token, refusal))
    }

    /// Takes who waits for a write that is as good as applied, and is not decided yet.
    pub(crate) fn take_early(&mut self, id: RequestId) -> Option<Waiting> {
        let waiting = self.take_write(id)?;
        self.early.insert(id);
        Some(waiting)
    }

    /// A command is decided.
    pub(crate) fn decided(&mut self, id: RequestId) {
        self.early.remove(&id);
    }

    /// The writes that were answered and are not decided as far as is known.
    pub(crate) fn early(&self) -> Vec<RequestId> {
        self.early.iter().copied().collect()
    }

    /// Takes a read that the machine refused.
    pub(crate) fn take_read(&mut self, id: RequestId) -> Option<Read<Q>> {
        if id.client == READER {
            self.reads.remove(&id.seq)
        } else {
            None
        }
    }

    /// A read may be answered once every slot before `slot` is applied.
    pub(crate) fn locate(&mut self, id: RequestId, slot: Slot) {
        if let Some(read) = self.take_read(id) {
            self.located.entry(slot).or_default().push(read);
            self.located_count += 1;
        }
    }

    /// Takes the reads that may be answered when `next` is the first slot not applied.
    pub(crate) fn take_located(&mut self, next: Slot) -> Vec<Read<Q>> {
        if self
            .located
            .first_key_value()
            .is_none_or(|(slot, _)| *slot > next)
        {
            return Vec::new();
        }
        let later = self.located.split_off(&next.next());
        let due = std::mem::replace(&mut self.located, later);
        let due: Vec<_> = due.into_values().flatten().collect();
        self.located_count -= due.len();
        due
    }

    /// Takes every write under the own session that the machine has not got: it cannot be ordered. Says whose they
    /// were, and why each is refused.
    pub(crate) fn take_held(&mut self, refusal: Refusal) -> Vec<(Token, Refusal)> {
        let client = self.client;
        let (own, others) = self.queue.drain(..).partition(|c| c.id.client == client);
        self.queue = others;
        let own: VecDeque<Command> = own;
        own.iter()
            .filter_map(|command| self.take_refused(command.id, refusal))
            .collect()
    }

    fn has_foreign(&self) -> bool {
        self.queue
            .iter()
            .any(|command| command.id.client != self.client)
    }

    fn mark_ordered(&mut self, id: RequestId, now_ns: u64) {
        if id.client == READER {
            if let Some(read) = self.reads.get_mut(&id.seq) {
                read.waiting.ordered_ns = now_ns;
            }
        } else if let Some(write) = self.writes.get_mut(&id) {
            write.waiting.ordered_ns = now_ns;
        }
    }

    /// The sequence number up to which a client may say that it needs no results any more, as far as is known
    /// here: up to the first of its writes that waits. One that was answered ahead of its decision counts as
    /// waiting: what commutes with it may yet be decided before it, and the acknowledgement would come
    /// before what it acknowledges, which would then be refused.
    fn acknowledgeable(&self, client: ClientId) -> u64 {
        let from = RequestId { client, seq: 0 };
        let of_client = |id: &&RequestId| id.client == client;
        let waiting = self.writes.range(from..).map(|(id, _)| id).next();
        // Who has a session of its own knows what it has the answers of.
        let waiting = waiting.filter(of_client).filter(|_| client == self.client);
        let early = self.early.range(from..).next().filter(of_client);
        let first = waiting.into_iter().chain(early).min();
        first.map_or(u64::MAX, |id| id.seq - 1)
    }

    fn opening(&self) -> Command {
        let id = self.opening_id();
        // The owner ties the sessions of all boots of this replica together: opening one ends those
        // of its former lives, whose clients are gone. A remote gateway has no former lives: what it leaves
        // goes when it was not used for longest.
        let owner = match self.me.is_gateway() {
            true => 0,
            false => u64::from(self.me.0) + 1,
        };
        let body = Bytes::copy_from_slice(&owner.to_le_bytes());
        Command {
            id,
            acked: 0,
            class: Class::OpenSession,
            principal: Principal::default(),
            body,
            payloads: Vec::new(),
        }
    }
}

/// A read, as machines see it.
fn reading(id: RequestId) -> Command {
    Command {
        id,
        acked: 0,
        class: Class::Read,
        principal: Principal::default(),
        body: Bytes::new(),
        payloads: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
