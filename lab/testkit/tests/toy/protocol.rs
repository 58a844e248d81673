//! The toy protocol: member 0 leads for ever, and a slot is decided once a majority has its entry on disk. While the
//! leader is down nothing is ordered.

use quorate_core::{
    Class, Command, Decoder, Due, Entry, EntryBuilder, EntryId, Input, Introspect, MILLIS, Machine,
    Now, Out, Outcome, Past, Peers, Refusal, ReplicaId, Seat, Slot, Wire, WireError, majority,
    reached,
};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// What members say to each other.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// The leader's entry of a slot.
    Append(Slot, Entry),
    /// A follower has all slots before this one on its disk.
    Stored(Slot),
    /// All slots before this one are decided.
    Decided(Slot),
}

/// What a member must not forget: the entry it has in a slot.
#[derive(Clone, Debug)]
pub(crate) struct Kept(pub(crate) Slot, pub(crate) Entry);

/// One replica of the toy protocol.
#[derive(Clone, Debug)]
pub(crate) struct Toy {
    seat: Seat,
    /// Entries by slot, from the first that is not delivered here.
    log: BTreeMap<Slot, Entry>,
    /// The first slot that is not delivered here.
    next: Slot,
    /// The first slot that this member has no entry for.
    end: Slot,
    /// The leader's: before which slot each member has everything on its disk.
    stored: BTreeMap<ReplicaId, Slot>,
    /// Entries that were formed since the start.
    formed: u64,
    /// Whether promises may be gone: the replica then follows, and counts for no majority.
    is_lost: bool,
}

/// The machine's part of a snapshot: none, for all it needs is the number of the next slot.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Nothing;

impl Toy {
    fn leader(&self) -> ReplicaId {
        self.seat.epoch.members[0].id
    }

    fn leads(&self) -> bool {
        self.seat.me == self.leader() && !self.is_lost
    }

    /// Clients ask: one entry for all that waits. A read waits for every entry that may have been acknowledged.
    fn submit(&mut self, commands: &[Command], now: Now, out: &mut Out<Self>) {
        let mut batch = EntryBuilder::default();
        for command in commands {
            if !self.leads() {
                out.reply(command.id, Outcome::Refused(Refusal::NotServing));
            } else if command.class == Class::Read {
                out.reply(command.id, Outcome::ReadAt(self.end));
            } else {
                batch.push(command);
            }
        }
        if batch.count() > 0 {
            self.formed += 1;
            let (origin, boot, seq) = (self.seat.me, self.seat.boot, self.formed);
            let entry = batch.finish(EntryId { origin, boot, seq }, now.clock_ns);
            let slot = self.end;
            self.keep(entry.clone(), out);
            // Waits for the record: what others have, a restart of the leader must not forget.
            out.send(Peers::All, Message::Append(slot, entry));
            out.arm((), Due::After(10 * MILLIS));
        }
    }

    /// Writes an entry into the first slot that has none.
    fn keep(&mut self, entry: Entry, out: &mut Out<Self>) {
        out.persist(Kept(self.end, entry.clone()));
        self.log.insert(self.end, entry);
        self.end = self.end.next();
    }

    /// The leader learns how far a member has come, and decides what a majority has.
    fn count(&mut self, member: ReplicaId, end: Slot, out: &mut Out<Self>) {
        let stored = self.stored.entry(member).or_insert(Slot(0));
        *stored = end.max(*stored);
        let enough = majority(self.seat.epoch.n());
        if let Some(end) = reached(self.stored.values().copied(), enough, self.next) {
            self.deliver_to(end, out);
            self.repeat(out);
        }
    }

    /// Delivers what is decided and here.
    fn deliver_to(&mut self, end: Slot, out: &mut Out<Self>) {
        while self.next < end && self.log.contains_key(&self.next) {
            out.deliver(self.next, self.log.remove(&self.next));
            self.next = self.next.next();
        }
    }

    fn hear(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        match message {
            Message::Stored(end) if self.leads() && end <= self.end => self.count(from, end, out),
            Message::Append(slot, entry) if from == self.leader() && !self.is_lost => {
                if slot == self.end {
                    self.keep(entry, out);
                }
                // Waits for the record, too.
                out.send(Peers::One(from), Message::Stored(self.end));
            }
            Message::Decided(end) if from == self.leader() => {
                self.deliver_to(end, out);
                if self.next < end {
                    out.catch_up(from, Slot(end.0 - 1));
                }
            }
            _ => {}
        }
    }

    /// Messages get lost: the leader says again what somebody may lack.
    fn repeat(&mut self, out: &mut Out<Self>) {
        out.send_early(Peers::All, Message::Decided(self.next));
        for (slot, entry) in &self.log {
            out.send(Peers::All, Message::Append(*slot, entry.clone()));
        }
        if !self.log.is_empty() {
            out.arm((), Due::After(10 * MILLIS));
        }
    }
}

impl Machine for Toy {
    type Message = Message;
    type Record = Kept;
    type Timer = ();
    type Base = Nothing;
    type Config = Seat;

    fn message(_: &str, input: &mut Decoder) -> Result<Message, WireError> {
        Message::decode(input)
    }

    fn record(_: &str, input: &mut Decoder) -> Result<Kept, WireError> {
        Kept::decode(input)
    }

    fn recover(seat: &Seat, past: Past<Self>, _: Now, out: &mut Out<Self>) -> Self {
        let is_lost = matches!(past, Past::Lost { .. });
        let (next, records) = match past {
            Past::Fresh => (Slot(0), Vec::new()),
            Past::Lost { next, .. } => (next, Vec::new()),
            Past::Intact { next, records, .. } => (next, records),
        };
        let log: BTreeMap<_, _> = records
            .into_iter()
            .map(|Kept(slot, entry)| (slot, entry))
            .collect();
        let end = Slot(next.0 + log.len() as u64);
        let (stored, formed) = (BTreeMap::new(), 0);
        let mut toy = Toy {
            seat: seat.clone(),
            log,
            next,
            end,
            stored,
            formed,
            is_lost,
        };
        if toy.leads() {
            toy.count(seat.me, end, out);
            toy.repeat(out);
        }
        toy
    }

    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
        match input {
            Input::Submit(commands) => self.submit(&commands, now, out),
            Input::Message { from, message } => self.hear(from, message, out),
            Input::Durable(lsn) if self.leads() && lsn == out.persisted() => {
                self.count(self.seat.me, self.end, out)
            }
            Input::Timer(()) | Input::Link { up: true, .. } if self.leads() => self.repeat(out),
            Input::Installed { next, .. } => {
                self.log = self.log.split_off(&next);
                (self.next, self.end) = (next.max(self.next), next.max(self.end));
            }
            _ => {}
        }
    }

    fn room(&self) -> usize {
        1_000
    }

    fn is_serving(&self) -> bool {
        self.leads()
    }
}

impl Introspect for Toy {
    fn fingerprint(&self, to: &mut impl Hasher) {
        (self.next, self.end, &self.stored, self.is_lost).hash(to);
        self.log.values().for_each(|entry| entry.id.hash(to));
    }

    fn check(&self) {
        let held = u64::try_from(self.log.len()).expect("a length");
        assert_eq!(self.next.0 + held, self.end.0, "entries have no gaps");
    }
}
