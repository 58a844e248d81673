//! The follower: the leader's entries, and what is committed.

use super::Replica;
use super::messages::{Append, Behind, LogEntry, Message, Record};
use super::mutants::Fault;
use super::role::Role;
use crate::shared::claim::Claim;
use crate::shared::decided::DecidedSet;
use crate::shared::leadership::Trust;
use crate::shared::led::Led;
use crate::shared::rejoins::Rejoins;
use crate::shared::timers::Timer;
use quorate_core::{Base, Due, ENTRY_BYTES_MAX, Event, MemberIndex, MemberSet, Out, Slot};

impl Append {
    /// Whether a leader can say this: terms do not descend, and none is later than its own.
    fn is_sound(&self) -> bool {
        let mut latest = self.term_before.unwrap_or(0);
        let mut are_ordered = true;
        for entry in &self.entries {
            are_ordered &= latest <= entry.term;
            latest = entry.term;
        }
        are_ordered && latest <= self.term
    }

    /// Whether no entry is larger than one may be, nor has payloads.
    fn is_bounded(&self) -> bool {
        let mut entries = self.entries.iter().filter_map(|one| one.entry.as_ref());
        entries.all(|entry| entry.body_len() <= ENTRY_BYTES_MAX && entry.bulk_len() == 0)
    }
}

impl Replica {
    /// A leader's entries, or news of what is committed.
    pub(super) fn on_append(&mut self, from: MemberIndex, append: Append, out: &mut Out<Self>) {
        if !append.is_sound() {
            return self.misbehaved(from, "terms out of order", out);
        }
        if !append.is_bounded() {
            return self.misbehaved(from, "an entry too large, or with payloads", out);
        }
        if !self.follow(from, append.term, out) {
            return;
        }
        self.note_claim(from, append.commit);
        // Who lost its promises appends nothing, and learns what is decided from the hosts of others.
        if !self.is_voting() {
            return;
        }
        let trusts_all = self.config.faults.is(Fault::TrustPrevious);
        let is_near = trusts_all && append.from <= self.log.end();
        if !is_near && !self.log.matches(append.from, append.term_before) {
            return self.say_behind(from, append.from, out);
        }
        // Never to the own end: what is behind the entries that the message spoke of may be another leader's.
        self.deliver_through(append.commit.min(append.from), out);
        let Append {
            term,
            from: first,
            entries,
            commit,
            ..
        } = append;
        let has_entries = !entries.is_empty();
        let upto = self.take_entries(first, entries, out);
        if has_entries && upto >= self.log.first() {
            let lives = self.voter.lives().clone();
            out.send(self.peer(from), Message::Appended { term, upto, lives });
        }
        let known = match self.config.faults.is(Fault::CommitOwnEnd) {
            true => self.log.end(),
            false => upto,
        };
        self.deliver_through(commit.min(known), out);
    }

    /// Appends entries from a slot on, before which the logs are equal. Only what conflicts is cut off: a
    /// message that comes late changes nothing. Gives the end of what is equal now.
    fn take_entries(&mut self, first: Slot, entries: Vec<LogEntry>, out: &mut Out<Self>) -> Slot {
        let cuts_always = self.config.faults.is(Fault::TruncateAlways) && !entries.is_empty();
        let mut slot = first;
        for entry in entries {
            let is_open = slot >= self.log.first();
            let known = self.log.term_of(slot);
            if is_open && known.is_none() && self.log.len() >= self.config.slots_max {
                return slot;
            }
            if is_open && known.is_some_and(|term| term != entry.term) {
                self.cut(slot, out);
            }
            if is_open && known != Some(entry.term) {
                self.write(entry, out);
            }
            slot = slot.next();
        }
        if cuts_always && slot < self.log.end() && slot >= self.log.first() {
            self.cut(slot, out);
        }
        slot
    }

    /// Cuts the log off, for the leader of the present term.
    fn cut(&mut self, from: Slot, out: &mut Out<Self>) {
        out.emit(Event::Branch("log cut"));
        self.log.truncate(from);
        let at = self.term;
        out.persist(Record::Cut { from, at });
    }

    /// Writes an entry at the end of the log, under the leader of the present term.
    pub(super) fn write(&mut self, entry: LogEntry, out: &mut Out<Self>) {
        let (slot, at) = (self.log.end(), self.term);
        self.log.push(entry.clone());
        out.persist(Record::Append { slot, at, entry });
    }

    /// Tells the leader that its log is not the own one before a slot.
    fn say_behind(&self, to: MemberIndex, rejected: Slot, out: &mut Out<Self>) {
        let behind = Behind {
            term: self.term,
            rejected,
            hint: self.log.hint(rejected),
            delivered: self.log.first(),
        };
        out.send_early(self.peer(to), Message::Behind(behind));
    }

    /// A peer follows somebody that is not heard here: what is given to it gets there.
    pub(super) fn on_led(&mut self, from: MemberIndex, upto: Slot, out: &mut Out<Self>) {
        self.note_claim(from, upto);
        let is_free = matches!(self.role, Role::Follower | Role::Canvassing { .. });
        if is_free && self.leadership.leader.is_none() {
            self.leadership.hear_of(from, self.term);
            self.offer_all(out);
        }
    }

    /// Somebody knows every slot before this one to be decided.
    pub(super) fn note_claim(&mut self, at: MemberIndex, upto: Slot) {
        if upto > self.claim.upto {
            let at = Some(at);
            self.claim = Claim { at, upto };
        }
    }

    /// Delivers every slot before this one that is in the log: they are committed.
    pub(super) fn deliver_through(&mut self, upto: Slot, out: &mut Out<Self>) {
        while self.log.first() < upto {
            let slot = self.log.first();
            let Some(entry) = self.log.deliver() else {
                return;
            };
            let name = entry.name();
            // An entry takes effect in the first of its slots, everywhere alike.
            let is_second = name.is_some_and(|id| self.done.entries.contains(id));
            let entry = entry.entry.filter(|_| !is_second);
            self.done.advance(slot, entry.as_ref());
            out.deliver(slot, entry);
            if let Some(id) = name {
                self.offers.settle(id, self.is_leader(), self.now_ns);
            }
            self.backoff.moved();
            self.patience.note_served();
        }
    }

    /// Whether slots are decided that are not known here.
    pub(super) fn is_behind(&self) -> bool {
        self.log.first() < self.claim.upto && !self.is_leader()
    }

    /// What is decided and not known here may come in a moment; if it does not, it is fetched.
    pub(super) fn watch_claim(&mut self, out: &mut Out<Self>) {
        if self.is_behind() && !self.armed.catch_up {
            self.armed.catch_up = true;
            out.arm(Timer::CatchUp, Due::After(self.config.delays.learn_ns));
        }
    }

    /// The host caught up from a peer.
    pub(super) fn on_installed(&mut self, next: Slot, base: DecidedSet, out: &mut Out<Self>) {
        if next <= self.log.first() {
            return;
        }
        let is_beyond = next > self.log.end();
        self.log.install(next);
        self.done = base;
        self.offers.drop_done(&self.done);
        self.backoff.moved();
        self.patience.note_served();
        let others = self.config.seating.others();
        match &mut self.role {
            Role::Leader(_) if is_beyond => {
                // Another leads, and has for a while.
                out.emit(Event::Branch("leader overtaken"));
                self.step_down();
            }
            Role::Leader(leader) => {
                let done = &self.done.entries;
                leader.pending.retain(|pending| !done.contains(pending.id));
            }
            Role::Canvassing { granted } => {
                let silent = others - *granted;
                self.say_pre_vote(silent, out);
            }
            Role::Candidate(_) => self.say_vote(others, out),
            Role::Follower => self.say_installed(next, out),
        }
    }

    /// Tells the leader that goes on from where the host caught up to.
    fn say_installed(&self, upto: Slot, out: &mut Out<Self>) {
        if let Some(leader) = self.leadership.leader
            && self.leadership.trust != Trust::None
            && self.is_voting()
        {
            let (term, lives) = (self.term, self.voter.lives().clone());
            let message = Message::Appended { term, upto, lives };
            self.say(MemberSet::only(leader), &message, out);
        }
    }
}
