//! Starting: new, with everything promised before, or without.

use super::Replica;
use super::config::Config;
use super::fragments::Fragments;
use super::lease::Lease;
use super::messages::{Record, has_bulk};
use super::mutants::Fault;
use super::offers::Offer;
use super::presence::Presence;
use super::role::{Proposal, Role};
use crate::shared::backlog::Backlog;
use crate::shared::ballot::Ballot;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::entry_names::EntryNames;
use crate::shared::leadership::Leadership;
use crate::shared::reads::ReadQueries;
use crate::shared::rejoin::Voter;
use crate::shared::rejoins::Rejoins;
use crate::shared::start::start_from;
use crate::shared::timers::{Armed, Backoff};
use crate::shared::under_way::Line;
use quorate_core::{Entry, Now, Out, Past, Slot};
use std::collections::VecDeque;
use std::sync::Arc;

impl Replica {
    /// Takes up where the past left off. An acceptor goes on as if it had been slow; a leader is
    /// none any more, for what it had proposed beyond its records it does not know.
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let (next, base, records) = start_from(past, config.seating.first_slot);
        let mut replica = Replica::empty(config, now, next, base, out);
        match records {
            Some(records) => records.into_iter().for_each(|one| replica.restore(one)),
            None => replica.begin_rejoin(out),
        }
        replica.say_rejoin(config.seating.others(), out);
        replica.run_to_fixpoint(now, out);
        replica
    }

    fn empty(config: &Config, now: Now, ap: Slot, done: DecidedSet, out: &Out<Self>) -> Replica {
        Replica {
            voter: Voter::new(config.seating.voter_seat(config.thresholds.rejoin)),
            promised: Default::default(),
            ap,
            done,
            slots: VecDeque::new(),
            orders_end: ap,
            claim: Default::default(),
            recent: VecDeque::with_capacity(config.window),
            role: Role::Follower,
            leadership: Leadership::default(),
            backlog: Backlog::default(),
            offers: Vec::<Offer>::new(),
            large_offers: 0,
            names: EntryNames::new(config.seating.my_id(), config.seating.boot),
            reads: ReadQueries::default(),
            lease: Lease::after_start(config, now.mono_ns),
            presence: Presence::of(config.seating.others()),
            parked: Default::default(),
            large: Backlog::default(),
            line: Line::default(),
            pace: Default::default(),
            forward_pace: Default::default(),
            disk: Disk::at_start(out.persisted()),
            patience: Default::default(),
            armed: Armed::default(),
            backoff: Backoff::default(),
            config: Arc::new(config.clone()),
        }
    }

    fn restore(&mut self, record: Record) {
        match record {
            Record::Promise { ballot } | Record::Candidacy { ballot } => {
                self.promised = self.promised.max(ballot);
            }
            Record::Accept {
                slot,
                ballot,
                value,
                code,
                is_held,
            } => {
                self.promised = self.promised.max(ballot);
                if let Some(offset) = slot.0.checked_sub(self.ap.0) {
                    let is_held = is_held || !has_bulk(value.as_ref());
                    let value = value.map(|entry| entry.with_share(None));
                    self.restore_accept(offset as usize, ballot, value, code, is_held);
                }
            }
            Record::Again { slot, ballot } => {
                self.promised = self.promised.max(ballot);
                let instance = self.instance_mut(slot);
                if let Some(proposal) = instance.and_then(|slot| slot.accepted.as_mut()) {
                    proposal.ballot = ballot;
                }
            }
            Record::Lives { lives, is_member } => self.voter.restore(lives, is_member),
        }
    }

    /// Fragments of one value add up, as when they were accepted.
    fn restore_accept(
        &mut self,
        offset: usize,
        ballot: Ballot,
        value: Option<Entry>,
        code: u8,
        is_held: bool,
    ) {
        let keeps_fragments = !self.config.faults.is(Fault::DropFragments);
        let name = value.as_ref().map(|entry| entry.id);
        let instance = self.instance_grown(offset);
        let before = instance.accepted.take();
        let before = before.filter(|before| before.name() == name && keeps_fragments);
        let mut fragments = before.map_or(Fragments::default(), |before| before.fragments);
        if is_held {
            fragments.add(code);
        } else {
            fragments.lose(code);
        }
        instance.accepted = Some(Proposal {
            ballot,
            value,
            fragments,
        });
    }
}
