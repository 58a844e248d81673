//! A member whose disk was lost with its promises (section 6).
//!
//! Weak-MVC's own recovery gives back votes, not segments. What others count on is the segments of values
//! that are announced and undecided; of what is decided, the host rebuilds segments. So the member asks all
//! others what they hold of undecided values, and votes again only when each of those is here, is decided,
//! is dead, or cannot have been announced with its help: fewer than `k + f - 1` others can hold it, those
//! counted that have not answered. `losses.rs` says what becomes of values that are being spread meanwhile.
//!
//! Values of its own that may have been announced it gathers, too, and spreads once more under the same
//! name: what it knew of their fate is lost.

use super::Replica;
use super::messages::{Manifest, Message, Record};
use super::segments::Segment;
use quorate_core::{Boot, EntryId, Lsn, Now, Out, Peers, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of what the lost disk held.
#[derive(Clone, Hash, Debug)]
pub(super) struct Rebuild {
    loss: Boot,
    /// Counts the questions.
    number: u64,
    /// Of each member the answers so far to the last question that it answered.
    answers: BTreeMap<usize, (u64, BTreeSet<EntryId>)>,
    /// What each member holds that has answered in full, as it said last, and its first slot not
    /// delivered then: what it held before is decided before that slot, or dead.
    holdings: BTreeMap<usize, (Slot, BTreeSet<EntryId>)>,
}

impl Rebuild {
    pub(super) fn describe(&self) -> String {
        format!(
            "lost its disk, {} members said what they hold of {} values",
            self.holdings.len(),
            self.values().len()
        )
    }

    fn values(&self) -> BTreeSet<EntryId> {
        let held = self.holdings.values().flat_map(|(_, held)| held);
        held.copied().collect()
    }

    /// How many others hold a value, as far as they said.
    fn holders(&self, id: EntryId) -> usize {
        let holdings = self.holdings.values();
        holdings.filter(|(_, held)| held.contains(&id)).count()
    }
}

impl Replica {
    /// Begins to find out what the lost disk held.
    pub(super) fn begin_rebuild(&mut self, out: &mut Out<Self>) {
        self.rebuild = Some(Rebuild {
            loss: self.config.mvc.boot,
            number: 0,
            answers: BTreeMap::new(),
            holdings: BTreeMap::new(),
        });
        self.mvc.delay_rejoin(true);
        self.ask_what_is_undecided(out);
    }

    /// Asks all others, again and again: what holds up the end may have been decided, or be dead.
    pub(super) fn ask_what_is_undecided(&mut self, out: &mut Out<Self>) {
        let is_told = |rebuild: &Rebuild| self.is_told_enough(rebuild);
        if self.rebuild.as_ref().is_some_and(is_told) {
            return;
        }
        let Some(rebuild) = &mut self.rebuild else {
            return;
        };
        rebuild.number += 1;
        let (loss, number) = (rebuild.loss, rebuild.number);
        if self.config.others() != 0 {
            out.send(Peers::All, Message::Lost { loss, number });
        }
    }

    /// A member lost its disk: it is told what is held here, once it is written that it lost it.
    pub(super) fn on_lost(&mut self, from: usize, loss: Boot, number: u64, out: &mut Out<Self>) {
        if self.rebuild.is_some() {
            return;
        }
        let member = from as u8;
        if self.losses.note(member, loss) {
            out.persist(Record::Loss { member, loss });
            let losses = self.losses.clone();
            self.hear_losses(&losses, out);
            self.renew_roster_for(from, out);
        }
        let held = self.segments.iter().filter(|(_, segment)| segment.is_held);
        let manifests: Vec<Manifest> = held.map(|(_, held)| held.manifest.clone()).collect();
        let count = manifests.len() as u64;
        let (next, life) = (self.mvc.next(), self.life_of(from));
        let nothing = manifests.is_empty().then_some(None);
        for manifest in manifests.into_iter().map(Some).chain(nothing) {
            let message = Message::Undecided {
                loss,
                number,
                count,
                next,
                life,
                manifest,
            };
            out.send(self.peer(from), message);
        }
    }

    /// One of a member's answers.
    pub(super) fn on_undecided(
        &mut self,
        from: usize,
        (loss, number): (Boot, u64),
        (count, next): (u64, Slot),
        manifest: Option<Manifest>,
        out: &mut Out<Self>,
    ) {
        let Some(rebuild) = &mut self.rebuild else {
            return;
        };
        if loss != rebuild.loss || number > rebuild.number {
            return;
        }
        let answers = rebuild.answers.entry(from).or_default();
        if number > answers.0 {
            *answers = (number, BTreeSet::new());
        }
        if let Some(manifest) = &manifest
            && number == answers.0
        {
            answers.1.insert(manifest.entry.id);
        }
        if number == answers.0 && answers.1.len() as u64 >= count {
            let held = answers.1.clone();
            rebuild.holdings.insert(from, (next, held));
        }
        if let Some(manifest) = manifest {
            self.want(manifest, out);
        }
    }

    /// A value that others hold a segment of is to be gathered.
    fn want(&mut self, manifest: Manifest, out: &mut Out<Self>) {
        let id = manifest.entry.id;
        let is_sound = manifest.has_bulk() && manifest.code <= self.config.code;
        let origin = self.config.member(id.origin);
        let is_dead = origin.is_some_and(|at| self.rosters.is_dead(at, id, manifest.life));
        let is_known = self.mvc.is_done(id) || self.segments.get(id).is_some();
        if !is_sound || is_dead || is_known {
            return;
        }
        if id.origin == self.config.mvc.my_id() {
            self.orphans.insert(id);
        }
        out.gather(manifest.entry.clone());
        self.segments.insert(Segment {
            manifest: manifest.bare(),
            is_held: false,
            written: Lsn(u64::MAX),
        });
    }

    /// Whether that is so, and everything is applied that was decided when others answered: they do not
    /// name it, and an own roster that does not either would have it let go where it is not applied.
    fn is_rebuilt(&self, rebuild: &Rebuild) -> bool {
        let mut holdings = rebuild.holdings.values();
        self.is_told_enough(rebuild) && holdings.all(|(next, _)| *next <= self.mvc.next())
    }

    /// Whether nothing can count on what is not here.
    fn is_told_enough(&self, rebuild: &Rebuild) -> bool {
        let others = self.config.others().count_ones() as usize;
        let is_missing = |id: &EntryId| {
            let segment = self.segments.get(*id);
            segment.is_some_and(|segment| {
                let is_here = segment.is_held && segment.written <= self.durable;
                !is_here && self.may_be_announced(segment, rebuild)
            })
        };
        let numbers = (&self.config.thresholds, &self.config.mvc.thresholds);
        let enough = numbers.0.rebuild.max(numbers.1.rejoin).min(others);
        rebuild.holdings.len() >= enough && !rebuild.values().iter().any(is_missing)
    }

    /// Whether so many others may hold a value that it may have been announced with this replica's help.
    fn may_be_announced(&self, segment: &Segment, rebuild: &Rebuild) -> bool {
        let others = self.config.others().count_ones() as usize;
        let silent = others - rebuild.holdings.len();
        let needed = self.config.thresholds.holders(segment.manifest.code) - 1;
        rebuild.holders(segment.manifest.entry.id) + silent >= needed
    }

    /// What was not announced, as far as it is not here or was the own to announce.
    fn hopeless(&self, rebuild: &Rebuild) -> Vec<EntryId> {
        let is_own = |id: &EntryId| self.orphans.contains(id) && !self.spreading.contains_key(id);
        let is_hopeless = |(id, segment): &(&EntryId, &Segment)| {
            let is_lacking = !segment.is_held || is_own(id);
            is_lacking && !self.mvc.holds(**id) && !self.may_be_announced(segment, rebuild)
        };
        let hopeless = self.segments.iter().filter(is_hopeless);
        hopeless.map(|(id, _)| *id).collect()
    }

    /// Ends the rebuilding when it is done.
    pub(super) fn rebuild_further(&mut self, now: Now, out: &mut Out<Self>) {
        let Some(rebuild) = &self.rebuild else { return };
        if self.config.rules.rebuilds && !self.is_rebuilt(rebuild) {
            return;
        }
        let hopeless = self.hopeless(rebuild);
        self.rebuild = None;
        self.mvc.delay_rejoin(false);
        for id in hopeless {
            self.orphans.remove(&id);
            self.bury(id, out);
        }
        // Later than all earlier lives, if any of those that answered knows of the last one; where none
        // does, the clock tells them apart.
        self.since_loss = self.life.saturating_add(1).max(now.clock_ns);
        self.begin_life(self.since_loss, out);
        self.within(out, |mvc, out| mvc.rejoin_further(out));
    }
}
