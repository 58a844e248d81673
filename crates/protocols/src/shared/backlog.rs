//! Commands that wait for an entry.

use quorate_core::{Class, Command, EntryBuilder, Machine, Out, Outcome, Refusal, RequestId};
use std::collections::{BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

/// Commands that no entry holds yet, in the order they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog {
    commands: VecDeque<Waiting>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Waiting {
    command: Command,
    /// Since when, ns on the own monotonic clock; the end of time where it may wait for ever.
    since_ns: u64,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// About how many bytes they take in entries.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// One that may wait for ever.
    pub(crate) fn push(&mut self, command: Command) {
        self.push_since(command, u64::MAX);
    }

    /// One that [`Backlog::pop_before`] may give back, if it waits for long.
    pub(crate) fn push_since(&mut self, command: Command, since_ns: u64) {
        self.bytes += size_of(&command);
        self.commands.push_back(Waiting { command, since_ns });
    }

    /// The oldest command, if it waits since before a time.
    pub(crate) fn pop_before(&mut self, ns: u64) -> Option<Command> {
        let oldest = self.commands.pop_front_if(|oldest| oldest.since_ns < ns)?;
        self.bytes -= size_of(&oldest.command);
        Some(oldest.command)
    }

    /// Begins an entry: the oldest commands within the limits, and at least one if there is any. An
    /// order gets one for itself.
    pub(crate) fn fill(&mut self, commands_max: usize, bytes_max: usize) -> EntryBuilder {
        let mut batch = EntryBuilder::with_capacity(self.inline_bytes(commands_max, bytes_max));
        while let Some(Waiting { command, .. }) = self.commands.front() {
            let size = size_of(command);
            let filled = batch.body_len() + batch.bulk_len() as usize;
            let is_full = batch.count() >= commands_max || filled + size > bytes_max;
            if is_full && batch.count() > 0 || !batch.has_place_for(command) {
                break;
            }
            batch.push(command);
            self.bytes -= size;
            self.commands.pop_front();
        }
        batch
    }

    /// About how many bytes of an entry the oldest commands take within the limits. Their payloads
    /// are beside it: room for those would be kept, empty, for as long as the entry is.
    fn inline_bytes(&self, commands_max: usize, bytes_max: usize) -> usize {
        let (mut inline, mut all) = (0, 0);
        for Waiting { command, .. } in self.commands.iter().take(commands_max) {
            all += size_of(command);
            if inline > 0 && all > bytes_max {
                break;
            }
            inline += command.encoded_len_max();
        }
        inline
    }

    /// Takes out the commands of these requests, and says which there were.
    pub(crate) fn withdraw(&mut self, ids: &BTreeSet<RequestId>) -> Vec<RequestId> {
        let mut withdrawn = Vec::new();
        let bytes = &mut self.bytes;
        self.commands.retain(|Waiting { command, .. }| {
            let is_wanted = !ids.contains(&command.id);
            if !is_wanted {
                *bytes -= size_of(command);
                withdrawn.push(command.id);
            }
            is_wanted
        });
        withdrawn
    }

    /// Takes everything that waits.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Command> {
        self.bytes = 0;
        self.commands.drain(..).map(|waiting| waiting.command)
    }
}

/// Takes the reads of these requests out of those that wait, and says which there were.
pub(crate) fn withdraw_reads(
    reads: &mut Vec<RequestId>,
    ids: &BTreeSet<RequestId>,
) -> Vec<RequestId> {
    reads.extract_if(.., |id| ids.contains(id)).collect()
}

/// Says of requests that they are withdrawn.
pub(crate) fn refuse_withdrawn<M: Machine>(ids: Vec<RequestId>, out: &mut Out<M>) {
    for id in ids {
        out.reply(id, Outcome::Refused(Refusal::Withdrawn));
    }
}

/// About how many bytes a command takes, its payloads included.
fn size_of(command: &Command) -> usize {
    command.encoded_len_max() + command.bulk_len() as usize
}

impl Hash for Backlog {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for Waiting { command, .. } in &self.commands {
            (command.id, command.acked, command.principal).hash(to);
            (command.class == Class::Order).hash(to);
            command.body.hash(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_core::{Payload, Principal};

    fn command(body: usize, payload: Option<usize>) -> Command {
        let payload = payload.map(|len| Payload::of(Bytes::from(vec![1; len])));
        Command {
            id: RequestId::default(),
            acked: 0,
            class: Class::Write,
            principal: Principal(0),
            body: Bytes::from(vec![2; body]),
            payloads: payload.into_iter().collect(),
        }
    }

    #[test]
    fn what_waits_for_long_comes_back_and_what_may_wait_for_ever_does_not() {
        let mut backlog = Backlog::default();
        for since_ns in [10, 20, 30] {
            backlog.push_since(command(since_ns as usize, None), since_ns);
        }
        backlog.push(command(1, None));
        let mut before = |ns| backlog.pop_before(ns).map(|command| command.body.len());
        assert_eq!((before(10), before(11), before(11)), (None, Some(10), None));
        assert_eq!(
            (before(25), before(99), before(99)),
            (Some(20), Some(30), None)
        );
        assert_eq!(backlog.fill(10, 1_000).count(), 1);
        assert_eq!(backlog.bytes(), 0);
    }

    #[test]
    fn what_nobody_waits_for_is_taken_out_and_its_bytes_with_it() {
        let mut backlog = Backlog::default();
        let id = |seq| RequestId {
            seq,
            ..RequestId::default()
        };
        for seq in 1..=4 {
            let body = 100 * seq as usize;
            backlog.push(Command {
                id: id(seq),
                ..command(body, None)
            });
        }
        let before = backlog.bytes();
        let unwanted = BTreeSet::from([id(2), id(4), id(9)]);
        assert_eq!(backlog.withdraw(&unwanted), [id(2), id(4)]);
        assert!((600..700).contains(&(before - backlog.bytes())));
        let left: Vec<u64> = backlog.drain().map(|command| command.id.seq).collect();
        assert_eq!((left, backlog.bytes()), (vec![1, 3], 0));
    }

    #[test]
    fn an_entry_has_room_for_what_is_in_it_and_not_for_what_is_beside_it() {
        let mut backlog = Backlog::default();
        backlog.push(command(100, Some(1 << 20)));
        assert!((100..1_000).contains(&backlog.inline_bytes(10, 4 << 20)));
        for _ in 0..8 {
            backlog.push(command(100, Some(1 << 20)));
        }
        // As many as are taken, by either limit.
        let three = backlog.inline_bytes(3, 100 << 20);
        assert!(three < 4 * 200);
        assert_eq!(backlog.inline_bytes(10, (3 << 20) + 1_000), three);
        assert_eq!(backlog.fill(10, (3 << 20) + 1_000).count(), 3);
    }
}
