//! What becomes of requests when an epoch ends.

use super::{OwnSession, READER, Requests, Waiting, reading};
use crate::api::Token;
use quorate_core::{Command, Refusal, RequestId, Slot};
use std::collections::VecDeque;

impl<Q> Requests<Q> {
    /// The epoch is sealed, and `next` is the first slot behind: what it did not order is to be
    /// ordered in the next one, and reads that it did not answer are to be asked there. Whatever the
    /// machine got may or may not have been applied: under its id it is executed once. Writes that nobody
    /// waits for any more are not asked again: says whose they were, and why they are refused. `is_void`: the
    /// seal is applied here, and what waits is decided nowhere before it.
    pub(crate) fn start_over(&mut self, next: Slot, is_void: bool) -> Vec<(Token, Refusal)> {
        if self.session == OwnSession::Opening {
            self.session = OwnSession::Closed;
        }
        for read in self.located.split_off(&next).into_values().flatten() {
            self.located_count -= 1;
            self.reads.insert(self.next_read, read);
            self.next_read += 1;
        }
        for write in self.writes.values_mut() {
            let is_taken = write.waiting.ordered_ns > 0;
            write.is_doubtful = !is_void && (write.is_doubtful || is_taken);
        }
        let withdrawn = self.take_withdrawn();
        let is_taken = |waiting: &Waiting| waiting.ordered_ns > 0;
        let writes = self
            .writes
            .values_mut()
            .filter(|write| is_taken(&write.waiting));
        let again = writes.map(|write| {
            write.waiting.ordered_ns = 0;
            write.command.clone()
        });
        let mut queue: VecDeque<Command> = again.collect();
        let reads = self
            .reads
            .iter_mut()
            .filter(|(_, read)| is_taken(&read.waiting));
        queue.extend(reads.map(|(seq, read)| {
            read.waiting.ordered_ns = 0;
            let (client, seq) = (READER, *seq);
            reading(RequestId { client, seq })
        }));
        queue.append(&mut self.queue);
        self.queue = queue;
        withdrawn
    }

    /// Takes everything that waits. Says whose it was, and why each is refused.
    pub(crate) fn take_all(&mut self, refusal: Refusal) -> Vec<(Token, Refusal)> {
        self.queue.clear();
        self.due.clear();
        self.located_count = 0;
        self.bytes = 0;
        let located = std::mem::take(&mut self.located).into_values().flatten();
        let reads = std::mem::take(&mut self.reads).into_values();
        let writes = std::mem::take(&mut self.writes).into_values();
        let reads = reads.chain(located);
        let reads = reads.map(|read| (read.waiting.token, refusal));
        let writes = writes.map(|write| (write.waiting.token, write.refusal(refusal)));
        writes.chain(reads).collect()
    }
}
