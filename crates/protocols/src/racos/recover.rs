//! Starting: new, with everything promised before, or without.

use super::Replica;
use super::config::Config;
use super::life::Life;
use super::losses::Rounds;
use super::messages::{Message, Record, Timer};
use super::mutants::Fault;
use super::roster::Rosters;
use super::segments::{Segment, Segments};
use super::voids::Absence;
use crate::rabia::weak_mvc;
use crate::shared::lives::Lives;
use crate::shared::under_way::Line;
use quorate_core::{EntryId, Lsn, Machine, MemberSet, Now, Out, Past};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What records say beside those of Weak-MVC.
#[derive(Default)]
struct Written {
    segments: Segments,
    candidates: BTreeSet<EntryId>,
    life: Life,
    rosters: Rosters,
    losses: Lives,
}

impl Replica {
    /// Takes up where the past left off.
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let mut written = Written::default();
        let is_fresh = matches!(past, Past::Fresh);
        let is_lost = matches!(past, Past::Lost { .. });
        let past = written.take_from(past, config);
        let mut inner = out.inner();
        let mvc = weak_mvc::Replica::recover(&config.mvc, past, now, &mut inner);
        let segments = written.segments;
        let record = |record| segments.record_of(record, config);
        out.absorb(&mut inner, Message::Mvc, record, Timer::Mvc);
        let mut replica = Replica {
            config: Arc::new(config.clone()),
            mvc,
            life: written.life.max(Life::FIRST),
            life_written: Lsn(0),
            backlog: Default::default(),
            spreading: BTreeMap::new(),
            segments,
            orphans: BTreeSet::new(),
            roster: None,
            rosters: written.rosters,
            rounds: Rounds::new(config.mvc.members.len()),
            losses: written.losses,
            rejoin: None,
            line: Line::default(),
            pace: Default::default(),
            sent: Default::default(),
            now,
            absence: Absence::at_start(config.mvc.members.len(), now.mono_ns),
            voiding: None,
            durable: Lsn(0),
            is_armed: false,
            silent: MemberSet::EMPTY,
            backoff: 0,
        };
        let known = replica.losses.clone();
        replica.rounds.hear(&known);
        if is_lost || !replica.mvc.is_serving() {
            replica.begin_rejoin(out);
        }
        replica.resume(&written.candidates, out);
        // What this replica still has to spread is known now: the roster names it.
        if !is_fresh && replica.rejoin.is_none() {
            replica.begin_life(replica.life.next(), out);
        }
        replica.run_to_fixpoint(now, out);
        replica
    }

    /// What an earlier life of this replica spread and did not announce is dead, and so is what rosters
    /// leave out. Segments that the disk lost are gathered again.
    fn resume(&mut self, candidates: &BTreeSet<EntryId>, out: &mut Out<Self>) {
        let mvc = &self.mvc;
        self.segments.retain(|id| !mvc.is_done(id));
        self.rosters.take_up(mvc.next());
        if self.config.merged {
            return self.gather_lacking(out);
        }
        let everybody = self.config.mvc.everybody();
        everybody.iter().for_each(|at| self.forget_dead_of(at, out));
        let me = self.config.mvc.my_id();
        let own = |id: &EntryId| id.origin == me && !candidates.contains(id);
        let kept: Vec<(EntryId, bool)> = self
            .segments
            .iter()
            .map(|(id, segment)| (*id, segment.is_held))
            .collect();
        for (id, is_held) in kept {
            let is_open = own(&id);
            let segment = self.segments.get(id);
            let is_of_lost = segment.is_some_and(|own| own.manifest.life.loss < self.life.loss);
            if is_open && self.rejoin.is_none() && !is_of_lost {
                self.forget_value(id, out);
                continue;
            }
            // Before the disk was lost it may have been announced.
            if is_open {
                self.orphans.insert(id);
            }
            if (is_open || !is_held)
                && let Some(segment) = self.segments.get(id)
            {
                out.gather(segment.manifest.entry.clone());
            }
        }
    }

    /// Segments that the disk lost are gathered again; what becomes of their values the log says.
    fn gather_lacking(&self, out: &mut Out<Self>) {
        let lacking = self.segments.iter().filter(|(_, segment)| !segment.is_held);
        lacking.for_each(|(_, segment)| out.gather(segment.manifest.entry.clone()));
    }
}

impl Written {
    /// Takes its own out of the past, and leaves Weak-MVC's.
    fn take_from(&mut self, past: Past<Replica>, config: &Config) -> Past<weak_mvc::Replica> {
        match past {
            Past::Fresh => Past::Fresh,
            Past::Lost { next, base } => Past::Lost { next, base },
            Past::Intact {
                next,
                base,
                records,
            } => {
                let records = records.into_iter();
                let taken = records.filter_map(|record| self.take(record, config));
                let records = taken.collect();
                Past::Intact {
                    next,
                    base,
                    records,
                }
            }
        }
    }

    fn take(&mut self, record: Record, config: &Config) -> Option<weak_mvc::Record> {
        match record {
            Record::Mvc(record) => return Some(record),
            Record::Manifest {
                manifest,
                is_held,
                is_candidate,
            } => {
                let manifest = manifest.bare();
                let entry = manifest.entry.clone();
                self.segments.insert(Segment {
                    manifest,
                    is_held,
                    written: Lsn(0),
                });
                let is_own = entry.id.origin == config.mvc.my_id();
                let is_forgotten = is_own && config.faults.is(Fault::ForgetAnnounced);
                if is_candidate && !is_forgotten && (is_held || !config.merged)
                    || config.faults.is(Fault::IgnoreCandidateBit)
                {
                    self.candidates.insert(entry.id);
                    return Some(weak_mvc::Record::Batch { entry });
                }
            }
            Record::Life { life } => self.life = life,
            Record::Roster {
                member,
                life,
                next,
                open,
            } => self.rosters.restore(member, life, next, open),
            Record::Loss { member, loss } => drop(self.losses.note(member, loss)),
        }
        None
    }
}
