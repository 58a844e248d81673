//! Lanes with one leader each: what their leaders want in them, and what owners say of their own.
//!
//! The lane of a member is filled by its owner at the first ballot of all, without a phase 1. What the owner says to be
//! none in it, is none at once: nobody but it uses stamps of its lane, and whoever takes a lane over puts nothing into
//! it but what promises showed.

use super::Replica;
use super::lanes::Leading;
use super::messages::{Accept, Accepted, LaneNo, Message, Placed, Stamp};
use super::replica::Written;
use crate::shared::peers::Member;
use quorate_core::{Entry, MemberIndex, MemberSet, Out};
use std::collections::BTreeSet;

/// The own lane, as its owner knows it.
#[derive(Clone, Default, Hash, Debug)]
pub(super) struct Own {
    /// Stamps up to here may have been used by earlier starts.
    pub(super) from: Stamp,
    /// No stamp behind this one is used, or said to be none.
    pub(super) last: Stamp,
    /// Stamps that were used since the start, and are not decided here.
    pub(super) used: BTreeSet<Stamp>,
}

impl Own {
    /// Where nothing is but entries that are decided, by the word of the owner.
    fn word(&self) -> Stamp {
        self.used.first().map_or(self.last, |first| first.before())
    }
}

impl Replica {
    /// Gives an own entry a position in the own lane, if this replica leads it.
    pub(super) fn suggest(&mut self, entry: &Entry, out: &mut Out<Self>) -> Option<Stamp> {
        let no = self.my_lane();
        let lane = self.lane(no);
        let leading = lane.leading()?;
        let (prev, behind) = (
            leading.asked,
            lane.decided.max(lane.end()).max(self.own.last),
        );
        let stamp = Stamp(self.clock_ns)
            .max(behind.next())
            .max(self.walk.next());
        if stamp > Stamp::LAST {
            return None;
        }
        self.keep_body(no, stamp, entry.clone());
        self.own.last = stamp;
        self.own.used.insert(stamp);
        self.note_wait(stamp);
        let placed = vec![Placed {
            stamp,
            entry: entry.clone(),
        }];
        self.want(no, prev, stamp, placed, out);
        Some(stamp)
    }

    /// Asks all to accept a lane, of which this replica is the leader, up to a position. What was asked before reaches
    /// to `prev`.
    pub(super) fn want(
        &mut self,
        no: LaneNo,
        prev: Stamp,
        through: Stamp,
        placed: Vec<Placed>,
        out: &mut Out<Self>,
    ) {
        let (since, sent_ns) = (self.lane(no).since, self.clock_ns);
        let Some(Leading { ballot, .. }) = self.lane(no).leading() else {
            return;
        };
        let accept = Accept {
            lane: no,
            ballot: *ballot,
            since,
            prev,
            through,
            sent_ns,
            placed,
        };
        if no == self.my_lane() {
            self.reserve(through, out);
        }
        let is_reserved = no != self.my_lane() || through <= self.reserved_durable;
        self.take_over_into(no, &accept, out);
        let written = Written::Own {
            lane: no,
            ballot: accept.ballot,
            through,
        };
        self.disk.push(out.persisted(), written);
        if let Some(leading) = self.lane_mut(no).leading_by(accept.ballot) {
            (leading.asked, leading.is_fresh) = (through, true);
        }
        let message = Message::Accept(accept);
        match is_reserved {
            true => self.tell(self.others(), &message, out),
            false => out.send(quorate_core::Peers::All, message),
        }
    }

    /// Asks members again to accept what they have not accepted of a lane.
    pub(super) fn want_again(&mut self, no: LaneNo, to: MemberSet, out: &mut Out<Self>) {
        let lane = self.lane(no);
        let Some(leading) = lane.leading() else {
            return;
        };
        let through = leading.asked;
        let lacks = |member: &MemberIndex| {
            let accepted = leading.accepted.get(member);
            accepted.is_none_or(|accepted| *accepted < through)
        };
        let lacking = to.iter().filter(lacks).collect::<Vec<_>>();
        if lacking.is_empty() || through <= lane.decided && through <= self.walk {
            return;
        }
        let prev = self.walk;
        let in_reach = lane.held.range(prev.next()..);
        let placed = in_reach.filter(|(stamp, held)| **stamp <= through && held.is_classic);
        let placed = placed.filter_map(|(stamp, held)| {
            let entry = lane.body(*stamp, held.id)?.clone();
            let stamp = *stamp;
            Some(Placed { stamp, entry })
        });
        let accept = Accept {
            lane: no,
            ballot: leading.ballot,
            since: lane.since,
            prev,
            through: through.max(prev),
            sent_ns: self.clock_ns,
            placed: placed.collect(),
        };
        let message = Message::Accept(accept);
        // It was reserved, if it had to be, before it was asked for the first time.
        for member in lacking {
            out.send(self.peer(member), message.clone());
        }
    }

    /// A member has accepted what this replica wants.
    pub(super) fn on_accepted(&mut self, from: MemberIndex, accepted: Accepted) {
        let no = accepted.lane;
        self.gateway.lags.note(from, accepted.probe, self.clock_ns);
        if usize::from(no.0) >= self.lanes.len() {
            return;
        }
        if let Some(leading) = self.lane_mut(no).leading_by(accepted.ballot) {
            let known = leading.accepted.entry(from).or_default();
            *known = accepted.through.max(*known);
        }
    }

    /// Counts what was accepted in all lanes that this replica leads, and takes its own word about its own.
    pub(super) fn count_all(&mut self, out: &mut Out<Self>) {
        let enough = self.config.thresholds.classic;
        for no in self.lane_numbers() {
            let lane = self.lane(no);
            let before = lane.decided;
            if let Some(leading) = lane.leading() {
                let accepted = leading.accepted_by(enough).min(leading.asked);
                self.lane_mut(no).decide(accepted);
            }
            self.note_counted(no, before, false);
        }
        self.take_own_word();
        self.count_fast_round(out);
    }

    /// What is said of own entries that this replica counted.
    pub(super) fn note_counted(&mut self, no: LaneNo, before: Stamp, is_fast: bool) {
        let (lane, counted) = (&self.lanes[usize::from(no.0)], &mut self.counted);
        if lane.decided > before && lane.leading().is_some() {
            let new = lane.named.range(before.next()..).map(|(_, id)| *id);
            for id in new.filter(|id| !self.done.entries.contains(*id)) {
                counted.entry(id).or_insert(is_fast);
            }
        }
    }

    fn take_own_word(&mut self) {
        let no = self.my_lane();
        let decided = self.lane(no).decided;
        self.own.used = self.own.used.split_off(&decided.next());
        let word = self.own.word().min(self.reserved_durable);
        if !self.is_silent && decided >= self.own.from && word > decided {
            // Nothing is there but own entries that are decided: those are before it.
            self.lane_mut(no).decided = word;
            self.lane_mut(no).has_moved = true;
        }
    }

    /// The last position up to which lanes have to be filled by now: something waits there, and its time has come.
    pub(super) fn due(&self) -> Stamp {
        let now = Stamp(self.clock_ns).max(self.forced);
        let now = if self.config.has_fast_lane() {
            now
        } else {
            Stamp(u64::MAX)
        };
        let due = self.waits.range(..=now).next_back();
        due.map(|(at, _)| *at).unwrap_or_default()
    }

    /// Fills lanes of this replica with nothing as far as something waits.
    pub(super) fn fill_lanes(&mut self, out: &mut Out<Self>) {
        let due = self.due();
        if self.is_silent || due <= self.walk {
            return;
        }
        self.filled = self.filled.max(due);
        if due > self.own.last && self.lane(self.my_lane()).decided >= self.own.from {
            self.own.last = due;
            self.reserve(due, out);
        }
        for no in self.lane_numbers() {
            let is_filled = no == self.my_lane() || Some(no) == self.fast_lane();
            let asked = self.lane(no).leading().map(|leading| leading.asked);
            if let Some(asked) = asked.filter(|asked| !is_filled && *asked < due) {
                self.want(no, asked, due, Vec::new(), out);
            }
        }
        self.close_round(due, out);
    }
}
