//! The leader: entries get slots, go to all, and are committed by a majority.

use super::Replica;
use super::messages::{Append, Behind, LogEntry, Message};
use super::mutants::Fault;
use super::role::{Leader, Progress, Role};
use crate::shared::led::Led;
use crate::shared::lives::Lives;
use crate::shared::rejoins::Rejoins;
use crate::shared::under_way::is_long;
use quorate_core::pace::{ACK_NS_MAX, under_way_ns};
use quorate_core::{Entry, Event, MemberIndex, MemberSet, Out, Slot, reached};

impl Replica {
    /// Begins to lead. The no-op is the entry by whose commitment all before it are: entries of earlier
    /// terms are never counted.
    pub(super) fn lead(&mut self, out: &mut Out<Self>) {
        let (noop, members) = (self.log.end(), self.config.seating.members.len());
        self.role = Role::Leader(Leader::new(noop, self.log.first(), members));
        self.leadership.lead();
        self.disk.clear();
        out.emit(Event::Branch("elected"));
        self.append(None, out);
        let own: Vec<Entry> = self.offers.entries().cloned().collect();
        own.into_iter().for_each(|entry| self.enqueue(entry));
        self.ask_mark_of(self.config.seating.me, out);
    }

    /// Gives an entry the next slot.
    fn append(&mut self, entry: Option<Entry>, out: &mut Out<Self>) {
        let term = self.term;
        self.write(LogEntry { term, entry }, out);
        self.disk.push(out.persisted(), self.log.end());
    }

    /// Gives pending entries their slots, within the window.
    pub(super) fn append_pending(&mut self, out: &mut Out<Self>) {
        while self.log.len() < self.config.window
            && !self.makes_room()
            && let Role::Leader(leader) = &mut self.role
            && let Some(entry) = leader.pending.pop_front()
        {
            self.append(Some(entry), out);
        }
    }

    /// Ends every slot before `until`, within the window: a peer waits for it.
    pub(super) fn fill(&mut self, until: Slot, out: &mut Out<Self>) {
        while self.is_leader() && self.log.len() < self.config.window && self.log.end() < until {
            out.emit(Event::Branch("slot ended for a peer"));
            self.append(None, out);
        }
    }

    /// Sends what was not sent yet, to all at once where all have as much.
    pub(super) fn replicate(&mut self, out: &mut Out<Self>) {
        let (others, end) = (self.config.seating.others(), self.log.end());
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let sent = |member: MemberIndex| leader.followers[member].sent;
        let is_ready =
            |member: &MemberIndex| leader.followers[*member].probe.is_none() && sent(*member) < end;
        let mut ready: MemberSet = others.iter().filter(is_ready).collect();
        let mut groups = Vec::new();
        while let Some(first) = ready.lowest() {
            let from = sent(first);
            let group: MemberSet = ready
                .iter()
                .filter(|member| sent(*member) == from)
                .collect();
            groups.push((group, from));
            ready -= group;
        }
        for (group, from) in groups {
            self.send_log(group, from, out);
        }
    }

    /// Sends the log from a slot on to some members, in messages of a bounded size.
    pub(super) fn send_log(&mut self, to: MemberSet, from: Slot, out: &mut Out<Self>) {
        let mut from = from.max(self.log.first());
        let (end, mut bytes) = (self.log.end(), 0);
        while from < end {
            let append = self.part_of_log(from);
            bytes += body_bytes(&append);
            from = Slot(from.0 + append.entries.len() as u64);
            self.say_early(to, &Message::Append(append), out);
        }
        self.note_sent(to, end, bytes);
    }

    /// Sends a member one part of the log, to learn whether the logs are equal before a slot. The rest follows
    /// once they are: each further part would be refused as well.
    fn send_probe(&mut self, to: MemberIndex, from: Slot, out: &mut Out<Self>) {
        let (to, part) = (MemberSet::only(to), self.part_of_log(from));
        let (end, bytes) = (Slot(from.0 + part.entries.len() as u64), body_bytes(&part));
        self.say_early(to, &Message::Append(part), out);
        self.note_sent(to, end, bytes);
    }

    /// The entries from a slot on that one message holds.
    fn part_of_log(&self, from: Slot) -> Append {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for entry in self.log.iter_from(from) {
            let more = entry.entry.as_ref().map_or(0, Entry::body_len);
            if !entries.is_empty() && bytes + more > self.config.append_bytes_max {
                break;
            }
            bytes += more;
            entries.push(entry.clone());
        }
        Append {
            term: self.term,
            from,
            term_before: self.log.term_before(from),
            entries,
            commit: self.log.first(),
        }
    }

    /// The log went to some members, up to `end`: `bytes` of entries.
    fn note_sent(&mut self, to: MemberSet, end: Slot, bytes: usize) {
        let (now_ns, first) = (self.now_ns, self.log.first());
        let has_long = self
            .log
            .iter()
            .any(|(_, one)| one.entry.as_ref().is_some_and(is_long));
        let under_way_ns = under_way_ns(bytes as u64 * to.len() as u64);
        let (pace, others) = (self.pace, self.config.seating.others());
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        for member in to {
            let follower = leader.follower(member);
            follower.sent = end;
            if !has_long {
                continue;
            }
            follower.until_ns = match follower.long {
                Some((_, since_ns)) if follower.until_ns > 0 => pace.again_ns(since_ns, now_ns),
                _ => now_ns + under_way_ns + pace.patience_ns(),
            };
            let since_ns = follower.long.map_or(now_ns, |(_, since_ns)| since_ns);
            follower.long = Some((end, since_ns));
        }
        if to == others {
            leader.announced = first;
        }
    }

    /// Tells what was committed and no entries have told.
    pub(super) fn announce(&mut self, out: &mut Out<Self>) {
        let (first, others) = (self.log.first(), self.config.seating.others());
        if let Role::Leader(leader) = &mut self.role
            && std::mem::replace(&mut leader.announced, first) < first
        {
            self.say_commit(others, out);
        }
    }

    /// Tells members what is committed.
    pub(super) fn say_commit(&self, to: MemberSet, out: &mut Out<Self>) {
        let end = self.log.end();
        let news = Append {
            term: self.term,
            from: end,
            term_before: self.log.term_before(end),
            entries: Vec::new(),
            commit: self.log.first(),
        };
        self.say_early(to, &Message::Append(news), out);
    }

    /// Own entries that became durable count now.
    pub(super) fn count_durable(&mut self, out: &mut Out<Self>) {
        let me = self.config.seating.me;
        while let Some(end) = self.disk.pop_durable() {
            if let Role::Leader(leader) = &mut self.role {
                leader.follower(me).matched = end;
            }
        }
        self.commit(out);
    }

    /// A member's log is the own one before a slot.
    pub(super) fn on_appended(
        &mut self,
        from: MemberIndex,
        term: u64,
        upto: Slot,
        lives: &Lives,
        out: &mut Out<Self>,
    ) {
        self.see_term(term, out);
        let is_present = self.is_present(from, lives, out);
        if !is_present || term != self.term || upto > self.log.end() {
            return;
        }
        let now_ns = self.now_ns;
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        leader.heard.insert(from);
        let follower = leader.follower(from);
        follower.matched = follower.matched.max(upto);
        if follower.probe.take().is_some() {
            follower.sent = follower.matched;
        }
        follower.sent = follower.sent.max(follower.matched);
        if let Some((end, since_ns)) = follower.long
            && end <= upto
        {
            (follower.long, follower.until_ns) = (None, 0);
            let took_ns = now_ns.saturating_sub(since_ns);
            self.pace.note(took_ns, ACK_NS_MAX);
        }
        self.commit(out);
    }

    /// Commits what a majority has, if it is of the own term: an entry of an earlier one may be on a
    /// majority, and be replaced all the same.
    fn commit(&mut self, out: &mut Out<Self>) {
        let enough = self.config.thresholds.commit;
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let Some(end) = reached(leader.matched(), enough, self.log.first()) else {
            return;
        };
        let is_own = self.log.term_before(end) == Some(self.term);
        if !is_own && !self.config.faults.is(Fault::CommitOldTerm) {
            return;
        }
        let noop = leader.noop;
        for (slot, entry) in self.log.iter().take_while(|(slot, _)| *slot < end) {
            out.emit(Event::Decided {
                slot,
                fast: slot >= noop,
                noop: entry.entry.is_none(),
                // Append, Appended.
                delays: 2,
            });
        }
        if let Role::Leader(leader) = &mut self.role {
            leader.timeouts = 0;
        }
        self.deliver_through(end, out);
    }

    /// A member's log is not the own one: it is sent an earlier part, or the decided slots that it lacks.
    ///
    /// A log that was sent in many parts is refused in as many answers, so that each counts only if it speaks
    /// of what was sent last: all but the first find a probe under way from an earlier slot. Without that
    /// answers and parts would multiply each other.
    pub(super) fn on_behind(&mut self, from: MemberIndex, behind: Behind, out: &mut Out<Self>) {
        self.see_term(behind.term, out);
        let (first, storms) = (
            self.log.first(),
            self.config.faults.is(Fault::AnswerRefusals),
        );
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        if behind.term != self.term {
            return;
        }
        leader.heard.insert(from);
        let Progress { matched, probe, .. } = leader.followers[from];
        let is_behind_probe = probe.is_some_and(|probe| probe < behind.rejected);
        if behind.rejected <= matched || is_behind_probe && !storms {
            return;
        }
        let start = behind.hint.max(matched).max(first);
        leader.follower(from).probe = Some(start);
        if start >= behind.rejected {
            out.inform(self.config.seating.members[from], behind.delivered);
        } else if storms {
            self.send_log(MemberSet::only(from), start, out);
        } else {
            self.send_probe(from, start, out);
        }
    }

    /// Somebody waits for something: says who leads, and what it has missed.
    pub(super) fn tell(&mut self, to: MemberIndex, next: Slot, out: &mut Out<Self>) {
        let it = MemberSet::only(to);
        if self.is_leader() {
            self.say_commit(it, out);
        } else if self.leadership.is_led() || next < self.log.first() {
            let upto = self.claim.upto.max(self.log.first());
            self.say_early(it, &Message::Led { upto }, out);
        }
        if self.log.first().0.saturating_sub(next.0) > self.config.window as u64 {
            out.inform(self.config.seating.members[to], next);
        }
    }

    /// Sends again what members have not acknowledged and had the time to. Long batches go again only when
    /// they are not on their way.
    pub(super) fn send_again(&mut self, to: MemberSet, only_stale: bool, out: &mut Out<Self>) {
        let (first, end, now_ns) = (self.log.first(), self.log.end(), self.now_ns);
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let stale_end = match only_stale {
            true => std::mem::replace(&mut leader.stale_end, end).min(end),
            false => end,
        };
        let mut late = Vec::new();
        for member in to {
            let follower = leader.follower(member);
            follower.probe = follower.probe.map(|probe| probe.max(first));
            let from = follower.probe.unwrap_or(follower.matched).max(first);
            if from < stale_end && now_ns >= follower.until_ns {
                late.push((member, from, follower.probe.is_some()));
            }
        }
        for (member, from, is_probing) in late {
            match is_probing {
                true => self.send_probe(member, from, out),
                false => self.send_log(MemberSet::only(member), from, out),
            }
        }
    }

    /// Nothing that was sent to a member arrives any more: its connection broke.
    pub(super) fn lose_sent(&mut self, member: MemberIndex) {
        if let Role::Leader(leader) = &mut self.role {
            let follower = leader.follower(member);
            (follower.long, follower.until_ns) = (None, 0);
        }
    }
}

fn body_bytes(append: &Append) -> usize {
    let entries = append.entries.iter();
    entries
        .filter_map(|one| one.entry.as_ref())
        .map(Entry::body_len)
        .sum()
}
