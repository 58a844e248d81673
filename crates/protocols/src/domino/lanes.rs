//! What a replica knows of a lane: what it holds there as an acceptor, what is decided, and what it is to it.

use super::messages::{Accept, Held, LaneNo, Learn, Named, Promise, Round, Stamp, Step, Votes};
use crate::shared::ballot::Ballot;
use quorate_core::{Entry, EntryId, MemberIndex, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Decided positions that are remembered behind what is delivered, for those that are a little slower.
const REMEMBERED: usize = 128;

/// Phase 1 of a lane under way.
#[derive(Clone, Debug)]
pub(super) struct Preparing {
    pub(super) ballot: Ballot,
    /// The own promise is durable, and counts.
    pub(super) is_written: bool,
    /// The promises of others.
    pub(super) promises: BTreeMap<MemberIndex, Promise>,
}

/// Phase 2 of a lane.
#[derive(Clone, Hash, Debug)]
pub(super) struct Leading {
    pub(super) ballot: Ballot,
    /// What promises showed reaches up to here; a fast round begins behind it.
    pub(super) start: Stamp,
    /// All members were asked to accept the lane up to here.
    pub(super) asked: Stamp,
    /// Whether they were asked since the last retransmission timer.
    pub(super) is_fresh: bool,
    /// The own acceptance is durable up to here.
    pub(super) own: Stamp,
    /// By member: up to where it has accepted.
    pub(super) accepted: BTreeMap<MemberIndex, Stamp>,
    /// By member: its votes in the fast round.
    pub(super) votes: BTreeMap<MemberIndex, Votes>,
    /// The own votes in the fast round that are not durable.
    pub(super) unwritten: BTreeSet<Stamp>,
    /// Up to here no entry gets the own vote any more, durably.
    pub(super) nat: Stamp,
}

impl Leading {
    pub(super) fn new(ballot: Ballot, start: Stamp) -> Leading {
        Leading {
            ballot,
            start,
            asked: start,
            is_fresh: true,
            own: Stamp(0),
            accepted: BTreeMap::new(),
            votes: BTreeMap::new(),
            unwritten: BTreeSet::new(),
            nat: Stamp(0),
        }
    }

    /// Up to where a number of members have accepted, this one among them or not.
    pub(super) fn accepted_by(&self, enough: usize) -> Stamp {
        let ends = self.accepted.values().chain([&self.own]);
        nth_largest(ends.copied().collect(), enough)
    }
}

/// The end that so many have reached; none where there are fewer.
pub(super) fn nth_largest(mut ends: Vec<Stamp>, nth: usize) -> Stamp {
    ends.sort_unstable_by(|a, b| b.cmp(a));
    let at = ends.get(nth.saturating_sub(1));
    at.copied().unwrap_or_default()
}

/// What this replica is to a lane.
#[derive(Clone, Debug)]
pub(super) enum Lead {
    /// Another leads it, if anybody does.
    None,
    /// This replica asks for promises.
    Preparing(Preparing),
    /// This replica has the promises of a majority, or needs none.
    Leading(Leading),
}

impl Hash for Lead {
    fn hash<H: Hasher>(&self, to: &mut H) {
        match self {
            Lead::None => 0.hash(to),
            Lead::Preparing(phase) => {
                let promised: Vec<_> = phase.promises.keys().collect();
                (1, phase.ballot, phase.is_written, promised).hash(to);
            }
            Lead::Leading(phase) => (2, phase).hash(to),
        }
    }
}

/// What a replica knows of a lane.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) no: LaneNo,
    /// Nothing of a lower ballot is accepted, or gets a vote.
    pub(super) promised: Ballot,
    /// The highest ballot heard of.
    pub(super) highest: Ballot,
    /// What was accepted of leaders: of the highest ballot first, each reaching further than those before it.
    pub(super) steps: Vec<Step>,
    /// Entries that have the last vote of this replica, by position behind what is delivered.
    pub(super) held: BTreeMap<Stamp, Held>,
    /// The fast round, in the fast lane alone.
    pub(super) round: Option<Round>,
    /// All positions up to here are decided.
    pub(super) decided: Stamp,
    /// What is decided may lack what replicas have not delivered before this slot.
    pub(super) since: Slot,
    /// Decided entries, as far as they are remembered.
    pub(super) named: BTreeMap<Stamp, EntryId>,
    /// Decided entries up to here may be forgotten.
    pub(super) forgotten: Stamp,
    /// Others were told what is decided up to here.
    pub(super) told: Stamp,
    /// Entries that were heard of, with the positions they are for.
    pub(super) bodies: BTreeMap<(Stamp, EntryId), Entry>,
    /// The part that this replica has in filling the lane.
    pub(super) lead: Lead,
    /// The member that fills the lane was heard since the last election timer.
    pub(super) is_heard: bool,
    /// Something of the lane was decided since the last election timer.
    pub(super) has_moved: bool,
    /// Election timers in a row at which it was heard and nothing had moved.
    pub(super) strikes: u32,
    /// A ballot of this replica was outdone: it waits before the next.
    pub(super) is_barred: bool,
}

impl Lane {
    pub(super) fn new(no: LaneNo, since: Slot) -> Lane {
        Lane {
            no,
            promised: Ballot::default(),
            highest: Ballot::default(),
            steps: Vec::new(),
            held: BTreeMap::new(),
            round: None,
            decided: Stamp(0),
            since,
            named: BTreeMap::new(),
            forgotten: Stamp(0),
            told: Stamp(0),
            bodies: BTreeMap::new(),
            lead: Lead::None,
            is_heard: false,
            has_moved: false,
            strikes: 0,
            is_barred: false,
        }
    }

    /// Phase 2 of this replica, if it leads the lane.
    pub(super) fn leading(&self) -> Option<&Leading> {
        match &self.lead {
            Lead::Leading(leading) => Some(leading),
            _ => None,
        }
    }

    /// Phase 2 of this replica by a ballot.
    pub(super) fn leading_by(&mut self, ballot: Ballot) -> Option<&mut Leading> {
        match &mut self.lead {
            Lead::Leading(leading) if leading.ballot == ballot => Some(leading),
            _ => None,
        }
    }

    /// Somebody has promised this ballot: this replica does not lead by a lower one any more, nor wants to. Says
    /// whether it did one of the two.
    pub(super) fn see(&mut self, ballot: Ballot) -> bool {
        self.highest = self.highest.max(ballot);
        let own = match &self.lead {
            Lead::None => return false,
            Lead::Preparing(phase) => phase.ballot,
            Lead::Leading(phase) => phase.ballot,
        };
        let is_outdone = own < ballot;
        if is_outdone {
            self.lead = Lead::None;
            self.is_barred = true;
        }
        is_outdone
    }

    /// How far the leader of a ballot was followed without gaps.
    pub(super) fn accepted_of(&self, ballot: Ballot) -> Option<Stamp> {
        let first = self.steps.first().filter(|step| step.ballot == ballot);
        first.map(|step| step.through)
    }

    /// The last position of which this replica has accepted anything, or where it voted.
    pub(super) fn end(&self) -> Stamp {
        let steps = self.steps.last().map_or(Stamp(0), |step| step.through);
        let nat = self.round.map_or(Stamp(0), |round| round.nat);
        let held = self.held.keys().next_back().copied();
        steps.max(nat).max(held.unwrap_or_default())
    }

    /// Accepts what a leader wants, which reaches on what this replica has of that leader, or has delivered. Says
    /// which entries are new here.
    pub(super) fn accept(&mut self, accept: &Accept, walk: Stamp) -> Vec<EntryId> {
        let (ballot, through) = (accept.ballot, accept.through);
        let from = self.accepted_of(ballot).unwrap_or(accept.prev);
        self.held
            .retain(|stamp, _| *stamp <= from || *stamp > through);
        let mut new = Vec::new();
        let in_reach = |stamp: Stamp| from.max(walk) < stamp && stamp <= through;
        for placed in accept.placed.iter().filter(|one| in_reach(one.stamp)) {
            let id = placed.entry.id;
            let held = Held {
                ballot,
                is_classic: true,
                id,
            };
            self.held.insert(placed.stamp, held);
            new.push(id);
        }
        self.steps.retain(|step| step.through > through);
        self.steps.insert(0, Step { through, ballot });
        if let Some(round) = &mut self.round {
            // What got a vote in the round of a lower ballot behind this was not chosen: no promise showed it.
            if round.ballot < ballot {
                *round = Round {
                    ballot,
                    nat: through,
                };
                self.held
                    .retain(|_, held| held.is_classic || held.ballot >= ballot);
            }
            round.nat = round.nat.max(through);
        }
        new
    }

    /// Positions are decided; says whether that was to be had from here on.
    pub(super) fn learn(&mut self, learn: &Learn) -> bool {
        if learn.from > self.decided || learn.through <= self.decided {
            return false;
        }
        let decided = self.decided;
        let in_reach = |stamp: Stamp| decided < stamp && stamp <= learn.through;
        let named = learn.named.iter().filter(|one| in_reach(one.stamp));
        self.named.extend(named.map(|one| (one.stamp, one.id)));
        self.decided = learn.through;
        self.since = self.since.max(learn.since);
        self.has_moved = true;
        true
    }

    /// As this replica counted, what it holds is decided up to here.
    pub(super) fn decide(&mut self, through: Stamp) {
        if through > self.decided {
            let held = self.held.range(self.decided.next()..=through);
            self.named
                .extend(held.map(|(stamp, held)| (*stamp, held.id)));
            self.decided = through;
            self.has_moved = true;
        }
    }

    /// What is decided behind a position, for others.
    pub(super) fn learned(&self, from: Stamp) -> Learn {
        let from = from.max(self.forgotten).min(self.decided);
        let named = self.named.range(from.next()..);
        Learn {
            lane: self.no,
            since: self.since,
            from,
            through: self.decided,
            named: named
                .map(|(stamp, id)| Named {
                    stamp: *stamp,
                    id: *id,
                })
                .collect(),
        }
    }

    /// Everything is delivered up to here.
    pub(super) fn trim(&mut self, walk: Stamp) {
        self.held = self.held.split_off(&walk.next());
        self.bodies.retain(|(stamp, _), _| *stamp > walk);
        while self.named.len() > REMEMBERED
            && self.named.keys().next().is_some_and(|first| *first <= walk)
        {
            if let Some((stamp, _)) = self.named.pop_first() {
                self.forgotten = stamp;
            }
        }
    }

    /// Everything is decided up to here, and delivered; what there is nobody said.
    pub(super) fn jump(&mut self, walk: Stamp) {
        if walk > self.decided {
            self.named.clear();
            (self.decided, self.forgotten) = (walk, walk);
            self.has_moved = true;
        }
    }

    /// The entry at a position, if it is here.
    pub(super) fn body(&self, stamp: Stamp, id: EntryId) -> Option<&Entry> {
        self.bodies.get(&(stamp, id))
    }
}

impl Hash for Lane {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.promised, self.highest, &self.steps, &self.held).hash(to);
        (self.round, self.decided, self.since, &self.named).hash(to);
        (self.forgotten, self.told, &self.lead).hash(to);
        (self.is_heard, self.has_moved, self.strikes, self.is_barred).hash(to);
        let names: Vec<_> = self.bodies.keys().collect();
        names.hash(to);
    }
}
