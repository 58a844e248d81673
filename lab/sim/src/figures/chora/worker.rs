//! The protocol thread of a replica: what waits for it, and its clients.

use super::cost::Cost;
use bytes::Bytes;
use quorate_core::{Class, ClientId, Command, Entry, Principal, RequestId, Slot};
use quorate_protocols::chora::{Message, Timer};
use std::collections::{BTreeMap, VecDeque};

/// Messages that wait to be processed, at most: more are dropped, as by a ring.
pub(super) const RING: usize = 512;
const BODY_BYTES: usize = 16;

/// Something to process.
pub(super) enum Task {
    /// A message of the replica with this index.
    Hear { from: usize, message: Message },
    /// Commands of clients.
    Submit(Vec<Command>),
    /// The decided slots before `until` that a peer has.
    Install { from: usize, until: Slot },
    /// A timer that is due.
    Fire(Timer),
}

impl Task {
    /// Cost of the task, ns, without what is said because of it. What clients send comes through
    /// another thread.
    pub(super) fn cost_ns(&self, cost: &Cost) -> u64 {
        let Task::Hear { message, .. } = self else {
            return 0;
        };
        let proposals = match message {
            Message::Pulse(pulse) => {
                let value = pulse
                    .proposal
                    .as_ref()
                    .and_then(|proposal| proposal.value.as_ref());
                usize::from(value.is_some()) + pulse.recover.len()
            }
            _ => 0,
        };
        cost.message_ns + proposals as u64 * cost.proposal_ns
    }
}

/// The protocol thread of a replica.
pub(super) struct Worker {
    inbox: VecDeque<Task>,
    /// Whether the replica runs.
    pub(super) is_up: bool,
    /// When the task under way is done, ns.
    pub(super) free_ns: u64,
    /// When the next turn is planned, ns.
    pub(super) turn_at_ns: Option<u64>,
    /// When each own command that is not committed came, ns, by number.
    asked_ns: BTreeMap<u64, u64>,
    client: ClientId,
    seq: u64,
}

impl Worker {
    /// The thread of the replica with this index; it has nothing to do yet.
    pub(super) fn new(index: usize) -> Worker {
        Worker {
            inbox: VecDeque::new(),
            is_up: true,
            free_ns: 0,
            turn_at_ns: None,
            asked_ns: BTreeMap::new(),
            client: ClientId(index as u64 + 1),
            seq: 0,
        }
    }

    /// Takes something to process, unless it is a message and there is no place for it.
    pub(super) fn take(&mut self, task: Task) -> bool {
        let is_message = matches!(task, Task::Hear { .. });
        let has_place = self.inbox.len() < RING || !is_message;
        if has_place && self.is_up {
            self.inbox.push_back(task);
        }
        has_place
    }

    /// The thread does nothing until then. What it was to do meanwhile it does then.
    pub(super) fn be_busy_until(&mut self, time_ns: u64) {
        self.free_ns = self.free_ns.max(time_ns);
        self.turn_at_ns = None;
    }

    /// The number of own commands that are not committed yet.
    pub(super) fn waiting(&self) -> u64 {
        self.asked_ns.len() as u64
    }

    /// New commands of the clients of the replica.
    pub(super) fn commands(&mut self, count: u64, now_ns: u64) -> Task {
        let commands = (0..count).map(|_| {
            self.seq += 1;
            self.asked_ns.insert(self.seq, now_ns);
            Command {
                id: RequestId {
                    client: self.client,
                    seq: self.seq,
                },
                acked: self.seq - 1,
                class: Class::Write,
                principal: Principal(0),
                body: Bytes::from_static(&[7; BODY_BYTES]),
                payloads: Vec::new(),
            }
        });
        Task::Submit(commands.collect())
    }

    /// When the thread has something to do and is free, ns, given when each armed timer is due.
    pub(super) fn due_ns(&self, timers: &BTreeMap<Timer, u64>) -> Option<u64> {
        if !self.is_up {
            return None;
        }
        let timer_ns = timers.values().min().copied();
        let inbox_ns = (!self.inbox.is_empty()).then_some(0);
        let first_ns = timer_ns.into_iter().chain(inbox_ns).min()?;
        Some(first_ns.max(self.free_ns))
    }

    /// The task to process now, given when each armed timer is due.
    pub(super) fn next_task(&mut self, timers: &BTreeMap<Timer, u64>, now_ns: u64) -> Option<Task> {
        if !self.is_up {
            return None;
        }
        let due = timers.iter().filter(|(_, due_ns)| **due_ns <= now_ns);
        let first = due.min_by_key(|(_, due_ns)| **due_ns);
        let timer = first.map(|(timer, _)| Task::Fire(*timer));
        timer.or_else(|| self.inbox.pop_front())
    }

    /// A slot is delivered. How long the replica's own commands in it took, ns.
    pub(super) fn apply(&mut self, entry: Option<&Entry>, now_ns: u64) -> Vec<u64> {
        let commands = entry.into_iter().flat_map(Entry::commands).flatten();
        let own = commands.filter(|command| command.id.client == self.client);
        let asked = own.filter_map(|command| self.asked_ns.remove(&command.id.seq));
        asked.map(|asked_ns| now_ns - asked_ns).collect()
    }
}
