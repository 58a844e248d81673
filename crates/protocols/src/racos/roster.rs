//! What an origin never announced, and never will.
//!
//! A value dies undecided when its origin restarts before `k + f` held it: the origin has no more of it
//! than its own segment. A life later it says so to all, by naming what may still be ordered of its earlier
//! lives: all else is let go, and refused if it comes late. Nobody does so before it has applied what the
//! origin had: what is decided there is not named, and is not dead.
//!
//! A roster says the truth of its origin's promises until the origin loses its disk. Then it may spread a value
//! once more that it had said was dead. It does so in its new life, and a holder writes that down before it
//! acknowledges the value: so no roster of a life before has it let go, however late it comes. Nor does a
//! member heed one that knows of a later life, or, having lost its own disk, may not know of it yet.

use super::Replica;
use super::life::Life;
use super::messages::{Message, Record};
use super::mutants::Fault;
use quorate_core::{EntryId, Event, MemberIndex, MemberSet, Out, Slot};
use std::collections::BTreeMap;

/// A roster of this replica's that some members have not confirmed.
#[derive(Clone, Hash, Debug)]
pub(super) struct OwnRoster {
    /// Members that have not confirmed the roster.
    unconfirmed: MemberSet,
    /// Whether the roster was sent since the last retransmission timer.
    is_fresh: bool,
}

/// The last rosters heard, by member.
#[derive(Clone, Default, Hash, Debug)]
pub(super) struct Rosters {
    heeded: BTreeMap<MemberIndex, Roster>,
    /// Rosters whose sender had applied more than is applied here.
    waiting: BTreeMap<MemberIndex, (Slot, Roster)>,
}

#[derive(Clone, Hash, Debug)]
struct Roster {
    life: Life,
    open: Vec<EntryId>,
}

impl Rosters {
    /// Whether an origin has said that a value of one of its lives will never be ordered.
    pub(super) fn is_dead(&self, origin: MemberIndex, id: EntryId, life: Life) -> bool {
        let roster = self.heeded.get(&origin);
        roster.is_some_and(|roster| life < roster.life && !roster.open.contains(&id))
    }

    /// A roster that was written down.
    pub(super) fn restore(
        &mut self,
        member: MemberIndex,
        life: Life,
        next: Slot,
        open: Vec<EntryId>,
    ) {
        self.waiting.insert(member, (next, Roster { life, open }));
    }

    /// Of those that were written down, those are heeded for which enough is applied.
    pub(super) fn take_up(&mut self, ap: Slot) {
        let known = self
            .waiting
            .extract_if(.., |_, (next, _)| *next <= ap)
            .map(|(member, (_, roster))| (member, roster));
        self.heeded.extend(known);
    }

    /// The last life of a member that is known.
    fn life_of(&self, member: MemberIndex) -> Life {
        let waiting = self.waiting.get(&member).map(|(_, roster)| roster.life);
        waiting.max(self.heeded_of(member)).unwrap_or_default()
    }

    fn heeded_of(&self, member: MemberIndex) -> Option<Life> {
        self.heeded.get(&member).map(|roster| roster.life)
    }
}

impl Replica {
    /// Begins a life, which earlier ones cannot be mistaken for, and a roster of what those left.
    pub(super) fn begin_life(&mut self, life: Life, out: &mut Out<Self>) {
        self.life = life;
        self.life_written = out.persist(Record::Life { life });
        let others = self.config.others();
        self.roster = Some(OwnRoster {
            unconfirmed: others,
            is_fresh: true,
        });
        self.say_roster(others, out);
        self.conclude_roster();
    }

    /// A member has lost what it knew of this replica's lives.
    pub(super) fn renew_roster_for(&mut self, member: MemberIndex, out: &mut Out<Self>) {
        let it = MemberSet::only(member);
        if let Some(roster) = &mut self.roster {
            roster.unconfirmed |= it;
        } else if self.life > Life::FIRST {
            self.roster = Some(OwnRoster {
                unconfirmed: it,
                is_fresh: true,
            });
        }
        self.say_roster(it, out);
    }

    /// The own roster, to those of these members that have not confirmed it. Whoever does not know yet
    /// what its former lives left says nothing.
    pub(super) fn say_roster(&self, to: MemberSet, out: &mut Out<Self>) {
        let Some(roster) = &self.roster else { return };
        if self.rejoin.is_some() {
            return;
        }
        let is_mine = |id: &EntryId| id.origin == self.config.mvc.my_id();
        let ordered = self.mvc.undecided().filter(|entry| entry.bulk_len() > 0);
        let open = ordered.map(|entry| entry.id).chain(self.kept_own());
        // With `merged` the log says what becomes of earlier lives.
        let open = open.filter(|_| !self.config.merged);
        let message = Message::Roster {
            life: self.life,
            next: self.mvc.next(),
            open: open.filter(is_mine).collect(),
        };
        for member in to & roster.unconfirmed {
            out.send(self.peer(member), message.clone());
        }
    }

    /// Own values that are spread, or that a disk which was lost may have announced.
    fn kept_own(&self) -> impl Iterator<Item = EntryId> + '_ {
        let spread = self.spreading.keys().copied();
        let is_kept = |id: &EntryId| self.segments.get(*id).is_some();
        spread.chain(self.orphans.iter().copied().filter(is_kept))
    }

    pub(super) fn say_roster_again(&mut self, out: &mut Out<Self>) {
        let is_stale = |roster: &mut OwnRoster| !std::mem::take(&mut roster.is_fresh);
        if self.roster.as_mut().is_some_and(is_stale) {
            self.say_roster(self.config.others(), out);
        }
    }

    /// A member's roster.
    pub(super) fn on_roster(
        &mut self,
        from: MemberIndex,
        life: Life,
        next: Slot,
        open: Vec<EntryId>,
        out: &mut Out<Self>,
    ) {
        let heeded = self.rosters.heeded_of(from);
        if heeded.is_some_and(|heeded| life <= heeded) {
            return out.send(self.peer(from), Message::RosterAck { life });
        }
        // It comes again if it is not too old.
        if !self.config.faults.is(Fault::HeedOldRosters)
            && (self.rejoin.is_some() || life < self.life_of(from))
        {
            return out.emit(Event::Branch("old roster refused"));
        }
        let roster = Roster { life, open };
        if next > self.mvc.next() && !self.config.faults.is(Fault::HeedEarlyRoster) {
            out.emit(Event::Branch("roster waits"));
            self.rosters.waiting.insert(from, (next, roster));
        } else {
            self.heed(from, next, roster, out);
        }
    }

    /// The last life of a member that is known.
    fn life_of(&self, member: MemberIndex) -> Life {
        let its = self.config.mvc.members[member];
        let segments = self.segments.iter().filter(|(id, _)| id.origin == its);
        let spread = segments.map(|(_, segment)| segment.manifest.life).max();
        self.rosters.life_of(member).max(spread.unwrap_or_default())
    }

    /// Heeds the rosters that waited for what is applied by now.
    pub(super) fn heed_rosters(&mut self, out: &mut Out<Self>) {
        let ap = self.mvc.next();
        let due = |_: &MemberIndex, waiting: &mut (Slot, Roster)| waiting.0 <= ap;
        let due: Vec<_> = self.rosters.waiting.extract_if(.., due).collect();
        for (from, (next, roster)) in due {
            self.heed(from, next, roster, out);
        }
    }

    fn heed(&mut self, from: MemberIndex, next: Slot, roster: Roster, out: &mut Out<Self>) {
        let life = roster.life;
        let record = Record::Roster {
            member: from,
            life,
            next,
            open: roster.open.clone(),
        };
        out.persist(record);
        // One from before a loss may wait for more than this one.
        let waiting = &mut self.rosters.waiting;
        waiting.retain(|at, (_, other)| *at != from || other.life > life);
        self.rosters.heeded.insert(from, roster);
        self.forget_dead_of(from, out);
        out.send(self.peer(from), Message::RosterAck { life });
    }

    /// Lets go of what an origin will never have ordered (C5).
    pub(super) fn forget_dead_of(&mut self, origin: MemberIndex, out: &mut Out<Self>) {
        if self.config.merged {
            // Who holds it may have proposed it.
            return;
        }
        let its = self.config.mvc.members[origin];
        let is_dead = |id: EntryId, life| {
            id.origin == its && !self.mvc.holds(id) && self.rosters.is_dead(origin, id, life)
        };
        let segments = self.segments.iter();
        let dead = segments.filter(|(id, segment)| is_dead(**id, segment.manifest.life));
        let dead: Vec<EntryId> = dead.map(|(id, _)| *id).collect();
        dead.into_iter().for_each(|id| self.forget_value(id, out));
    }

    /// Lets go of a value that will never be ordered.
    pub(super) fn forget_value(&mut self, id: EntryId, out: &mut Out<Self>) {
        out.emit(Event::Branch("segment let go"));
        self.segments.remove(id);
        out.forget(id);
    }

    /// A member has heeded the own roster.
    pub(super) fn on_roster_ack(&mut self, from: MemberIndex, life: Life) {
        if let Some(roster) = &mut self.roster
            && life == self.life
        {
            roster.unconfirmed.remove(from);
            self.backoff = 0;
        }
        self.conclude_roster();
    }

    fn conclude_roster(&mut self) {
        let is_heeded = |roster: &mut OwnRoster| roster.unconfirmed.is_empty();
        let _ = self.roster.take_if(is_heeded);
    }
}
