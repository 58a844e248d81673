//! The leader: phase 2, and what it tells of its outcome.

use super::Replica;
use super::ballot::Ballot;
use super::lives::Lives;
use super::messages::{Claim, Message};
use super::role::{Leader, Proposal, Role, Trust};
use quorate_core::{Entry, Event, Out, Peers, Slot};
use std::collections::VecDeque;

/// A slot that an earlier leader may have decided, and what is proposed there again.
pub(super) struct Recovered {
    pub(super) slot: Slot,
    pub(super) value: Option<Entry>,
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
            is_effective: true,
        });
        (self.leader, self.trust, self.is_wanted) = (None, Trust::None, false);
        // What waits for the disk was proposed in an earlier ballot.
        self.unflushed.clear();
        out.emit(Event::Branch("elected"));
        self.say_commit(self.config.others(), least, out);
        for Recovered { slot, value } in recovered {
            if value.is_none() {
                out.emit(Event::Branch("gap filled"));
            }
            self.propose(slot, value, out);
        }
        let own: Vec<Entry> = self
            .offers
            .iter()
            .map(|offer| offer.entry.clone())
            .collect();
        own.into_iter().for_each(|entry| self.enqueue(entry));
        self.ask_mark_of(self.config.me, out);
    }

    /// Takes an entry to propose, unless it is on its way or decided.
    pub(super) fn enqueue(&mut self, entry: Entry) {
        let name = Some(entry.id);
        let is_proposed = |slots: &VecDeque<super::Instance>| {
            let mut accepted = slots.iter().filter_map(|slot| slot.accepted.as_ref());
            accepted.any(|proposal| proposal.name() == name)
        };
        if let Role::Leader(leader) = &mut self.role
            && !self.done.0.contains(entry.id)
            && !leader.pending.iter().any(|pending| pending.id == entry.id)
            && !is_proposed(&self.slots)
        {
            leader.pending.push_back(entry);
        }
    }

    /// An entry for the leader. A follower passes on what it got from its origin, which may not
    /// reach the leader itself.
    pub(super) fn on_forward(&mut self, from: usize, entry: Entry, out: &mut Out<Self>) {
        if self.config.member(entry.id.origin).is_none() {
            return self.misbehaved(from, "an entry of no member", out);
        }
        if entry.body_len() > quorate_core::ENTRY_BYTES_MAX {
            return self.misbehaved(from, "an entry too large", out);
        }
        let pending_max = 2 * self.config.outstanding * self.config.members.len();
        match &self.role {
            Role::Leader(leader) if leader.pending.len() >= pending_max => {
                out.emit(Event::Branch("too much pending"));
            }
            Role::Leader(_) => self.enqueue(entry),
            _ => {
                let is_from_origin = self.config.members[from] == entry.id.origin;
                let leader = self
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
        loop {
            let Role::Leader(leader) = &mut self.role else {
                return;
            };
            if leader.next >= end {
                return;
            }
            let Some(entry) = leader.pending.pop_front() else {
                return;
            };
            let slot = leader.next;
            leader.next = slot.next();
            self.propose(slot, Some(entry), out);
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
            self.propose(slot, None, out);
        }
    }

    /// Phase 2(a). Peers write while the leader does.
    fn propose(&mut self, slot: Slot, value: Option<Entry>, out: &mut Out<Self>) {
        let ballot = self.promised;
        let offset = (slot.0 - self.ap.0) as usize;
        self.say_accept(Peers::All, slot, value.clone(), out);
        if let Role::Leader(leader) = &mut self.role {
            leader.announced = self.ap;
        }
        self.store(offset, Proposal { ballot, value }, out);
        self.instance_grown(offset).is_fresh = true;
        self.unflushed.push_back((out.persisted(), slot));
    }

    fn say_accept(&self, to: Peers, slot: Slot, value: Option<Entry>, out: &mut Out<Self>) {
        let message = Message::Accept {
            ballot: self.promised,
            slot,
            value,
            claim: self.own_claim(),
        };
        out.send_early(to, message);
    }

    /// Proposes again, to members of a mask that have not accepted.
    pub(super) fn repeat_proposals(&mut self, to: u64, only_stale: bool, out: &mut Out<Self>) {
        for offset in 0..self.slots.len() {
            let instance = &mut self.slots[offset];
            let is_fresh = std::mem::take(&mut instance.is_fresh);
            let silent = to & !instance.acks;
            if instance.is_chosen || silent == 0 || only_stale && is_fresh {
                continue;
            }
            let Some(proposal) = instance.accepted.clone() else {
                continue;
            };
            let slot = self.slot_at(offset);
            for member in (0..self.config.members.len()).filter(|m| silent & 1 << m != 0) {
                self.say_accept(self.peer(member), slot, proposal.value.clone(), out);
            }
        }
    }

    /// The own accept in a slot is durable.
    pub(super) fn accepted_here(&mut self, slot: Slot, out: &mut Out<Self>) {
        let ballot = self.promised;
        self.count_accept(self.config.me, ballot, slot, out);
    }

    /// Phase 2(b) of a member.
    pub(super) fn on_accepted(
        &mut self,
        from: usize,
        ballot: Ballot,
        slot: Slot,
        lives: &Lives,
        out: &mut Out<Self>,
    ) {
        if self.is_present(from, lives, out) && ballot == self.promised {
            self.count_accept(from, ballot, slot, out);
        }
    }

    fn count_accept(&mut self, member: usize, ballot: Ballot, slot: Slot, out: &mut Out<Self>) {
        let enough = self.config.thresholds.write as u32;
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
        instance.acks |= 1 << member;
        if instance.is_chosen || instance.acks.count_ones() < enough {
            return;
        }
        instance.is_chosen = true;
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
        let is_open = |slot: &super::Instance| slot.accepted.is_some() && !slot.is_chosen;
        self.slots.iter().any(is_open)
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
            self.say_commit(self.config.others(), ap, out);
        }
    }

    /// Tells members what is chosen; by name what was before this leader, from `next` on.
    pub(super) fn say_commit(&self, to: u64, next: Slot, out: &mut Out<Self>) {
        let claim = self.own_claim();
        let message = Message::Commit {
            ballot: self.promised,
            claim,
            earlier: self.names(next, claim.since),
        };
        self.send_to(to, &message, |to, message| out.send_early(to, message));
    }

    /// Somebody waits for something: says who leads, and what it has missed.
    pub(super) fn tell(&mut self, to: usize, next: Slot, out: &mut Out<Self>) {
        let since = match &self.role {
            Role::Leader(leader) => {
                let since = leader.since;
                self.say_commit(1 << to, next, out);
                since
            }
            _ => {
                let (ballot, claim) = self.claim;
                if self.is_led() || next < claim.upto {
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
            out.inform(self.config.members[to], next);
        }
    }
}
