//! The leader: phase 2, and what it tells of its outcome.

use super::Replica;
use super::learner::LeaderClaim;
use super::messages::{Accept, Claim, Message, has_bulk};
use super::role::{Instance, Leader, PendingEntry, Recovered, Role, Tally, is_whole};
use crate::shared::ballot::Ballot;
use crate::shared::led::Led;
use crate::shared::lives::Lives;
use crate::shared::rejoins::Rejoins;
use crate::shared::under_way::{UnderWay, alone_ns, is_long};
use quorate_core::pace::ACK_NS_MAX;
use quorate_core::{Entry, Event, MemberIndex, MemberSet, Out, Slot};
use std::collections::{BTreeMap, VecDeque};

/// A proposal of the own ballot, under a code.
#[derive(Clone, Copy, Hash, Debug)]
pub(super) struct OwnProposal {
    pub(super) slot: Slot,
    pub(super) code: u8,
}

impl Replica {
    /// Begins to lead. `least` is the first slot that some member of the quorum has not delivered.
    pub(super) fn lead(&mut self, recovered: Vec<Recovered>, least: Slot, out: &mut Out<Self>) {
        let end = recovered.last().map_or(self.ap, |last| last.slot.next());
        self.role = Role::Leader(Leader {
            next: end,
            since: self.ap,
            recovered: end,
            announced: self.ap,
            pending: VecDeque::new(),
            spreading: Vec::new(),
            gathering: BTreeMap::new(),
            is_effective: true,
            timeouts: 0,
        });
        self.leadership.lead();
        // What waits for the disk was proposed in an earlier ballot.
        self.disk.clear();
        out.emit(Event::Branch("elected"));
        self.say_commit(self.config.seating.others(), least, out);
        for recovered in recovered {
            if recovered.value.is_none() {
                out.emit(Event::Branch("gap filled"));
            }
            self.propose_again(recovered, out);
        }
        let own: Vec<Entry> = self
            .offers
            .iter()
            .map(|offer| offer.entry.clone())
            .collect();
        own.into_iter().for_each(|entry| self.enqueue(entry, out));
        self.ask_mark_of(self.config.seating.me, out);
    }

    /// Takes an entry to propose, unless it is on its way or decided.
    pub(super) fn enqueue(&mut self, entry: Entry, out: &mut Out<Self>) {
        let is_large = self.is_large(&entry);
        let name = Some(entry.id);
        let is_proposed = |slots: &VecDeque<Instance>| {
            let mut accepted = slots.iter().filter_map(|slot| slot.accepted.as_ref());
            accepted.any(|proposal| proposal.name() == name)
        };
        if let Role::Leader(leader) = &mut self.role
            && !self.done.entries.contains(entry.id)
            && !leader
                .pending
                .iter()
                .any(|pending| pending.entry.id == entry.id)
            && !leader
                .spreading
                .iter()
                .any(|spreading| spreading.entry.id == entry.id)
            && !leader.is_gathering(entry.id)
            && !is_proposed(&self.slots)
        {
            if is_large {
                self.spread(entry, out);
            } else {
                leader.pending.push_back(PendingEntry {
                    entry,
                    spread_code: None,
                });
            }
        }
    }

    /// An entry for the leader. A follower passes on what it got from its origin, which may not
    /// reach the leader itself.
    pub(super) fn on_forward(&mut self, from: MemberIndex, entry: Entry, out: &mut Out<Self>) {
        if self.config.seating.member(entry.id.origin).is_none() {
            return self.misbehaved(from, "an entry of no member", out);
        }
        if entry.body_len() > quorate_core::ENTRY_BYTES_MAX {
            return self.misbehaved(from, "an entry too large", out);
        }
        if !is_whole(Some(&entry)) {
            return self.misbehaved(from, "an entry without its payloads", out);
        }
        let pending_max = 2 * self.config.batches.outstanding * self.config.seating.members.len();
        match &self.role {
            Role::Leader(leader)
                if leader.pending.len() + leader.spreading.len() >= pending_max =>
            {
                out.emit(Event::Branch("too much pending"));
            }
            Role::Leader(_) => self.enqueue(entry, out),
            _ => {
                let is_from_origin = self.config.seating.members[from] == entry.id.origin;
                let leader = self
                    .leadership
                    .leader
                    .filter(|leader| *leader != from && is_from_origin);
                if let Some(leader) = leader {
                    out.send_early(self.peer(leader), Message::Forward { entry });
                }
            }
        }
    }

    /// Gives pending entries their slots, within the window.
    pub(super) fn propose_pending(&mut self, out: &mut Out<Self>) {
        let end = self.slot_at(self.config.window);
        if self.makes_room() {
            return;
        }
        loop {
            let Role::Leader(leader) = &mut self.role else {
                return;
            };
            if leader.next >= end {
                return;
            }
            let Some(PendingEntry { entry, spread_code }) = leader.pending.pop_front() else {
                return;
            };
            let slot = leader.next;
            leader.next = slot.next();
            let Some(code) = spread_code else {
                let code = self.code_of(Some(&entry));
                self.propose(slot, Some(entry), code, MemberSet::EMPTY, out);
                continue;
            };
            // What was spread is there or on its way; who lost it says so later.
            let (others, now_ns) = (self.config.seating.others(), self.now_ns());
            let attached = UnderWay::new(others, self.line.through_ns(now_ns));
            self.propose(slot, Some(entry), code, others, out);
            self.instance_grown((slot.0 - self.ap.0) as usize).attached = attached;
        }
    }

    /// Ends every slot before `until`, within the window: a peer waits for it.
    pub(super) fn fill(&mut self, until: Slot, out: &mut Out<Self>) {
        let end = until.min(self.slot_at(self.config.window));
        while let Role::Leader(leader) = &mut self.role
            && leader.next < end
        {
            let slot = leader.next;
            leader.next = slot.next();
            out.emit(Event::Branch("slot ended for a peer"));
            self.propose(slot, None, 1, MemberSet::EMPTY, out);
        }
    }

    /// Phase 2(a), under a code; `holders` need no fragment. Peers write while the leader does.
    pub(super) fn propose(
        &mut self,
        slot: Slot,
        value: Option<Entry>,
        code: u8,
        holders: MemberSet,
        out: &mut Out<Self>,
    ) {
        let offset = (slot.0 - self.ap.0) as usize;
        let others = self.config.seating.others();
        let lacking = if has_bulk(value.as_ref()) {
            others - holders
        } else {
            others
        };
        self.say_accept(lacking, slot, value.clone(), code, true, out);
        self.say_accept(others - lacking, slot, value.clone(), code, false, out);
        if let Role::Leader(leader) = &mut self.role {
            leader.announced = self.ap;
        }
        let mut attached = UnderWay::default();
        let now_ns = self.now_ns();
        let mut until_ns = self.line.put(value.as_ref(), code, lacking, now_ns);
        if let Some(entry) = value.as_ref().filter(|entry| is_long(entry)) {
            until_ns = now_ns + alone_ns(entry, lacking) + self.pace.patience_ns();
        }
        attached.begin(now_ns, lacking, until_ns);
        self.store(offset, self.promised, value, code, out);
        let instance = self.instance_grown(offset);
        (instance.is_fresh, instance.attached) = (true, attached);
        instance.tallies.push(Tally {
            code,
            acks: MemberSet::EMPTY,
        });
        self.disk.push(out.persisted(), OwnProposal { slot, code });
    }

    /// Asks members to accept, with their fragments or on the strength of those they have.
    pub(super) fn say_accept(
        &self,
        to: MemberSet,
        slot: Slot,
        value: Option<Entry>,
        code: u8,
        is_attached: bool,
        out: &mut Out<Self>,
    ) {
        let is_attached = is_attached || !has_bulk(value.as_ref());
        let value = if is_attached {
            value
        } else {
            value.map(|entry| entry.with_share(None))
        };
        let message = Message::Accept(Accept {
            ballot: self.promised,
            slot,
            value,
            code,
            is_attached,
            claim: self.own_claim(),
        });
        self.say_early(to, &message, out);
    }

    /// Proposes again, to those of these members that have not accepted. They may have the fragment
    /// already, and say so if they do not. A long batch goes again only when it had its time.
    pub(super) fn repeat_proposals(
        &mut self,
        to: MemberSet,
        only_stale: bool,
        out: &mut Out<Self>,
    ) {
        let (ballot, now_ns) = (self.promised, self.now_ns());
        for offset in 0..self.slots.len() {
            let instance = &mut self.slots[offset];
            let is_fresh = std::mem::take(&mut instance.is_fresh);
            if !is_fresh {
                instance.attached.expire(now_ns);
            }
            let Some(tally) = instance.tallies.last().copied() else {
                continue;
            };
            let value = instance
                .accepted
                .as_ref()
                .and_then(|own| own.value.as_ref());
            let is_long = value.is_some_and(is_long);
            let mut silent = to - tally.acks;
            if is_long {
                silent -= instance.attached.members();
            }
            if instance.is_chosen || silent.is_empty() || only_stale && is_fresh {
                continue;
            }
            let accepted = instance.accepted.clone();
            let Some(proposal) = accepted.filter(|accepted| accepted.ballot == ballot) else {
                continue;
            };
            if is_long {
                let attached = &mut instance.attached;
                let again_ns = self.pace.again_ns(attached.since_ns(), now_ns);
                attached.sent(silent, again_ns);
            }
            let slot = self.slot_at(offset);
            self.say_accept(silent, slot, proposal.value, tally.code, false, out);
        }
    }

    /// The own accept in a slot is durable.
    pub(super) fn accepted_here(&mut self, slot: Slot, code: u8, out: &mut Out<Self>) {
        let ballot = self.promised;
        self.count_accept(self.config.seating.me, ballot, slot, code, out);
    }

    /// Phase 2(b) of a member.
    pub(super) fn on_accepted(
        &mut self,
        from: MemberIndex,
        ballot: Ballot,
        slot: Slot,
        code: u8,
        lives: &Lives,
        out: &mut Out<Self>,
    ) {
        if self.is_present(from, lives, out) && ballot == self.promised {
            self.presence.hear(from);
            self.count_accept(from, ballot, slot, code, out);
        }
    }

    /// Accepts count by code: fragments of different codes do not rebuild a value together.
    fn count_accept(
        &mut self,
        member: MemberIndex,
        ballot: Ballot,
        slot: Slot,
        code: u8,
        out: &mut Out<Self>,
    ) {
        let enough = self.config.thresholds.write_of(code);
        let (me, now_ns) = (self.config.seating.me, self.now_ns());
        if !matches!(self.role, Role::Leader(_)) {
            return;
        }
        let Some(instance) = self.instance_mut(slot) else {
            return;
        };
        let Some(proposal) = instance.accepted.as_ref().filter(|p| p.ballot == ballot) else {
            return;
        };
        let noop = proposal.value.is_none();
        let tally = instance.tallies.iter_mut().find(|tally| tally.code == code);
        let Some(tally) = tally else {
            return;
        };
        let is_news = tally.acks.insert(member) && member != me;
        let is_enough = tally.acks.len() >= enough && !instance.is_chosen;
        let is_paced = is_news && proposal.value.as_ref().is_some_and(is_long);
        let took_ns = now_ns.saturating_sub(instance.attached.since_ns());
        instance.is_chosen |= is_enough;
        if is_paced {
            self.pace.note(took_ns, ACK_NS_MAX);
        }
        if !is_enough {
            return;
        }
        if let Role::Leader(leader) = &mut self.role {
            leader.is_effective = true;
            let fast = slot >= leader.recovered;
            out.emit(Event::Decided {
                slot,
                fast,
                noop,
                // Accept, Accepted.
                delays: 2,
            });
        }
        self.deliver(out);
    }

    /// Whether some proposal of this leader is not chosen yet.
    pub(super) fn has_unchosen(&self) -> bool {
        let is_own = |slot: &Instance| {
            let accepted = slot.accepted.as_ref();
            accepted.is_some_and(|accepted| accepted.ballot == self.promised)
        };
        self.slots
            .iter()
            .any(|slot| is_own(slot) && !slot.is_chosen)
    }

    /// What is chosen by the own count.
    fn own_claim(&self) -> Claim {
        match &self.role {
            Role::Leader(leader) => Claim {
                since: leader.since,
                upto: self.ap,
            },
            _ => Claim::default(),
        }
    }

    /// Tells what was chosen and no Accept has told.
    pub(super) fn announce(&mut self, out: &mut Out<Self>) {
        let ap = self.ap;
        if let Role::Leader(leader) = &mut self.role
            && std::mem::replace(&mut leader.announced, ap) < ap
        {
            self.say_commit(self.config.seating.others(), ap, out);
        }
    }

    /// Tells members what is chosen; by name what was before this leader, from `next` on.
    pub(super) fn say_commit(&self, to: MemberSet, next: Slot, out: &mut Out<Self>) {
        let claim = self.own_claim();
        let message = Message::Commit {
            ballot: self.promised,
            claim,
            earlier: self.names(next, claim.since),
        };
        self.say_early(to, &message, out);
    }

    /// Somebody waits for something: says who leads, and what it has missed.
    pub(super) fn tell(&mut self, to: MemberIndex, next: Slot, out: &mut Out<Self>) {
        let since = match &self.role {
            Role::Leader(leader) => {
                let since = leader.since;
                self.say_commit(MemberSet::only(to), next, out);
                since
            }
            _ => {
                let LeaderClaim { ballot, claim } = self.claim;
                if self.leadership.is_led() || next < claim.upto {
                    let earlier = Vec::new();
                    let message = Message::Commit {
                        ballot,
                        claim,
                        earlier,
                    };
                    out.send_early(self.peer(to), message);
                }
                claim.since
            }
        };
        if next < since || self.is_far_behind(next) {
            out.inform(self.config.seating.members[to], next);
        }
    }
}
