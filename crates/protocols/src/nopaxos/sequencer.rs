//! The sequencer: it gives entries the numbers of its session, passes them on, and keeps nothing.
//!
//! No number of a session is ever given to two entries. So a session is stamped in by one start of one process: that in
//! which its sequencer first heard of it, which is durable before the first stamp leaves.

use super::Replica;
use super::messages::{Message, View};
use quorate_core::{Entry, EntryId, Event, Lsn, MemberIndex, MemberSet, Out};
use std::hash::{Hash, Hasher};

/// What a replica stamps, where that is its turn.
#[derive(Clone, Debug)]
pub(super) struct Sequencer {
    /// Earlier starts may have stamped in sessions up to this one.
    pub(super) barred: u64,
    /// The session in which `number` counts.
    pub(super) session: u64,
    /// The number of the next stamp.
    pub(super) number: u64,
    /// The record that says which session it is: before it is durable, nothing is stamped.
    pub(super) sealed: Lsn,
}

impl Hash for Sequencer {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.barred, self.session, self.number).hash(to);
    }
}

impl Replica {
    /// A gateway wants an entry stamped.
    pub(super) fn on_stamp(
        &mut self,
        from: MemberIndex,
        session: u64,
        entry: Entry,
        out: &mut Out<Self>,
    ) {
        if !self.is_orderable(&entry) {
            return self.misbehaved(from, "an entry that cannot be ordered", out);
        }
        if session < self.view.session {
            return self.say_view(from, out);
        }
        self.join_session(session, out);
        if self.config.sequencer(self.view) != self.config.seating.me {
            return self.misbehaved(from, "a stamp is wanted of another's session", out);
        }
        self.stamp(entry, out);
    }

    /// Somebody has heard of this session.
    pub(super) fn join_session(&mut self, session: u64, out: &mut Out<Self>) {
        if session > self.view.session {
            self.start_change(
                View {
                    session,
                    ..self.view
                },
                out,
            );
        }
    }

    /// Gives an entry the next number and passes it on to all. One that has a place here keeps its number: whoever asks
    /// once more has not got it.
    pub(super) fn stamp(&mut self, entry: Entry, out: &mut Out<Self>) {
        let session = self.view.session;
        if self.done.entries.contains(entry.id) {
            return;
        }
        if let Some(number) = self.number_of(entry.id) {
            return self.say_marked(self.others(), number, entry, out);
        }
        if session <= self.sequencer.barred || !self.disk.is_durable(self.sequencer.sealed) {
            return;
        }
        if session != self.sequencer.session {
            (self.sequencer.session, self.sequencer.number) = (session, 0);
        }
        let number = self.sequencer.number;
        if number >= self.first_number() + self.config.window {
            return out.emit(Event::Branch("window full"));
        }
        self.sequencer.number += 1;
        self.say_marked(self.others(), number, entry.clone(), out);
        self.keep_marked(number, entry, out);
    }

    /// The number by which an entry is known here in this session.
    fn number_of(&self, id: EntryId) -> Option<u64> {
        let slot = self.log.slot_of(id).filter(|_| self.has_session());
        let placed = slot.filter(|slot| *slot >= self.log.stamps_from);
        let mut early = self.early.iter().filter(|(_, entry)| entry.id == id);
        let early = early.next().map(|(number, _)| *number);
        placed.map(|slot| self.log.number(slot)).or(early)
    }

    /// Whether the slots of this session's numbers are known.
    pub(super) fn has_session(&self) -> bool {
        self.last_normal.session == self.view.session
    }

    /// The first number of this session that may be of use.
    pub(super) fn first_number(&self) -> u64 {
        match self.has_session() {
            true => self.log.number(self.log.next),
            false => 0,
        }
    }

    /// Passes on a stamped entry. It promises nothing: replicas reply to what they have placed.
    pub(super) fn say_marked(&self, to: MemberSet, number: u64, entry: Entry, out: &mut Out<Self>) {
        let message = Message::Marked {
            session: self.view.session,
            number,
            entry,
        };
        self.say_early(to, &message, out);
    }
}
