//! Commands that wait for an entry.

use quorate_core::{Class, Command, EntryBuilder};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// Commands that no entry holds yet, in the order they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog {
    commands: VecDeque<Command>,
    bytes: usize,
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

    pub(crate) fn push(&mut self, command: Command) {
        self.bytes += size_of(&command);
        self.commands.push_back(command);
    }

    /// Begins an entry: the oldest commands within the limits, and at least one if there is any. An
    /// order gets one for itself.
    pub(crate) fn fill(&mut self, commands_max: usize, bytes_max: usize) -> EntryBuilder {
        let mut batch = EntryBuilder::with_capacity(self.bytes.min(bytes_max));
        while let Some(command) = self.commands.front() {
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

    /// Takes everything that waits.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Command> {
        self.bytes = 0;
        self.commands.drain(..)
    }
}

/// About how many bytes a command takes, its payloads included.
fn size_of(command: &Command) -> usize {
    command.encoded_len_max() + command.bulk_len() as usize
}

impl Hash for Backlog {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for command in &self.commands {
            (command.id, command.acked, command.principal).hash(to);
            (command.class == Class::Order).hash(to);
            command.body.hash(to);
        }
    }
}
