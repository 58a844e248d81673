//! Starting: new, with everything promised before, or without.
//!
//! A replica that starts again has all that it kept, accepted and joined. It has not what was delivered, by name: until
//! enough others are known to have delivered as much, it neither begins instances nor keeps entries of others
//! (`Replica::may_vote`). What it began before and has not committed is not committed on the fast path by anybody:
//! that would be durable here. It says so where such an instance is recovered, and goes on with none.
//!
//! A replica that lost its promises writes that down first of all, for a log with nothing in it says at the next start
//! that nothing was ever promised. It learns by the decided log alone, and is one of those that may fail, until an
//! epoch replaces it.

use super::Replica;
use super::config::Config;
use super::footprint::stand_in_of;
use super::hold::Queue;
use super::messages::{Kept, Record, Said};
use super::state::Instance;
use super::table::Table;
use super::waits::{Armed, Turns};
use crate::shared::backlog::Backlog;
use crate::shared::claim::Fetcher;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::entry_names::EntryNames;
use crate::shared::reads::ReadQueries;
use crate::shared::start::start_from;
use crate::shared::timers::Backoff;
use quorate_core::{MemberSet, Now, Out, Past, Slot};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

impl Replica {
    /// Takes up where the past left off.
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let (next, base, records) = start_from(past, config.seating.first_slot);
        let mut replica = Replica::empty(config, now, next, base, out);
        if let Some(records) = records {
            replica.restore(records, out);
        } else {
            replica.is_silent = true;
            out.persist(Record::Lost);
        }
        if !replica.is_silent && next > config.seating.first_slot {
            replica.persist_record(Record::Delivered(next), out);
            replica.say_behind_records(Said::Progress(true), out);
        }
        replica.has_committed = true;
        replica.run_to_fixpoint(out);
        replica
    }

    fn empty(config: &Config, now: Now, next: Slot, done: DecidedSet, out: &Out<Self>) -> Replica {
        let seating = &config.seating;
        let members = seating.members.len();
        let mut durable = vec![seating.first_slot; members];
        durable[seating.me.position()] = next;
        Replica {
            is_silent: false,
            next,
            done,
            instances: BTreeMap::new(),
            table: Table::new(next),
            queue: Queue::default(),
            has_committed: false,
            ahead: VecDeque::new(),
            durable,
            heard_delivered: vec![seating.first_slot; members],
            written: VecDeque::new(),
            fetcher: Fetcher::default(),
            backlog: Backlog::default(),
            offers: Vec::new(),
            names: EntryNames::new(seating.my_id(), seating.boot),
            reads: ReadQueries::default(),
            errands: Vec::new(),
            disk: Disk::at_start(out.persisted()),
            patience: Default::default(),
            armed: Armed::default(),
            backoff: Backoff::default(),
            turns: Turns::default(),
            down: MemberSet::EMPTY,
            now,
            config: Arc::new(config.clone()),
        }
    }

    /// Takes records, in whatever order: of each instance the last one counts.
    fn restore(&mut self, records: Vec<Record>, out: &mut Out<Self>) {
        let mut latest: BTreeMap<_, Kept> = BTreeMap::new();
        for record in records {
            match record {
                Record::Instance(kept) => {
                    let id = kept.id;
                    let known = latest.get(&id);
                    if known.is_none_or(|known| known.version < kept.version) {
                        latest.insert(id, kept);
                    }
                }
                // What is delivered, the host knows.
                Record::Delivered(_) => {}
                // It wrote nothing since, and nothing before counts.
                Record::Lost => self.is_silent = true,
            }
        }
        if self.is_silent {
            return;
        }
        for (id, kept) in latest {
            if self.done.entries.contains(id) {
                out.forget(stand_in_of(id));
                continue;
            }
            let mut instance = Instance::restored(kept, self.config.touches);
            let is_own = id.origin == self.config.seating.my_id();
            instance.is_coordinating = is_own && !instance.is_committed();
            let is_void = instance.is_committed() && instance.is_void;
            if let Some(footprint) = instance.footprint.as_ref().filter(|_| !is_void) {
                self.table.add(id, footprint);
            }
            for dep in &instance.deps.ids {
                if instance.is_committed() && !self.done.entries.contains(*dep) {
                    self.instances.entry(*dep).or_default();
                }
            }
            self.instances.insert(id, instance);
        }
    }
}
