//! Starting: new, with everything promised before, or without.
//!
//! A replica that starts again with its disk goes on as if it had been slow; a leader is none any more, and does not
//! use its ballot again, for what it had asked for beyond its records it does not know. A fast round that was open
//! is not, until its leader says so again.
//!
//! A replica that lost its promises writes that down first of all, for a log with nothing in it says at the next
//! start that nothing was ever promised. It votes for nothing and promises nothing, learns what is decided, and is one
//! of those that may fail, until an epoch replaces it.

use super::Replica;
use super::config::Config;
use super::messages::{Record, Shown, Vote};
use super::replica::Armed;
use super::state::{Role, Trust};
use crate::shared::ballot::Ballot;
use crate::shared::claim::Fetcher;
use crate::shared::clients::Clients;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::start::start_from;
use crate::shared::timers::Backoff;
use quorate_core::{MemberSet, Now, Out, Past, Slot};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

impl Replica {
    /// Takes up where the past left off.
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let (next, base, records) = start_from(past, config.seating.first_slot);
        let mut replica = Replica::beginning_at(next, base, config, out);
        replica.now_ns = now.mono_ns;
        match records {
            Some(records) => records.into_iter().for_each(|one| replica.restore(one)),
            None => {
                replica.is_silent = true;
                out.persist(Record::Lost);
            }
        }
        replica.hear_votes();
        replica.run_to_fixpoint(now, out);
        replica
    }

    fn beginning_at(next: Slot, done: DecidedSet, config: &Config, out: &Out<Self>) -> Replica {
        Replica {
            is_silent: false,
            promised: Ballot::default(),
            highest: Ballot::default(),
            any: None,
            free: next,
            votes: BTreeMap::new(),
            heard: BTreeMap::new(),
            next,
            done,
            decided: BTreeMap::new(),
            recent: VecDeque::new(),
            fetcher: Fetcher::default(),
            role: Role::Follower,
            trust: Trust::default(),
            down: MemberSet::EMPTY,
            clients: Clients::new(&config.seating),
            disk: Disk::at_start(out.persisted()),
            armed: Armed::default(),
            backoff: Backoff::default(),
            now_ns: 0,
            config: Arc::new(config.clone()),
        }
    }

    /// Takes one record, in whatever order they come: hosts write old ones again, behind newer ones.
    fn restore(&mut self, record: Record) {
        match record {
            Record::Vote(Shown { slot, vote }) => {
                self.restore_promise(vote.ballot);
                let known = self.votes.get(&slot).map(Vote::rank);
                if slot >= self.next && known < Some(vote.rank()) {
                    self.votes.insert(slot, vote);
                }
            }
            Record::Promise(ballot) => self.restore_promise(ballot),
            // It wrote nothing since, and nothing before counts.
            Record::Lost => self.is_silent = true,
        }
    }

    fn restore_promise(&mut self, ballot: Ballot) {
        self.promised = self.promised.max(ballot);
        self.highest = self.promised;
    }

    /// What got a vote may be decided: its entry is kept until it is.
    fn hear_votes(&mut self) {
        for (slot, vote) in self.votes.clone() {
            if vote.ballot == self.promised {
                self.free = slot.next();
            }
            if let Some(entry) = vote.value {
                let id = entry.id;
                self.hear(entry, 0);
                if let Some(heard) = self.heard.get_mut(&id) {
                    heard.place = heard.place.max(Some((vote.ballot, slot)));
                }
            }
        }
    }
}
