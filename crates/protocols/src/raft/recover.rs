//! Starting: new, with everything promised before, or without.

use super::Replica;
use super::config::Config;
use super::log::Log;
use super::messages::{LogEntry, Record};
use super::mutants::Fault;
use super::role::Role;
use crate::shared::backlog::Backlog;
use crate::shared::claim::Claim;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::entry_names::EntryNames;
use crate::shared::leadership::Leadership;
use crate::shared::offers::Offers;
use crate::shared::reads::ReadQueries;
use crate::shared::rejoin::Voter;
use crate::shared::rejoins::Rejoins;
use crate::shared::start::start_from;
use crate::shared::timers::{Armed, Backoff};
use quorate_core::{Now, Out, Past, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What records say of the log, in whatever order they come: a host that frees a part of its own log writes
/// old records again, behind newer ones.
#[derive(Default)]
pub(super) struct Fold {
    /// By slot: what was written there under the latest leader, and its term.
    written: BTreeMap<Slot, (u64, LogEntry)>,
    /// The last cut, and the term of its leader.
    cut: Option<(Slot, u64)>,
    /// Whether the latest record counts, whatever it says (a mutant).
    is_in_order: bool,
}

impl Fold {
    fn append(&mut self, slot: Slot, at: u64, entry: LogEntry) {
        let known = self.written.get(&slot).map(|(known, _)| *known);
        if self.is_in_order || known.is_none_or(|known| known <= at) {
            self.written.insert(slot, (at, entry));
        }
    }

    fn cut(&mut self, from: Slot, at: u64) {
        self.cut = Some((from, at));
        if self.is_in_order {
            self.written.split_off(&from);
        }
    }

    /// The log behind what is decided: what is contiguous, and not void.
    fn into_log(self, mut log: Log) -> Log {
        let cut = self.cut.filter(|_| !self.is_in_order);
        for (slot, (at, entry)) in self.written {
            let is_void = cut.is_some_and(|(from, cut_at)| slot >= from && at < cut_at);
            if slot == log.end() && !is_void {
                log.push(entry);
            }
        }
        log
    }
}

impl Replica {
    /// Takes up where the past left off. A voter goes on as if it had been slow; a leader is none any more,
    /// for what it had said beyond its records it does not know.
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let (next, base, records) = start_from(past, config.seating.first_slot);
        let mut replica = Replica::empty(config, now, next, base, out);
        match records {
            Some(records) => replica.restore(records),
            None => replica.begin_rejoin(out),
        }
        replica.say_rejoin(config.seating.others(), out);
        replica.run_to_fixpoint(now, out);
        replica
    }

    fn empty(config: &Config, now: Now, next: Slot, done: DecidedSet, out: &Out<Self>) -> Replica {
        // Nothing of this epoch is before its first slot, so that every log is equal there.
        let term_before = (next == config.seating.first_slot).then_some(0);
        Replica {
            voter: Voter::new(config.seating.voter_seat(config.thresholds.rejoin)),
            term: 0,
            voted_for: None,
            log: Log::new(next, term_before),
            done,
            claim: Claim::default(),
            role: Role::Follower,
            leadership: Leadership::default(),
            backlog: Backlog::default(),
            offers: Offers::default(),
            names: EntryNames::new(
                config.seating.members[config.seating.me],
                config.seating.boot,
            ),
            reads: ReadQueries::default(),
            pace: Default::default(),
            disk: Disk::at_start(out.persisted()),
            patience: Default::default(),
            armed: Armed::default(),
            backoff: Backoff::default(),
            now_ns: now.mono_ns,
            config: Arc::new(config.clone()),
        }
    }

    fn restore(&mut self, records: Vec<Record>) {
        let mut fold = Fold {
            is_in_order: self.config.faults.is(Fault::ReplayInOrder),
            ..Fold::default()
        };
        for record in records {
            match record {
                Record::Vote { term, voted_for } if term >= self.term => {
                    (self.term, self.voted_for) = (term, voted_for);
                }
                Record::Vote { .. } => {}
                Record::Append { slot, at, entry } => {
                    self.restore_term(at);
                    fold.append(slot, at, entry);
                }
                Record::Cut { from, at } => {
                    self.restore_term(at);
                    fold.cut(from, at);
                }
                Record::Lives { lives, is_member } => self.voter.restore(lives, is_member),
            }
        }
        self.log = fold.into_log(self.log.clone());
    }

    /// A record was written in this term. A vote in it is in a record of its own, which was written before.
    fn restore_term(&mut self, term: u64) {
        if term > self.term {
            (self.term, self.voted_for) = (term, None);
        }
    }
}
