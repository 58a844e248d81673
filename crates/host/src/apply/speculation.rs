//! What is executed ahead of its decision, and taken back when it comes out otherwise.
//!
//! The replicated state moves only where a slot is decided. Until then the application alone is ahead:
//! by whole entries of plain writes that are sure to be executed if they are decided where they were
//! expected, and that it can take back. Everything else, and what is behind it, waits for its decision:
//! so sessions and epochs never have to be taken back, and nothing executes behind an undecided seal.

use super::Applier;
use bytes::Bytes;
use quorate_core::{
    Application, At, Class, ClientId, Command, Entry, EntryId, PayloadId, RequestId, Slot,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Entries executed ahead, at most: so much work may have to be done again whenever somebody looks at
/// the application.
const ENTRIES_MAX: usize = 1024;
/// Entries that wait to be executed ahead, at most; the others are executed when they are decided.
const WAITING_MAX: usize = 64 << 10;

/// Entries executed ahead of their decision, and entries that are to be.
#[derive(Debug, Default)]
pub(crate) struct Speculation {
    /// Executed, in the slots from the first undecided one on.
    done: VecDeque<Done>,
    /// To be executed behind those.
    waiting: VecDeque<Waiting>,
    /// What clients have in `done`.
    clients: BTreeMap<ClientId, Client>,
    /// What the entry that is being decided came to.
    results: VecDeque<(RequestId, Bytes)>,
}

#[derive(Debug)]
struct Done {
    slot: Slot,
    entry: Entry,
    stamp_ns: u64,
    results: Vec<(RequestId, Bytes)>,
}

#[derive(Debug)]
struct Waiting {
    slot: Slot,
    entry: Entry,
    /// Whether the entry's results were told once already.
    is_told: bool,
}

/// What one client has executed ahead.
#[derive(Debug, Default)]
struct Client {
    requests: BTreeSet<u64>,
    acked: u64,
}

impl Speculation {
    /// Whether anything was executed.
    pub(crate) fn is_any(&self) -> bool {
        !self.done.is_empty()
    }

    /// An entry is to be executed in this slot.
    pub(crate) fn ask(&mut self, slot: Slot, entry: Entry) {
        if self.waiting.len() < WAITING_MAX {
            let is_told = false;
            self.waiting.push_back(Waiting {
                slot,
                entry,
                is_told,
            });
        }
    }

    /// What a command of the entry that is being decided came to.
    pub(crate) fn take_result(&mut self, id: RequestId) -> Option<Bytes> {
        let (executed, result) = self.results.pop_front()?;
        assert_eq!(
            executed, id,
            "what is executed ahead is sure to be executed"
        );
        Some(result)
    }

    /// A request that was executed is decided.
    fn forget(&mut self, id: RequestId) {
        if let Some(client) = self.clients.get_mut(&id.client) {
            client.requests.remove(&id.seq);
            if client.requests.is_empty() {
                self.clients.remove(&id.client);
            }
        }
    }
}

impl<A: Application> Applier<A> {
    /// Executes the next entry that waits, if that can be; says what it came to, the first time.
    pub(crate) fn execute_ahead(&mut self) -> Option<(Slot, EntryId, Vec<Bytes>)> {
        loop {
            let next = Slot(self.next().0 + self.speculation.done.len() as u64);
            while self
                .speculation
                .waiting
                .pop_front_if(|w| w.slot < next)
                .is_some()
            {}
            let is_next = self
                .speculation
                .waiting
                .front()
                .is_some_and(|w| w.slot == next);
            if !is_next || self.speculation.done.len() >= ENTRIES_MAX {
                return None;
            }
            let entry = self.speculation.waiting.front()?.entry.clone();
            let commands = self.sure_commands(&entry)?;
            let Waiting { slot, is_told, .. } = self.speculation.waiting.pop_front()?;
            let id = entry.id;
            let results = self.attempt(slot, entry, &commands);
            if !is_told {
                return Some((slot, id, results));
            }
        }
    }

    /// The commands of an entry, if it is sure that all of them will be executed, and they can be taken
    /// back.
    fn sure_commands(&self, entry: &Entry) -> Option<Vec<Command>> {
        let commands: Result<Vec<Command>, _> = entry.commands().collect();
        let commands = commands.ok().filter(|_| !entry.is_order())?;
        let mut here: BTreeMap<ClientId, Client> = BTreeMap::new();
        for command in &commands {
            let is_plain = command.class == Class::Write && command.payloads.is_empty();
            if !is_plain || !self.app().is_retractable(&command.body) {
                return None;
            }
            let RequestId { client, seq } = command.id;
            let before = self.speculation.clients.get(&client);
            let within = here.entry(client).or_default();
            let count = before.map_or(0, |client| client.requests.len()) + within.requests.len();
            let acked = before.map_or(0, |client| client.acked).max(within.acked);
            let is_again = before.is_some_and(|client| client.requests.contains(&seq));
            let is_again = is_again || !within.requests.insert(seq);
            if is_again || !self.sessions().is_sure(command.id, count, acked) {
                return None;
            }
            within.acked = within.acked.max(command.acked);
        }
        Some(commands)
    }

    fn attempt(&mut self, slot: Slot, entry: Entry, commands: &[Command]) -> Vec<Bytes> {
        let before = self.speculation.done.back().map(|done| done.stamp_ns);
        let stamp_ns = before.unwrap_or(self.stamp_ns()).max(entry.stamp_ns);
        let payload = PayloadId {
            entry: entry.id,
            part: 0,
        };
        let mut results = Vec::with_capacity(commands.len());
        for (command, index) in commands.iter().zip(0..) {
            let at = At {
                slot,
                index,
                stamp_ns,
                principal: command.principal,
                payload,
                // Orders are alone in their entries, and nothing is executed ahead behind one.
                admission: self.admission(),
            };
            let result = self.app_mut().attempt(at, &command.body);
            results.push((command.id, result));
            let client = self
                .speculation
                .clients
                .entry(command.id.client)
                .or_default();
            client.requests.insert(command.id.seq);
            client.acked = client.acked.max(command.acked);
        }
        let told = results.iter().map(|(_, result)| result.clone()).collect();
        self.speculation.done.push_back(Done {
            slot,
            entry,
            stamp_ns,
            results,
        });
        told
    }

    /// Another slot is decided. If this is the entry that was executed in it, its results are at hand
    /// now; if it is another one, everything executed is taken back.
    pub(crate) fn decided_ahead(&mut self, slot: Slot, entry: Option<&Entry>) {
        let id = entry.map(|entry| entry.id);
        let is_same = |done: &mut Done| done.slot == slot && Some(done.entry.id) == id;
        if let Some(done) = self.speculation.done.pop_front_if(is_same) {
            for (id, _) in &done.results {
                self.speculation.forget(*id);
            }
            self.speculation.results = done.results.into();
        } else if !self.speculation.done.is_empty() {
            self.retract_from(slot);
        }
    }

    /// Everything executed is taken back, to be executed again later: somebody looks at the application.
    pub(crate) fn take_back(&mut self) {
        while let Some(done) = self.speculation.done.pop_back() {
            done.results.iter().for_each(|_| self.app_mut().retract());
            let Done { slot, entry, .. } = done;
            let is_told = true;
            self.speculation.waiting.push_front(Waiting {
                slot,
                entry,
                is_told,
            });
        }
        self.speculation.clients.clear();
    }

    /// What was to be executed in these slots is not decided there.
    pub(crate) fn retract_from(&mut self, from: Slot) {
        self.take_back();
        self.speculation
            .waiting
            .retain(|waiting| waiting.slot < from);
    }
}

#[cfg(test)]
mod tests;
