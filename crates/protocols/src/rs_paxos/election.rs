//! Who leads: suspicion, pre-vote, and phase 1 of a candidate.
//!
//! Time decides only when somebody stands, never who has won. A replica for which something waits
//! and that has heard nothing of a leader for one to two timeouts asks the others first
//! (`PreVote`): those that do hear of one refuse, so that a replica cut off from the leader alone
//! does not depose it. `QR` that would follow are a chance worth a new ballot.

use super::Replica;
use super::decide::{Choice, Vote, decide};
use super::fragments::Fragments;
use super::messages::{Message, Promise, Record};
use super::mutants::Fault;
use super::role::{Candidate, Gathered, Proposal, Recovered, Role};
use crate::shared::ballot::Ballot;
use crate::shared::led::Led;
use crate::shared::rejoins::Rejoins;
use quorate_core::{Boot, Entry, EntryId, Event, MemberIndex, MemberSet, Out, Slot};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Vacant;

impl Replica {
    /// The leader of a ballot gave a sign of life.
    pub(super) fn follow(&mut self, from: MemberIndex, ballot: Ballot, out: &mut Out<Self>) {
        if ballot < self.promised {
            return;
        }
        if !matches!(self.role, Role::Follower) && !self.is_preferred() {
            self.step_down();
        }
        self.promised = ballot;
        if self.leadership.follow(from, ballot) {
            self.forward_all(out);
            self.ask_mark_of(from, out);
        }
    }

    /// Leads no more, and wants to no more.
    pub(super) fn step_down(&mut self) {
        self.role = Role::Follower;
        self.leadership.give_up();
    }

    /// Asks members for their vote.
    pub(super) fn say_pre_vote(&self, to: MemberSet, out: &mut Out<Self>) {
        let message = Message::PreVote {
            boot: self.config.seating.boot,
            campaign: self.leadership.campaign,
            next: self.ap,
        };
        self.say_early(to, &message, out);
    }

    /// A peer asks whether this replica would follow it.
    pub(super) fn on_pre_vote(
        &mut self,
        from: MemberIndex,
        boot: Boot,
        campaign: u64,
        next: Slot,
        out: &mut Out<Self>,
    ) {
        if self.is_led_against(from) || self.is_barred(from) {
            return self.tell(from, next, out);
        }
        if next < self.ap {
            out.inform(self.config.seating.members[from], next);
        }
        if !self.is_voting() {
            return;
        }
        if self.is_far_behind(next) {
            // It would have to learn much before it could lead.
            self.leadership.is_wanted = true;
            return;
        }
        let promised = self.promised;
        let answer = Message::PreVoteOk {
            boot,
            campaign,
            promised,
        };
        out.send_early(self.peer(from), answer);
        if self.armed.election {
            self.postpone_election(out);
        }
    }

    /// A peer would follow.
    pub(super) fn on_pre_vote_ok(
        &mut self,
        from: MemberIndex,
        boot: Boot,
        campaign: u64,
        promised: Ballot,
        out: &mut Out<Self>,
    ) {
        self.leadership.see_round(promised.round);
        let is_mine = boot == self.config.seating.boot && campaign == self.leadership.campaign;
        if let Role::Canvassing { granted } = &mut self.role
            && is_mine
        {
            granted.insert(from);
            self.stand_if_granted(out);
        }
    }

    /// Enough would follow: phase 1(a), once the own ballot is durable.
    pub(super) fn stand_if_granted(&mut self, out: &mut Out<Self>) {
        let Role::Canvassing { granted } = self.role else {
            return;
        };
        let is_enough = granted.len() >= self.config.thresholds.read;
        if !is_enough || self.is_barred(self.config.seating.me) {
            return;
        }
        // Nobody gets there but by words that no replica says.
        let Some(round) = self
            .promised
            .round
            .max(self.leadership.round_seen)
            .checked_add(1)
        else {
            return;
        };
        let node = self.config.seating.my_id();
        let ballot = Ballot { round, node };
        self.promised = ballot;
        let from = self.ap;
        let untold = Gathered::untold(from);
        self.role = Role::Candidate(Candidate {
            from,
            written: out.persist(Record::Candidacy { ballot }),
            promises: vec![untold; self.config.seating.members.len()],
            wanted: BTreeMap::new(),
        });
        self.say_prepare(self.config.seating.others(), out);
    }

    /// Phase 1(a), to members that have not promised.
    pub(super) fn say_prepare(&self, to: MemberSet, out: &mut Out<Self>) {
        if let Role::Candidate(candidate) = &self.role {
            let is_silent = |member: &MemberIndex| !candidate.promises[*member].is_complete;
            let silent: MemberSet = to.iter().filter(is_silent).collect();
            let message = Message::Prepare {
                ballot: self.promised,
                from: candidate.from,
            };
            self.say(silent, &message, out);
        }
    }

    /// A part of a promise. One that leaves a gap is dropped: it comes again.
    pub(super) fn on_promise(&mut self, from: MemberIndex, part: Promise, out: &mut Out<Self>) {
        if !self.is_present(from, &part.lives, out) {
            return out.emit(Event::Branch("promise of a former life"));
        }
        let Role::Candidate(candidate) = &mut self.role else {
            return;
        };
        let gathered = &mut candidate.promises[from];
        if part.ballot != self.promised || gathered.is_complete {
            return;
        }
        gathered.next = gathered.next.max(part.next);
        let is_old = part.until.is_some_and(|until| until <= gathered.covered);
        if is_old || part.from > gathered.covered.max(part.next) {
            return;
        }
        if gathered.votes.len() + part.votes.len() > 2 * self.config.slots_max {
            return self.misbehaved(from, "a promise about too many slots", out);
        }
        let covered = gathered.covered;
        let news = part.votes.into_iter().filter(|vote| vote.slot >= covered);
        gathered.votes.extend(news);
        match part.until {
            Some(until) => gathered.covered = until,
            None => gathered.is_complete = true,
        }
        self.lead_if_elected(out);
    }

    /// A ballot is over.
    pub(super) fn on_nack(&mut self, ballot: Ballot, promised: Ballot) {
        self.leadership.see_round(promised.round);
        let is_own = matches!(self.role, Role::Candidate(_) | Role::Leader(_));
        if is_own && ballot == self.promised && promised > ballot {
            self.step_down();
        }
    }

    /// Leads if `QR` members, this one included, have promised, and everything they know to be
    /// decided is known here.
    pub(super) fn lead_if_elected(&mut self, out: &mut Out<Self>) {
        let Role::Candidate(candidate) = &self.role else {
            return;
        };
        let complete = || candidate.complete();
        let own = usize::from(self.disk.is_durable(candidate.written));
        if complete().count() + own < self.config.thresholds.read {
            return;
        }
        let ahead = complete().max_by_key(|(_, promise)| promise.next);
        if let Some((member, promise)) = ahead.filter(|(_, promise)| promise.next > self.ap) {
            out.emit(Event::Branch("candidate behind"));
            return out.catch_up(
                self.config.seating.members[member],
                Slot(promise.next.0 - 1),
            );
        }
        let least = complete().map(|(_, promise)| promise.next).min();
        match self.recover_slots() {
            Ok(recovered) => self.lead(recovered, least.unwrap_or(self.ap), out),
            Err(missing) => {
                out.emit(Event::Branch("fragments lost"));
                self.want(missing, out);
            }
        }
    }

    /// Has values gathered, each once: what was lost where promises come from may be elsewhere.
    /// Members that lost their promises have fragments too, and vote no sooner than these slots end.
    fn want(&mut self, missing: Vec<Entry>, out: &mut Out<Self>) {
        let Role::Candidate(candidate) = &mut self.role else {
            return;
        };
        for entry in missing {
            if let Vacant(wanted) = candidate.wanted.entry(entry.id) {
                wanted.insert(None);
                out.gather(entry);
            }
        }
    }

    /// Phase 1(c), slot by slot; or the values that more promises must show, or that must be gathered,
    /// before anything is proposed.
    fn recover_slots(&self) -> Result<Vec<Recovered>, Vec<Entry>> {
        let mut gathered = &BTreeMap::new();
        let mut votes: BTreeMap<Slot, Vec<(MemberIndex, Proposal)>> = BTreeMap::new();
        for (offset, instance) in self.slots.iter().enumerate() {
            if let Some(mut own) = instance.accepted.clone() {
                if own.is_whole() {
                    own.fragments.add(1);
                }
                let votes = votes.entry(self.slot_at(offset)).or_default();
                votes.push((self.config.seating.me, self.in_effect(own)));
            }
        }
        if let Role::Candidate(candidate) = &self.role {
            gathered = &candidate.wanted;
            let complete = candidate.complete();
            let told = complete.flat_map(|(m, promise)| promise.votes.iter().map(move |v| (m, v)));
            for (member, vote) in told.filter(|(_, vote)| vote.slot >= self.ap) {
                let accepted = Proposal {
                    ballot: vote.ballot,
                    value: vote.value.clone(),
                    fragments: vote.fragments,
                };
                let accepted = self.in_effect(accepted);
                votes.entry(vote.slot).or_default().push((member, accepted));
            }
        }
        let end = votes
            .last_key_value()
            .map_or(self.ap, |(slot, _)| slot.next());
        let by_value = !self.config.faults.is(Fault::CountByBallot);
        let (mut recovered, mut missing) = (Vec::new(), Vec::new());
        for slot in (self.ap.0..end.0).map(Slot) {
            let votes = votes.remove(&slot).unwrap_or_default();
            match choose(slot, votes, by_value, gathered) {
                Ok(slot) => recovered.push(slot),
                Err(value) => missing.push(value),
            }
        }
        if missing.is_empty() {
            Ok(recovered)
        } else {
            Err(missing)
        }
    }

    /// What an accept in a slot not delivered comes to. An entry delivered already, in an earlier
    /// slot, takes no effect here, chosen or not (I12): it is the no-op by another name. Nobody
    /// needs its payloads for that, and they may be gone, as nothing refers to them any more.
    fn in_effect(&self, accepted: Proposal) -> Proposal {
        let is_delivered = |id| self.done.entries.contains(id);
        if accepted.name().is_some_and(is_delivered) {
            Proposal {
                ballot: accepted.ballot,
                value: None,
                fragments: Fragments::WHOLE,
            }
        } else {
            accepted
        }
    }
}

/// What is proposed in a slot again, or the value that has to be at hand before that can be told. Of
/// those that have accepted it the candidate comes first: it may have all of the value.
fn choose(
    slot: Slot,
    votes: Vec<(MemberIndex, Proposal)>,
    by_value: bool,
    gathered: &BTreeMap<EntryId, Option<Entry>>,
) -> Result<Recovered, Entry> {
    let said = votes.iter().map(|(_, accepted)| Vote {
        ballot: accepted.ballot,
        value: accepted.name(),
        fragments: accepted.fragments,
    });
    let choice = decide(&said.collect::<Vec<_>>(), by_value);
    let mut recovered = Recovered {
        slot,
        value: None,
        code: 1,
        holders: Vec::new(),
    };
    let (Choice::Value { value: name, code } | Choice::Wait { value: name, code }) = choice else {
        return Ok(recovered);
    };
    let of_name = votes
        .into_iter()
        .filter(|(_, accepted)| accepted.name() == name);
    for (member, accepted) in of_name {
        recovered.holders.push((member, accepted.fragments));
        recovered.value = recovered.value.or(accepted.value);
    }
    recovered.code = code;
    if let Choice::Wait { .. } = choice
        && let Some(value) = recovered.value.take()
    {
        let whole = gathered.get(&value.id).cloned().flatten();
        recovered.value = Some(whole.ok_or(value)?);
    }
    Ok(recovered)
}
