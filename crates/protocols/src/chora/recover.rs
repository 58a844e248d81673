//! Starting: new, with everything promised before, or without.

use super::Replica;
use super::campaign::Campaign;
use super::config::Config;
use super::disk::LogDisk;
use super::log::Log;
use super::messages::{Logged, Record};
use super::mutants::Fault;
use super::offers::Clients;
use super::pattern::ViewInit;
use super::plan::Ingress;
use super::propose::OwnSlots;
use super::role::Role;
use super::rounds::Rounds;
use super::traffic::Traffic;
use super::waits::Watch;
use crate::shared::decided::DecidedSet;
use crate::shared::entry_names::EntryNames;
use crate::shared::reads::ReadQueries;
use crate::shared::rejoin::Voter;
use crate::shared::start::start_from;
use quorate_core::{Lsn, MemberIndex, MemberSet, Now, Out, Past, Slot};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

impl Replica {
    /// Takes up where the past left off. A member goes on as if it had been slow; a proposer is none in
    /// the views it may have proposed in, for what it said there it does not know.
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let (next, base, records) = start_from(past, config.first_slot);
        let mut replica = Replica::empty(config, next, base, out);
        match records {
            Some(records) => {
                // Whatever it said in this epoch, it wrote its view before.
                let has_spoken = !records.is_empty();
                let restored = records.into_iter();
                restored.for_each(|record| replica.restore(record));
                replica.resume(has_spoken);
            }
            None => replica.begin_rejoin(out),
        }
        replica.rounds.load.begin(now);
        replica.begin_first_view();
        replica.write_first_view(out);
        replica.say_rejoin(config.others(), out);
        replica.advance(out);
        replica.settle(now, out);
        replica
    }

    /// Before anything is said a record tells the next start that something may have been.
    fn write_first_view(&mut self, out: &mut Out<Self>) {
        if self.is_voting() && self.own.mute.is_none() {
            let (view, voted) = (self.view, self.voted);
            out.persist(Record::View { view, voted });
            self.sealed = out.persisted();
        }
    }

    fn empty(config: &Config, ap: Slot, done: DecidedSet, out: &Out<Self>) -> Replica {
        let n = config.members.len();
        let mut replica = Replica {
            voter: Voter::new(config.voter_seat()),
            view: 0,
            voted: None,
            sealed: Lsn(0),
            role: Role::Follower,
            init: None,
            start: None,
            informant: None,
            log: Log::behind(ap, 0),
            pending: BTreeMap::new(),
            verified: ap,
            disk: LogDisk::new(ap, out.persisted()),
            traffic: Traffic::new(n, ap),
            done,
            own: OwnSlots::new(ap),
            queue: VecDeque::new(),
            clients: Clients::new(EntryNames::new(config.my_id(), config.boot)),
            reads: ReadQueries::default(),
            rounds: Rounds::new(config),
            down: MemberSet::EMPTY,
            campaign: Campaign::default(),
            ingress: Ingress::new(n),
            watch: Watch::default(),
            config: Arc::new(config.clone()),
        };
        let eview = replica.committed_view();
        (replica.log, replica.view) = (Log::behind(ap, eview), eview);
        replica
    }

    fn restore(&mut self, record: Record) {
        match record {
            Record::View { view, voted } => {
                if view >= self.view {
                    (self.view, self.voted) = (view, voted);
                }
            }
            Record::Append(logged) => self.restore_append(logged),
            Record::Lives {
                lives,
                is_member,
                mute,
            } => {
                self.own.mute = self.own.mute.max(mute);
                self.voter.restore(lives, is_member);
            }
        }
    }

    /// The last record of a slot counts, and cuts what was behind it. What is older than the committed
    /// prefix ends in is of another lineage.
    fn restore_append(&mut self, logged: Logged) {
        let slot = logged.slot;
        if slot < self.ap() || slot > self.log.end() {
            return;
        }
        self.log.truncate(slot);
        if logged.eview >= self.log.position().eview {
            self.log.append(logged);
        }
    }

    /// A tail of the present view holds its VIEW-INIT, or view 0 has none: it was verified. Any other is
    /// verified again.
    fn resume(&mut self, has_spoken: bool) {
        let is_of_view = self.log.position().eview == self.view;
        self.verified = if is_of_view {
            self.log.end()
        } else {
            self.ap()
        };
        self.disk.restart(self.log.end());
        self.campaign.note_view(self.view);
        if has_spoken && !self.config.faults.is(Fault::ProposeAfterRestart) {
            self.own.mute_through(self.view);
        }
    }

    /// The new life begins, in a view in which it votes for nobody: it may have done so already. What it
    /// overheard was not written.
    pub(super) fn rejoined(&mut self, floor: u64, out: &mut Out<Self>) {
        self.log = Log::behind(self.ap(), self.committed_view());
        self.verified = self.ap();
        self.disk.restart(self.ap());
        self.traffic.claim = self.traffic.claim.min(self.ap());
        let view = self.view.max(floor);
        self.enter(view, Some(self.config.me), out);
        self.begin_first_view();
    }

    /// View 0 has no VIEW-INIT: its pattern is known beforehand.
    fn begin_first_view(&mut self) {
        if self.view > 0 {
            return;
        }
        let first = self.config.first_slot;
        self.begin(Arc::new(ViewInit {
            view: 0,
            initiator: MemberIndex::default(),
            at: first,
            pattern: MemberSet::first(self.config.proposers).iter().collect(),
            segments: Vec::new(),
        }));
    }
}
