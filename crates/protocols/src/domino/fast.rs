//! The fast lane (DFP): members vote for what gateways propose at its stamp, or, once their clocks are past that, for
//! nothing; the leader of the ballot counts, and asks for its own votes where others are not equal.

use super::Replica;
use super::gateway::Ballotted;
use super::lanes::{Leading, nth_largest};
use super::messages::{
    Held, LaneNo, Message, Named, Placed, Proposal, Round, Stamp, Timer, Vote, Votes,
};
use super::mutants::Fault;
use super::replica::Written;
use crate::shared::ballot::Ballot;
use crate::shared::peers::Member;
use quorate_core::{Due, EntryId, Event, MemberIndex, Out};
use std::collections::BTreeSet;

/// Stamps this far ahead of the own clock get no vote: the clocks are too far apart, in ns.
const AHEAD_NS_MAX: u64 = 60_000_000_000;

/// What is known of a member's vote at a position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Unknown,
    For(Option<EntryId>),
}

fn vote_of(votes: &Votes, at: Stamp) -> Known {
    let named = votes.named.iter().find(|named| named.stamp == at);
    match named {
        Some(named) => Known::For(Some(named.id)),
        None if at <= votes.nat => Known::For(None),
        None => Known::Unknown,
    }
}

impl Replica {
    /// The fast round of a ballot, if this replica leads it.
    pub(super) fn fast_round_led(&mut self, ballot: Ballot) -> Option<&mut Leading> {
        let no = self.fast_lane()?;
        self.lane_mut(no).leading_by(ballot)
    }

    /// The fast round that is open here, and its lane.
    pub(super) fn open_round(&self) -> Option<(LaneNo, Round)> {
        let lane = self.fast()?;
        let round = lane.round.filter(|round| round.ballot == lane.promised)?;
        (!self.is_silent).then_some((lane.no, round))
    }

    /// An entry of a gateway for the fast lane.
    pub(super) fn on_propose(
        &mut self,
        from: MemberIndex,
        proposal: Proposal,
        out: &mut Out<Self>,
    ) {
        let Some(no) = self.fast_lane() else {
            return self.misbehaved(from, "a proposal where no lane is fast", out);
        };
        if !self.is_fit(&proposal.entry) {
            return self.misbehaved(from, "an entry that cannot be", out);
        }
        let (stamp, id) = (proposal.stamp, proposal.entry.id);
        let probe = self.probe(proposal.sent_ns);
        let is_kept = stamp > self.walk && !self.is_ahead(stamp) && self.has_room();
        if is_kept {
            self.keep_body(no, stamp, proposal.entry);
        }
        let named = Named { stamp, id };
        self.gateway.ballot_box.push(Ballotted {
            from,
            named,
            probe,
            is_kept,
        });
    }

    fn is_ahead(&self, stamp: Stamp) -> bool {
        stamp.0.saturating_sub(self.time().0) > AHEAD_NS_MAX
    }

    /// Votes for what was proposed, and tells gateways.
    pub(super) fn vote_for_all(&mut self, out: &mut Out<Self>) {
        for proposed in std::mem::take(&mut self.gateway.ballot_box) {
            let Some((no, round)) = self.open_round() else {
                continue;
            };
            let Named { stamp, id } = proposed.named;
            let held = self.lane(no).held.get(&stamp).map(|held| held.id);
            let is_late = stamp <= round.nat && !self.fault(Fault::VoteBelowNat);
            let may_vote = proposed.is_kept && held.is_none() && !is_late;
            let is_wanted = stamp > self.lane(no).decided && !self.done.entries.contains(id);
            if may_vote && is_wanted {
                self.vote(no, round.ballot, proposed.named, out);
            }
            let is_for = self.lane(no).held.get(&stamp).map(|held| held.id) == Some(id);
            let vote = Vote {
                ballot: round.ballot,
                named: proposed.named,
                is_for,
                probe: proposed.probe,
            };
            if proposed.from != self.me() {
                out.send(self.peer(proposed.from), Message::Vote(vote));
            } else if !is_for {
                self.note_refusal(self.me(), &vote);
            }
        }
    }

    fn vote(&mut self, no: LaneNo, ballot: Ballot, named: Named, out: &mut Out<Self>) {
        let Named { stamp, id } = named;
        let held = Held {
            ballot,
            is_classic: false,
            id,
        };
        self.lane_mut(no).held.insert(stamp, held);
        self.latest = self.latest.max(stamp);
        self.note_wait(stamp);
        self.reserve(stamp, out);
        self.write_entry(id, out);
        if let Some(leading) = self.fast_round_led(ballot) {
            leading.unwritten.insert(stamp);
            self.disk
                .push(out.persisted(), Written::Vote { ballot, stamp });
        }
    }

    /// Votes for nothing where no entry got the vote, up to what is due.
    pub(super) fn close_round(&mut self, due: Stamp, out: &mut Out<Self>) {
        let Some((no, round)) = self.open_round().filter(|(_, round)| round.nat < due) else {
            return;
        };
        let nat = due.max(Stamp(self.clock_ns.min(self.reserved.0)));
        self.reserve(nat, out);
        self.lane_mut(no).round = Some(Round { nat, ..round });
        let ballot = round.ballot;
        if self.fast_round_led(ballot).is_some() {
            self.disk
                .push(out.persisted(), Written::Nat { ballot, nat });
        }
    }

    /// All votes of this replica in the open round, for its leader.
    pub(super) fn own_votes(&self) -> Option<Votes> {
        let (no, round) = self.open_round()?;
        let held = self.lane(no).held.iter();
        let in_round = held.filter(|(_, held)| held.ballot == round.ballot);
        Some(Votes {
            ballot: round.ballot,
            from: self.walk,
            nat: round.nat,
            named: in_round
                .map(|(stamp, held)| Named {
                    stamp: *stamp,
                    id: held.id,
                })
                .collect(),
        })
    }

    /// Votes of a member, for the leader of their ballot.
    pub(super) fn on_votes(&mut self, from: MemberIndex, votes: Votes) {
        if let Some(leading) = self.fast_round_led(votes.ballot) {
            let known = leading.votes.get(&from).map(|known| known.nat);
            if known <= Some(votes.nat) {
                leading.votes.insert(from, votes);
            }
        }
    }

    /// Up to where the own votes of a fast round are durable.
    fn written_until(leading: &Leading) -> Stamp {
        let first = leading.unwritten.first();
        let before = first.map_or(Stamp(u64::MAX), |first| first.before());
        leading.nat.min(before)
    }

    /// Counts the fast round that this replica leads: what a fast quorum, this replica included, voted alike is
    /// decided. Where too many voted otherwise, asks for its own votes.
    pub(super) fn count_fast_round(&mut self, out: &mut Out<Self>) {
        let Some(lane) = self.fast() else {
            return;
        };
        let Some(leading) = lane
            .leading()
            .filter(|leading| lane.decided >= leading.start)
        else {
            return;
        };
        let (no, before) = (lane.no, lane.decided);
        let enough = self.config.thresholds.fast;
        let own = Self::written_until(leading);
        // Of what is before them these votes say nothing.
        let heard = leading.votes.values().filter(|votes| votes.from <= before);
        let nats = heard.clone().map(|votes| votes.nat).chain([own]);
        let limit = nth_largest(nats.collect(), enough).min(own);
        let mut through = limit;
        let mut is_hopeless = false;
        for at in self.voted_positions(no, before, own.max(before)) {
            let mine = self.lane(no).held.get(&at).map(|held| held.id);
            let says = |what: Known| {
                heard
                    .clone()
                    .filter(move |votes| vote_of(votes, at) == what)
            };
            let equal = 1 + says(Known::For(mine)).count();
            let unknown = says(Known::Unknown).count();
            let unheard = self.config.seating.members.len() - 1 - heard.clone().count();
            if equal < enough {
                through = through.min(at.before());
                is_hopeless = equal + unknown + unheard < enough;
                break;
            }
        }
        if through > before {
            self.lane_mut(no).decide(through);
            self.note_counted(no, before, true);
        }
        if is_hopeless {
            out.emit(Event::Branch("collision"));
            self.ask_for_own_votes(out);
        }
    }

    /// Positions in the fast lane, behind one and up to another, at which this replica or a member voted for an entry.
    fn voted_positions(&self, no: LaneNo, behind: Stamp, upto: Stamp) -> BTreeSet<Stamp> {
        let lane = self.lane(no);
        let votes = lane.leading().into_iter().flat_map(|of| of.votes.values());
        let others = votes.flat_map(|votes| votes.named.iter().map(|named| named.stamp));
        let all = lane.held.keys().copied().chain(others);
        all.filter(|at| behind < *at && *at <= upto).collect()
    }

    /// Asks all members for the own votes of the fast round, as far as they are durable, in the same ballot: nothing
    /// else can be chosen in it.
    fn ask_for_own_votes(&mut self, out: &mut Out<Self>) {
        let Some(lane) = self.fast() else {
            return;
        };
        let Some(leading) = lane.leading() else {
            return;
        };
        let (no, through) = (lane.no, Self::written_until(leading));
        if through <= leading.asked || through <= lane.decided {
            return;
        }
        let walk = self.walk;
        let held = lane.held.range(..=through);
        let placed = held.filter_map(|(stamp, held)| {
            let entry = lane.body(*stamp, held.id)?.clone();
            let stamp = *stamp;
            Some(Placed { stamp, entry })
        });
        let placed: Vec<Placed> = placed.collect();
        self.want(no, walk, through, placed, out);
    }

    /// Gives fast rounds one to two times `collide_ns`.
    pub(super) fn on_collide(&mut self, out: &mut Out<Self>) {
        self.armed.collide = false;
        if self.is_round_late() {
            out.emit(Event::Branch("votes late"));
            self.ask_for_own_votes(out);
        }
    }

    /// Whether this replica leads a fast round in which something is due and not decided.
    fn is_round_late(&self) -> bool {
        let lane = self.fast().filter(|lane| lane.leading().is_some());
        lane.is_some_and(|lane| {
            let asked = lane.leading().map_or(Stamp(0), |leading| leading.asked);
            let due = self.due();
            lane.decided < due && asked < due
        })
    }

    /// Has the collision timer run while a fast round is under way.
    pub(super) fn watch_fast_round(&mut self, out: &mut Out<Self>) {
        if !self.armed.collide && self.is_round_late() {
            self.armed.collide = true;
            out.arm(Timer::Collide, Due::After(self.config.collide_ns));
        }
    }
}
