//! Starting: new, with everything promised before, or without.

use super::Replica;
use super::config::Config;
use super::lives::Lives;
use super::messages::Record;
use super::offers::Offer;
use super::reads::Reads;
use super::role::{Armed, Proposal, Role, Trust};
use crate::backlog::Backlog;
use crate::done::Done;
use quorate_core::{Lsn, Now, Out, Past, Slot};
use std::collections::VecDeque;
use std::sync::Arc;

impl Replica {
    /// Takes up where the past left off. An acceptor goes on as if it had been slow; a leader is
    /// none any more, for what it had proposed beyond its records it does not know.
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let mut replica = match past {
            Past::Fresh => Replica::empty(config, config.first_slot, Done::default(), out),
            Past::Lost { next, base } => {
                let mut replica = Replica::empty(config, next, base, out);
                replica.begin_rejoin(out);
                replica
            }
            Past::Intact {
                next,
                base,
                records,
            } => {
                let mut replica = Replica::empty(config, next, base, out);
                records
                    .into_iter()
                    .for_each(|record| replica.restore(record));
                replica
            }
        };
        replica.say_rejoin(config.others(), out);
        replica.settle(now, out);
        replica
    }

    fn empty(config: &Config, ap: Slot, done: Done, out: &Out<Self>) -> Replica {
        Replica {
            rejoin: None,
            lives: Lives::default(),
            promised: Default::default(),
            ap,
            done,
            slots: VecDeque::new(),
            claim: Default::default(),
            recent: VecDeque::with_capacity(config.window),
            role: Role::Follower,
            trust: Trust::None,
            leader: None,
            led: Default::default(),
            round_seen: 0,
            campaign: 0,
            is_wanted: false,
            backlog: Backlog::default(),
            offers: Vec::<Offer>::new(),
            seq: 0,
            reads: Reads::default(),
            up: config.others(),
            unflushed: VecDeque::new(),
            durable: Lsn(out.persisted().0),
            armed: Armed::default(),
            backoff: 0,
            is_stirring: false,
            is_serving_requests: false,
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
            } => {
                self.promised = self.promised.max(ballot);
                if let Some(offset) = slot.0.checked_sub(self.ap.0) {
                    let accepted = Some(Proposal { ballot, value });
                    self.instance_grown(offset as usize).accepted = accepted;
                }
            }
            Record::Again { slot, ballot } => {
                self.promised = self.promised.max(ballot);
                let instance = self.instance_mut(slot);
                if let Some(proposal) = instance.and_then(|slot| slot.accepted.as_mut()) {
                    proposal.ballot = ballot;
                }
            }
            Record::Lives { lives, is_member } => self.restore_lives(lives, is_member),
        }
    }
}
