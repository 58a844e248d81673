//! A member whose disk was lost with its promises.
//!
//! Weak-MVC's own recovery gives back votes, not segments. What others count on is the segments of values
//! that are announced and undecided; of what is decided, the host rebuilds segments. So the member asks all
//! others what they hold of undecided values, and votes again only when each of those is here, is decided,
//! is dead, or cannot have been announced with its help: fewer than `k + f - 1` others can hold it, those
//! counted that have not answered. `losses.rs` says what becomes of values that are being spread meanwhile.
//!
//! Values of its own that may have been announced it gathers, too, and spreads once more under the same
//! name, in its new life: what it knew of their fate is lost.
//!
//! # The number of a loss
//!
//! Lives of a member are told apart by the number of its last loss, and no clock helps: each member notes
//! a number for one start of the asker's process, on its disk, before it answers, and never an equal or lower
//! one after. Numbers noted otherwise do not count as answers, and a higher one is asked for. What counts is `M`
//! or more of the others, and of any two such sets a member is in both; so two losses that came to an end have
//! different numbers, the later one the higher. A member that loses its disk with its notes takes them from
//! `M` others that are over their own losses. If one of those answers it and only then notes the number, it
//! says so together with its answer, and what the loser had answered before no longer counts: it is asked anew.

use super::Replica;
use super::life;
use super::messages::{Manifest, Message, Record, Undecided};
use super::mutants::Fault;
use super::segments::Segment;
use crate::rabia::weak_mvc;
use crate::shared::lives::{Life, Lives};
use quorate_core::{EntryId, Event, MemberIndex, Out, Peers, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of what the lost disk held.
#[derive(Clone, Hash, Debug)]
pub(super) struct Rejoin {
    /// The number asked for, and this start.
    loss: Life,
    /// Counts the questions.
    number: u64,
    /// Of a member of which a loss became known meanwhile, the first question that it answers after that.
    since: BTreeMap<MemberIndex, u64>,
    /// Of each member the answers so far to the last question that it answered.
    answers: BTreeMap<MemberIndex, (u64, BTreeSet<EntryId>)>,
    /// What each member said last that has answered in full, and has the loss noted.
    holdings: BTreeMap<MemberIndex, Holding>,
}

/// What a member holds of undecided values.
#[derive(Clone, Hash, Debug)]
struct Holding {
    /// The member's first slot not delivered then: what it held before is decided before that slot, or dead.
    next: Slot,
    held: BTreeSet<EntryId>,
}

impl Rejoin {
    pub(super) fn describe(&self) -> String {
        format!(
            "lost its disk, {} members said what they hold of {} values",
            self.holdings.len(),
            self.values().len()
        )
    }

    fn values(&self) -> BTreeSet<EntryId> {
        let held = self.holdings.values().flat_map(|holding| &holding.held);
        held.copied().collect()
    }

    /// How many others hold a value, as far as they said.
    fn holders(&self, id: EntryId) -> usize {
        let holdings = self.holdings.values();
        holdings.filter(|said| said.held.contains(&id)).count()
    }

    /// Asks for the number after this one.
    fn after(last: Life, me: &weak_mvc::Config, number: u64) -> Rejoin {
        let loss = Life {
            number: last.next_number(),
            boot: me.boot,
        };
        Rejoin {
            loss,
            number,
            since: BTreeMap::new(),
            answers: BTreeMap::new(),
            holdings: BTreeMap::new(),
        }
    }
}

impl Replica {
    /// Begins to find out what the lost disk held.
    pub(super) fn begin_rejoin(&mut self, out: &mut Out<Self>) {
        let last = self.losses.of(self.config.mvc.me);
        self.rejoin = Some(Rejoin::after(last, &self.config.mvc, 0));
        self.mvc.delay_rejoin(true);
        self.ask_what_is_undecided(out);
    }

    /// Asks all others, again and again: what holds up the end may have been decided, or be dead.
    pub(super) fn ask_what_is_undecided(&mut self, out: &mut Out<Self>) {
        let is_told = |rejoin: &Rejoin| self.is_told_enough(rejoin);
        if self.rejoin.as_ref().is_some_and(is_told) {
            return;
        }
        let Some(rejoin) = &mut self.rejoin else {
            return;
        };
        rejoin.number += 1;
        let (loss, number) = (rejoin.loss, rejoin.number);
        if !self.config.others().is_empty() {
            out.send(Peers::All, Message::Lost { loss, number });
        }
    }

    /// A member lost its disk: it is told what is held here, once it is written that it lost it.
    pub(super) fn on_lost(
        &mut self,
        from: MemberIndex,
        loss: Life,
        number: u64,
        out: &mut Out<Self>,
    ) {
        if self.rejoin.is_some() {
            return;
        }
        if self.losses.note(from, loss) {
            out.persist(Record::Loss { member: from, loss });
            let losses = self.losses.clone();
            self.hear_losses(&losses, out);
            self.renew_roster_for(from, out);
        }
        let held = self.segments.iter().filter(|(_, segment)| segment.is_held);
        let manifests: Vec<Manifest> = held.map(|(id, held)| self.as_spread(*id, held)).collect();
        let count = manifests.len() as u64;
        let nothing = manifests.is_empty().then_some(None);
        for manifest in manifests.into_iter().map(Some).chain(nothing) {
            let message = Message::Undecided(Undecided {
                losses: self.losses.clone(),
                number,
                count,
                next: self.mvc.next(),
                manifest,
            });
            out.send(self.peer(from), message);
        }
    }

    /// A manifest with the last life in which its origin spread it, as far as known here.
    fn as_spread(&self, id: EntryId, held: &Segment) -> Manifest {
        let own = self.spreading.get(&id);
        let life = own.map_or(held.manifest.life, |own| own.manifest.life);
        Manifest {
            life,
            ..held.manifest.clone()
        }
    }

    /// A member knows of these losses. Of two that have one number, who knows of either may not know of the
    /// other: then a number is noted that nobody knows. What others that had one answered before does not count.
    fn learn_losses(&mut self, from: MemberIndex, losses: &Lives) {
        let Some(rejoin) = &mut self.rejoin else {
            return;
        };
        for at in self.config.others() {
            let (mut theirs, mine) = (losses.of(at), self.losses.of(at));
            if theirs.number == mine.number && theirs != mine {
                theirs.number = mine.next_number();
                theirs.boot = self.config.mvc.boot;
            }
            if self.losses.note(at, theirs) && at != from {
                rejoin.holdings.remove(&at);
                rejoin.answers.remove(&at);
                rejoin.since.insert(at, rejoin.number + 1);
            }
        }
    }

    /// One of a member's answers.
    pub(super) fn on_undecided(
        &mut self,
        from: MemberIndex,
        answer: Undecided,
        out: &mut Out<Self>,
    ) {
        let Undecided {
            losses,
            number,
            count,
            next,
            manifest,
        } = answer;
        if self.rejoin.is_none() || !self.is_noted_by(&losses, out) {
            return;
        }
        self.learn_losses(from, &losses);
        let Some(rejoin) = &mut self.rejoin else {
            return;
        };
        let since = rejoin.since.get(&from).copied().unwrap_or(0);
        if !(since..=rejoin.number).contains(&number) {
            return;
        }
        let answers = rejoin.answers.entry(from).or_default();
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
            let holding = Holding { next, held };
            rejoin.holdings.insert(from, holding);
        }
        if let Some(manifest) = manifest {
            self.want(manifest, out);
        }
    }

    /// Whether a member that noted these losses has noted the present one. If its number is another's, the
    /// next one is asked for.
    fn is_noted_by(&mut self, losses: &Lives, out: &mut Out<Self>) -> bool {
        let noted = losses.of(self.config.mvc.me);
        let Some(rejoin) = &mut self.rejoin else {
            return false;
        };
        if noted != rejoin.loss && noted.number >= rejoin.loss.number {
            out.emit(Event::Branch("number of a loss was taken"));
            let number = rejoin.number;
            *rejoin = Rejoin::after(noted, &self.config.mvc, number);
            self.ask_what_is_undecided(out);
            return false;
        }
        noted == rejoin.loss
    }

    /// A value that others hold a segment of is to be gathered.
    fn want(&mut self, manifest: Manifest, out: &mut Out<Self>) {
        let id = manifest.entry.id;
        let is_sound = manifest.has_bulk() && manifest.code <= self.config.code;
        let origin = self.config.member(id.origin);
        let is_dead = origin.is_some_and(|at| self.rosters.is_dead(at, id, manifest.life));
        if !is_sound || is_dead || self.mvc.is_done(id) {
            return;
        }
        if self.config.merged && id.origin == self.config.mvc.my_id() {
            // It is of an earlier life.
            return;
        }
        if let Some(known) = self.segments.get(id) {
            let (is_held, is_later) = (known.is_held, known.manifest.life < manifest.life);
            match (is_later, is_held) {
                (true, true) => self.keep(manifest.bare(), out),
                (true, false) => self.segments.await_segment(manifest),
                (false, _) => {}
            }
            return;
        }
        if id.origin == self.config.mvc.my_id() {
            self.orphans.insert(id);
        }
        out.gather(manifest.entry.clone());
        self.segments.await_segment(manifest);
    }

    /// Whether that is so, and everything is applied that was decided when others answered: they do not
    /// name it, and an own roster that does not either would have it let go where it is not applied.
    fn is_rebuilt(&self, rejoin: &Rejoin) -> bool {
        let mut holdings = rejoin.holdings.values();
        self.is_told_enough(rejoin) && holdings.all(|said| said.next <= self.mvc.next())
    }

    /// Whether nothing can count on what is not here.
    fn is_told_enough(&self, rejoin: &Rejoin) -> bool {
        let others = self.config.others().len();
        let is_missing = |id: &EntryId| {
            let segment = self.segments.get(*id);
            segment.is_some_and(|segment| {
                let is_here = segment.is_held && segment.written <= self.durable;
                !is_here && self.may_be_announced(segment, rejoin)
            })
        };
        let numbers = (&self.config.thresholds, &self.config.mvc.thresholds);
        let enough = numbers.0.rejoin.max(numbers.1.rejoin).min(others);
        rejoin.holdings.len() >= enough && !rejoin.values().iter().any(is_missing)
    }

    /// Whether so many others may hold a value that it may have been announced with this replica's help.
    fn may_be_announced(&self, segment: &Segment, rejoin: &Rejoin) -> bool {
        let others = self.config.others().len();
        let silent = others - rejoin.holdings.len();
        let needed = self.config.thresholds.holders(segment.manifest.code) - 1;
        rejoin.holders(segment.manifest.entry.id) + silent >= needed
    }

    /// What was not announced, as far as it is not here or was the own to announce.
    fn hopeless(&self, rejoin: &Rejoin) -> Vec<EntryId> {
        let is_own = |id: &EntryId| self.orphans.contains(id) && !self.spreading.contains_key(id);
        let is_hopeless = |(id, segment): &(&EntryId, &Segment)| {
            let is_lacking = !segment.is_held || is_own(id);
            is_lacking && !self.mvc.holds(**id) && !self.may_be_announced(segment, rejoin)
        };
        let hopeless = self.segments.iter().filter(is_hopeless);
        hopeless.map(|(id, _)| *id).collect()
    }

    /// Ends the rebuilding when it is done.
    pub(super) fn rejoin_further(&mut self, out: &mut Out<Self>) {
        let Some(rejoin) = &self.rejoin else { return };
        if !self.config.faults.is(Fault::SkipRebuild) && !self.is_rebuilt(rejoin) {
            return;
        }
        let (hopeless, loss) = (self.hopeless(rejoin), rejoin.loss);
        self.rejoin = None;
        self.mvc.delay_rejoin(false);
        for id in hopeless {
            self.orphans.remove(&id);
            self.forget_value(id, out);
        }
        self.write_losses(loss, out);
        self.begin_life(life::Life::after(loss.number), out);
        for id in &self.orphans {
            if let Some(segment) = self.segments.get(*id).filter(|own| own.is_held) {
                out.gather(segment.manifest.entry.clone());
            }
        }
        self.within(out, |mvc, out| mvc.rejoin_further(out));
    }

    /// What is known of losses now, the own among them, goes before the end of this one.
    fn write_losses(&mut self, own: Life, out: &mut Out<Self>) {
        self.losses.note(self.config.mvc.me, own);
        for member in self.config.mvc.everybody() {
            let loss = self.losses.of(member);
            if loss.number > 0 {
                out.persist(Record::Loss { member, loss });
            }
        }
        let known = self.losses.clone();
        self.hear_losses(&known, out);
    }
}
