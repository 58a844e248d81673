//! Requests that nobody waits for any more.

use super::{NOBODY, READER, Requests, Waiting, Write};
use crate::api::Token;
use quorate_core::{Refusal, RequestId};
use std::collections::BTreeSet;

/// What becomes of requests that nobody waits for.
#[derive(Debug, Default)]
pub(crate) struct Withdrawn {
    /// Whose are gone, and why they are refused: the machine has not got them, or they were reads.
    pub(crate) gone: Vec<(Token, Refusal)>,
    /// Those that the machine has: it may have offered them to peers. Each is named once.
    pub(crate) taken: BTreeSet<RequestId>,
}

impl<Q> Requests<Q> {
    /// Drops what nobody waits for any more and the machine has not got. What this replica asks by itself is
    /// always wanted.
    pub(crate) fn withdraw(&mut self, is_wanted: impl Fn(Token) -> bool) -> Withdrawn {
        let is_wanted = |waiting: &Waiting| waiting.token == NOBODY || is_wanted(waiting.token);
        let mut withdrawn = Withdrawn::default();
        self.withdraw_reads(&is_wanted, &mut withdrawn);
        let mut unwanted = Vec::new();
        for (id, write) in &mut self.writes {
            if write.is_withdrawn || is_wanted(&write.waiting) {
                continue;
            }
            if write.waiting.ordered_ns == 0 {
                unwanted.push(*id);
            } else {
                write.is_withdrawn = true;
                withdrawn.taken.insert(*id);
            }
        }
        let unwanted = unwanted.into_iter();
        let gone = unwanted.filter_map(|id| self.take_refused(id, Refusal::Withdrawn));
        withdrawn.gone.extend(gone);
        let (reads, writes, of_peers) = (&self.reads, &self.writes, &self.peer_reads);
        let is_of_peer = |read: u64| of_peers.values().any(|(seq, _)| *seq == read);
        self.queue.retain(|command| match command.id.client {
            READER => reads.contains_key(&command.id.seq) || is_of_peer(command.id.seq),
            _ => writes.contains_key(&command.id),
        });
        withdrawn
    }

    /// Reads change nothing: they are dropped wherever they are.
    fn withdraw_reads(&mut self, is_wanted: &impl Fn(&Waiting) -> bool, withdrawn: &mut Withdrawn) {
        let unwanted = self
            .reads
            .extract_if(.., |_, read| !is_wanted(&read.waiting));
        for (seq, read) in unwanted {
            let token = read.waiting.token;
            withdrawn.gone.push((token, Refusal::Withdrawn));
            if read.waiting.ordered_ns > 0 {
                let client = READER;
                withdrawn.taken.insert(RequestId { client, seq });
            }
        }
        for reads in self.located.values_mut() {
            let unwanted = reads.extract_if(.., |read| !is_wanted(&read.waiting));
            let gone = unwanted.map(|read| (read.waiting.token, Refusal::Withdrawn));
            withdrawn.gone.extend(gone);
        }
        self.located.retain(|_, reads| !reads.is_empty());
        self.located_count = self.located.values().map(Vec::len).sum();
    }

    /// Takes the writes that a machine that is gone had and nobody waits for. Says whose they were, and why they
    /// are refused.
    pub(super) fn take_withdrawn(&mut self) -> Vec<(Token, Refusal)> {
        let is_withdrawn = |(_, write): &(&RequestId, &Write)| write.is_withdrawn;
        let withdrawn = self.writes.iter().filter(is_withdrawn);
        let ids: Vec<RequestId> = withdrawn.map(|(id, _)| *id).collect();
        let taken = |id| self.take_refused(id, Refusal::Withdrawn);
        ids.into_iter().filter_map(taken).collect()
    }
}
