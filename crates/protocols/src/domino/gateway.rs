//! The gateway: entries of what clients sent, and where they go.

use super::Replica;
use super::config::Way;
use super::messages::{LaneNo, Message, Named, Proposal, Stamp, Vote};
use crate::shared::lags::{Lags, Probe};
use crate::shared::peers::Member;
use quorate_core::{
    Class, Command, Entry, EntryId, Event, MemberIndex, MemberSet, Now, Out, Outcome, Refusal,
    RequestId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// A proposal that gets a vote in this step, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ballotted {
    pub(super) from: MemberIndex,
    pub(super) named: Named,
    pub(super) probe: Probe,
    /// Whether there was room for it.
    pub(super) is_kept: bool,
}

/// The position that an own entry has, and what members said of it there.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub(super) struct Standing {
    /// Where, if anywhere: the fast lane or the own one.
    pub(super) place: Option<(LaneNo, Stamp)>,
    /// Whether it goes to the own lane: it lost a position in the fast one, or is late there.
    pub(super) is_own: bool,
    /// Members that voted for it, by the ballot of the last one, and members that refused.
    pub(super) votes: MemberSet,
    pub(super) refusals: MemberSet,
    /// Retransmission timers since it got its place.
    pub(super) age: u32,
}

/// Own entries, and what tells where they should go.
#[derive(Clone, Default, Debug)]
pub(super) struct Gateway {
    /// Own entries that are not delivered.
    pub(super) standings: BTreeMap<EntryId, Standing>,
    /// The last own stamp in the fast lane.
    pub(super) last: Stamp,
    /// How long messages take.
    pub(super) lags: Lags,
    /// Proposals that were heard in this step.
    pub(super) ballot_box: Vec<Ballotted>,
    /// Entries of others that lost a position, and how many retransmission timers ago: their gateways may be gone.
    pub(super) orphans: BTreeMap<EntryId, (Entry, u32)>,
}

impl Hash for Gateway {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.standings, self.last).hash(to);
        for (id, (_, age)) in &self.orphans {
            (id, age).hash(to);
        }
    }
}

/// Retransmission timers after which an entry of another, that lost its position, is taken for one without a gateway.
const ORPHAN_AGE: u32 = 6;

impl Replica {
    /// Takes what waits, or refuses it: where promises were lost, no position can be had for a write.
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        let mut admitted = commands;
        if self.is_silent {
            let writes = admitted.extract_if(.., |command| command.class != Class::Read);
            for write in writes {
                out.reply(write.id, Outcome::Refused(Refusal::NotServing));
            }
        }
        self.clients.admit(admitted, &self.config.batches, out);
    }

    /// Nobody waits for these requests any more.
    pub(super) fn on_withdraw(&mut self, ids: &BTreeSet<RequestId>, out: &mut Out<Self>) {
        self.clients.withdraw(ids, out);
    }

    /// Forms entries of what waits.
    pub(super) fn form_entries(&mut self, now: Now) {
        let config = self.config.clone();
        while self.clients.may_form_entry(&config.batches) {
            let entry = self.clients.form_entry(&config.batches, now);
            let standing = Standing {
                is_own: !self.goes_fast(),
                ..Standing::default()
            };
            self.gateway.standings.insert(entry.id, standing);
            self.clients.offers.push(entry, self.now_ns, self.now_ns);
        }
    }

    /// Whether an entry should go to the fast lane.
    fn goes_fast(&self) -> bool {
        let is_led = self.fast().is_some_and(|lane| lane.round.is_some());
        let is_faster = || {
            let n = self.config.seating.members.len();
            let lags = &self.gateway.lags;
            let fast = lags.round_trip(self.config.thresholds.fast, n);
            let own = lags.round_trip(self.config.thresholds.classic, n);
            fast.is_some_and(|fast| own.is_none_or(|own| fast <= own))
        };
        match self.config.way {
            Way::Own => false,
            Way::Fast => is_led,
            Way::Predicted => is_led && is_faster(),
        }
    }

    /// Gives own entries a position that have none, and those that lost theirs another one.
    pub(super) fn place_entries(&mut self, out: &mut Out<Self>) {
        let entries: Vec<Entry> = self.clients.offers.entries().cloned().collect();
        for entry in entries {
            let mut standing = self
                .gateway
                .standings
                .get(&entry.id)
                .copied()
                .unwrap_or_default();
            if let Some((no, stamp)) = standing.place {
                let lane = self.lane(no);
                let is_lost = stamp <= lane.decided && lane.named.get(&stamp) != Some(&entry.id);
                if is_lost {
                    out.emit(Event::Branch("position lost"));
                    (standing.place, standing.is_own) = (None, true);
                }
            }
            let is_fast = standing
                .place
                .is_some_and(|(no, _)| Some(no) == self.fast_lane());
            if standing.is_own && (standing.place.is_none() || is_fast) {
                let place = self.suggest(&entry, out).map(|at| (self.my_lane(), at));
                standing.place = place.or(standing.place);
                standing.age = 0;
            } else if standing.place.is_none() {
                standing.place = self.propose(&entry, out);
                standing.age = 0;
            }
            self.gateway.standings.insert(entry.id, standing);
        }
    }

    /// Proposes an entry for the fast lane, at a time when a fast quorum should have it.
    fn propose(&mut self, entry: &Entry, out: &mut Out<Self>) -> Option<(LaneNo, Stamp)> {
        let no = self.fast_lane()?;
        let n = self.config.seating.members.len();
        let enough = match self.config.waits_for_all {
            true => n,
            false => self.config.thresholds.fast,
        };
        let default_ns = self.config.delays.learn_ns;
        let lag_ns = self.gateway.lags.one_way(enough, n, default_ns);
        let stamp = self.time().0.saturating_add(lag_ns);
        let stamp = Stamp(stamp).max(self.gateway.last.next());
        if stamp > Stamp::LAST {
            return None;
        }
        self.gateway.last = stamp;
        let proposal = Proposal {
            stamp,
            sent_ns: self.clock_ns,
            entry: entry.clone(),
        };
        self.tell(self.others(), &Message::Propose(proposal), out);
        let is_kept = self.has_room();
        self.keep_body(no, stamp, entry.clone());
        self.gateway.ballot_box.push(Ballotted {
            from: self.me(),
            named: Named {
                stamp,
                id: entry.id,
            },
            probe: self.probe(self.clock_ns),
            is_kept,
        });
        self.note_wait(stamp);
        Some((no, stamp))
    }

    /// What a member made of an own proposal.
    pub(super) fn on_vote(&mut self, from: MemberIndex, vote: Vote, out: &mut Out<Self>) {
        self.gateway.lags.note(from, vote.probe, self.clock_ns);
        if !vote.is_for {
            return self.note_refusal(from, &vote);
        }
        let (me, enough) = (self.me(), self.config.thresholds.fast);
        let leader = self
            .fast_lane()
            .and_then(|no| self.leader_of(no, vote.ballot));
        let own = self
            .fast()
            .and_then(|lane| lane.held.get(&vote.named.stamp));
        let is_own = own.is_some_and(|held| held.id == vote.named.id && held.ballot == vote.ballot);
        let Some(standing) = self.gateway.standings.get_mut(&vote.named.id) else {
            return;
        };
        let before = standing.votes.len();
        standing.votes.insert(from);
        standing.votes.insert_if(me, is_own);
        let is_led = leader.is_some_and(|leader| standing.votes.contains(leader));
        let is_many = before < enough && standing.votes.len() >= enough;
        if is_led && is_many {
            // It is answered when it is delivered: its results depend on what comes before it.
            out.emit(Event::Branch("committed at the gateway"));
        }
    }

    /// A member has, or will have, another vote at the position of an own proposal. Without the leader's, or with too
    /// few others', it has no chance there.
    pub(super) fn note_refusal(&mut self, from: MemberIndex, vote: &Vote) {
        let leader = self
            .fast_lane()
            .and_then(|no| self.leader_of(no, vote.ballot));
        let n = self.config.seating.members.len();
        let enough = self.config.thresholds.fast;
        if let Some(standing) = self.gateway.standings.get_mut(&vote.named.id) {
            standing.refusals.insert(from);
            let is_hopeless = standing.refusals.len() + enough > n;
            standing.is_own |= Some(from) == leader || is_hopeless;
        }
    }

    /// Entries that stand for long go to the own lane, too; where they are decided twice, the second time is none.
    pub(super) fn age_entries(&mut self) {
        let fast = self.fast_lane();
        for standing in self.gateway.standings.values_mut() {
            standing.age += 1;
            let is_fast = standing.place.is_none_or(|(no, _)| Some(no) == fast);
            standing.is_own |= is_fast && standing.age > 2;
        }
    }

    /// Entries of others, or of earlier starts, that have lost their positions: they may have no gateway any more, and
    /// this replica may have written down that it voted for them.
    pub(super) fn note_orphans(&mut self, walk: Stamp) {
        let bodies = self.lanes.iter().flat_map(|lane| &lane.bodies);
        let passed = bodies.filter(|((stamp, _), _)| *stamp <= walk);
        let lost = passed.filter(|((_, id), _)| {
            let is_own = self.gateway.standings.contains_key(id);
            !is_own && !self.done.entries.contains(*id)
        });
        let lost: Vec<Entry> = lost.map(|(_, entry)| entry.clone()).collect();
        for entry in lost {
            if (self.gateway.orphans.len() as u64) < self.config.slots_max {
                self.gateway.orphans.entry(entry.id).or_insert((entry, 0));
            }
        }
    }

    /// Gives entries without a gateway a position in the own lane.
    pub(super) fn adopt(&mut self, out: &mut Out<Self>) {
        // One member after the other.
        let age_min = ORPHAN_AGE * (1 + self.me().position() as u32);
        let mut old = Vec::new();
        for (entry, age) in self.gateway.orphans.values_mut() {
            *age += 1;
            if *age >= age_min {
                old.push(entry.clone());
            }
        }
        for entry in old {
            let no = self.my_lane();
            let is_under_way = self.lane(no).held.values().any(|held| held.id == entry.id);
            if !is_under_way && self.suggest(&entry, out).is_some() {
                out.emit(Event::Branch("adopted"));
            }
        }
    }

    /// These entries are delivered.
    pub(super) fn drop_done(&mut self) {
        let done = &self.done.entries;
        self.clients.drop_done(&self.done);
        self.gateway.standings.retain(|id, _| !done.contains(*id));
        self.gateway.orphans.retain(|id, _| !done.contains(*id));
        self.counted.retain(|id, _| !done.contains(*id));
    }
}
