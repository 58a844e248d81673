//! A protocol of one's own: the first member is the sequencer, which gives every entry its slot, and a slot is decided
//! once a majority has its entry on disk.
//!
//! What it does not survive: while the sequencer is down, or cannot reach a majority, nothing is ordered; and if it
//! ever loses its disk, nothing is ordered any more, although what was decided is on the disks of others. Another
//! member that loses its disk only follows from then on, and counts for no majority.

mod wire;

use quorate_core::{
    Base, Class, Command, Decoder, Due, Durability, ENTRY_BYTES_MAX, Entry, EntryBuilder, EntryId,
    Epoch, Input, Introspect, MILLIS, Machine, Now, Out, Outcome, Past, Peers, Refusal, ReplicaId,
    RequestId, Seat, Slot, Wire, WireError, majority, reached,
};
use quorate_protocols::{DecidedSet, Protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Most slots that are given an entry and not decided.
const SLOTS_MAX: usize = 64;
/// Most commands that are taken in one step.
const COMMANDS_MAX: usize = 1000;
/// After so long the sequencer says again what a member may lack, in ns.
const REPEAT_NS: u64 = 20 * MILLIS;

/// What members say to each other.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// The sequencer's entry of a slot.
    Append(Slot, Entry),
    /// What the sender has of all slots before these.
    Has {
        /// The sender has the entries before this slot on its disk.
        stored: Slot,
        /// The sender has delivered what was decided before this slot.
        delivered: Slot,
    },
    /// All slots before this one are decided.
    Decided(Slot),
    /// An entry of another member, for the sequencer to give it a slot. It promises nothing.
    Offer(Entry),
    /// Where may reads be answered that this member had when it asked for the time of this number?
    Ask(u64),
    /// Reads that were asked about under this number may be answered once all slots before this one are applied.
    ReadAt(u64, Slot),
}

/// What a member must not forget: the entry it has in a slot.
#[derive(Clone, Debug)]
pub(crate) struct Kept(pub(crate) Slot, pub(crate) Entry);

/// One replica of the protocol.
#[derive(Clone, Debug)]
pub(crate) struct Sequencer {
    seat: Seat,
    /// Entries by slot, without gaps, from the first that is not delivered here.
    log: BTreeMap<Slot, Entry>,
    /// The first slot that is not delivered here.
    next: Slot,
    /// The sequencer's: before which slot each member has everything on its disk.
    stored: BTreeMap<ReplicaId, Slot>,
    /// The sequencer's: before which slot each member has delivered everything.
    delivered: BTreeMap<ReplicaId, Slot>,
    /// Members to which there is no connection, as far as is known: nothing is repeated for them.
    away: BTreeSet<ReplicaId>,
    /// Entries that were decided, so that one which is offered again gets no second slot.
    decided: DecidedSet,
    /// Another member's: what it has offered, and that is not decided here.
    offered: BTreeMap<EntryId, Entry>,
    /// Another member's: reads that wait for the sequencer, by the number under which they were asked about.
    reads: BTreeMap<u64, Vec<RequestId>>,
    /// The last number under which this member has asked about reads. No other start of it has the same: an answer that
    /// comes late must not be taken for that to a later question.
    asked: u64,
    /// Entries that were formed since the start.
    formed: u64,
    /// Whether promises may be gone: the replica then follows, and counts for no majority.
    is_lost: bool,
}

impl Sequencer {
    fn sequencer(&self) -> ReplicaId {
        self.seat.epoch.members[0].id
    }

    fn is_sequencer(&self) -> bool {
        self.seat.me == self.sequencer() && !self.is_lost
    }

    /// The first slot that has no entry here.
    fn end(&self) -> Slot {
        Slot(self.next.0 + self.log.len() as u64)
    }

    /// Clients ask: few entries for all that waits. A read waits for every entry that may have been acknowledged.
    fn submit(&mut self, commands: &[Command], now: Now, out: &mut Out<Self>) {
        let mut batch = EntryBuilder::default();
        let mut reads = Vec::new();
        for command in commands {
            let len = command.encoded_len_max();
            if command.class == Class::Read {
                reads.push(command.id);
            } else if len > ENTRY_BYTES_MAX {
                out.reply(command.id, Outcome::Refused(Refusal::TooLarge));
            } else {
                let is_full = batch.body_len() + len > ENTRY_BYTES_MAX;
                if is_full || !batch.has_place_for(command) {
                    self.form(std::mem::take(&mut batch), now, out);
                }
                batch.push(command);
            }
        }
        if batch.count() > 0 {
            self.form(batch, now, out);
        }
        if !reads.is_empty() {
            self.read(reads, out);
        }
    }

    /// The sequencer gives an entry its slot at once; others offer it.
    fn form(&mut self, batch: EntryBuilder, now: Now, out: &mut Out<Self>) {
        self.formed += 1;
        let (origin, boot, seq) = (self.seat.me, self.seat.boot, self.formed);
        let entry = batch.finish(EntryId { origin, boot, seq }, now.clock_ns);
        match self.is_sequencer() {
            true => self.append(entry, out),
            false => {
                self.offered.insert(entry.id, entry.clone());
                let offer = Message::Offer(entry);
                out.send_early(Peers::One(self.sequencer()), offer);
                out.arm((), Due::After(REPEAT_NS));
            }
        }
    }

    /// Only the sequencer knows which entries may have been acknowledged.
    fn read(&mut self, reads: Vec<RequestId>, out: &mut Out<Self>) {
        if self.is_sequencer() {
            let end = self.end();
            let told = reads.into_iter();
            return told.for_each(|id| out.reply(id, Outcome::ReadAt(end)));
        }
        self.asked = self.asked.wrapping_add(1);
        self.reads.insert(self.asked, reads);
        out.send_early(Peers::One(self.sequencer()), Message::Ask(self.asked));
        out.arm((), Due::After(REPEAT_NS));
    }

    /// The sequencer gives the next slot an entry.
    fn append(&mut self, entry: Entry, out: &mut Out<Self>) {
        let slot = self.end();
        self.keep(entry.clone(), out);
        // Waits for the record: what others have, a restart of the sequencer must not forget.
        out.send(Peers::All, Message::Append(slot, entry));
        out.arm((), Due::After(REPEAT_NS));
    }

    /// Writes an entry into the first slot that has none.
    fn keep(&mut self, entry: Entry, out: &mut Out<Self>) {
        let slot = self.end();
        out.persist(Kept(slot, entry.clone()));
        self.log.insert(slot, entry);
    }

    /// The sequencer learns how far a member has come, and decides what a majority has.
    fn count(&mut self, member: ReplicaId, stored: Slot, out: &mut Out<Self>) {
        let before = self.stored.entry(member).or_insert(Slot(0));
        *before = stored.max(*before);
        let enough = majority(self.seat.epoch.n());
        if let Some(end) = reached(self.stored.values().copied(), enough, self.next) {
            self.deliver_to(end, out);
            out.send_early(Peers::All, Message::Decided(self.next));
        }
    }

    /// Delivers what is decided and here.
    fn deliver_to(&mut self, end: Slot, out: &mut Out<Self>) {
        while self.next < end
            && let Some(entry) = self.log.remove(&self.next)
        {
            self.offered.remove(&entry.id);
            self.decided.advance(self.next, Some(&entry));
            out.deliver(self.next, Some(entry));
            self.next = self.next.next();
        }
    }

    fn hear(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        match message {
            Message::Has { stored, delivered } if self.is_sequencer() && stored <= self.end() => {
                let before = self.delivered.entry(from).or_insert(Slot(0));
                *before = delivered.max(*before);
                self.count(from, stored, out);
            }
            Message::Append(slot, entry) if self.follows(from) => {
                if slot == self.end() && !self.is_lost && self.log.len() < SLOTS_MAX {
                    self.keep(entry, out);
                }
                self.tell(from, out);
            }
            Message::Decided(end) if self.follows(from) => {
                self.deliver_to(end, out);
                if self.next < end {
                    out.catch_up(from, Slot(end.0 - 1));
                }
                self.tell(from, out);
            }
            Message::Offer(entry) if self.is_sequencer() && entry.id.origin == from => {
                let is_here = self.log.values().any(|other| other.id == entry.id);
                if !is_here && !self.decided.contains(entry.id) && self.log.len() < SLOTS_MAX {
                    self.append(entry, out);
                }
            }
            Message::Ask(number) if self.is_sequencer() => {
                out.send_early(Peers::One(from), Message::ReadAt(number, self.end()));
            }
            Message::ReadAt(number, end) if self.follows(from) => {
                let reads = self.reads.remove(&number).unwrap_or_default();
                let told = reads.into_iter();
                told.for_each(|id| out.reply(id, Outcome::ReadAt(end)));
            }
            _ => {}
        }
    }

    fn follows(&self, from: ReplicaId) -> bool {
        from == self.sequencer() && from != self.seat.me
    }

    /// Tells the sequencer how far this member has come. Waits for the records, too.
    fn tell(&self, sequencer: ReplicaId, out: &mut Out<Self>) {
        let stored = match self.is_lost {
            true => Slot(0),
            false => self.end(),
        };
        let delivered = self.next;
        out.send(Peers::One(sequencer), Message::Has { stored, delivered });
    }

    /// Messages get lost: a member says again what the sequencer may not have heard.
    fn ask_again(&mut self, out: &mut Out<Self>) {
        let sequencer = Peers::One(self.sequencer());
        for entry in self.offered.values() {
            out.send_early(sequencer, Message::Offer(entry.clone()));
        }
        for number in self.reads.keys() {
            out.send_early(sequencer, Message::Ask(*number));
        }
        if !self.offered.is_empty() || !self.reads.is_empty() {
            out.arm((), Due::After(REPEAT_NS));
        }
    }

    /// Messages get lost: the sequencer says again what somebody may lack, for as long as somebody does who is there.
    fn repeat(&mut self, out: &mut Out<Self>) {
        let others = self.seat.epoch.member_ids();
        let mut others = others.filter(|id| *id != self.seat.me && !self.away.contains(id));
        let lacks = |id: ReplicaId| self.delivered.get(&id).is_none_or(|end| *end < self.next);
        if self.log.is_empty() && !others.any(lacks) {
            return;
        }
        out.send_early(Peers::All, Message::Decided(self.next));
        for (slot, entry) in &self.log {
            out.send(Peers::All, Message::Append(*slot, entry.clone()));
        }
        out.arm((), Due::After(REPEAT_NS));
    }
}

impl Machine for Sequencer {
    type Message = Message;
    type Record = Kept;
    type Timer = ();
    type Base = DecidedSet;
    type Config = Seat;

    fn message(_: &str, input: &mut Decoder) -> Result<Message, WireError> {
        Message::decode(input)
    }

    fn record(_: &str, input: &mut Decoder) -> Result<Kept, WireError> {
        Kept::decode(input)
    }

    fn recover(seat: &Seat, past: Past<Self>, _: Now, out: &mut Out<Self>) -> Self {
        let is_lost = matches!(past, Past::Lost { .. });
        let (next, decided, records) = match past {
            Past::Fresh => (Slot(0), DecidedSet::default(), Vec::new()),
            Past::Lost { next, base } => (next, base, Vec::new()),
            Past::Intact {
                next,
                base,
                records,
            } => (next, base, records),
        };
        let records = records.into_iter().map(|Kept(slot, entry)| (slot, entry));
        let mut sequencer = Sequencer {
            seat: seat.clone(),
            log: records.filter(|(slot, _)| *slot >= next).collect(),
            next,
            stored: BTreeMap::new(),
            delivered: BTreeMap::new(),
            away: BTreeSet::new(),
            decided,
            offered: BTreeMap::new(),
            reads: BTreeMap::new(),
            asked: seat.boot.0,
            formed: 0,
            is_lost,
        };
        if sequencer.is_sequencer() {
            sequencer.count(seat.me, sequencer.end(), out);
            sequencer.repeat(out);
        }
        sequencer
    }

    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
        match input {
            Input::Submit(commands) => self.submit(&commands, now, out),
            Input::Message { from, message } => self.hear(from, message, out),
            // Its own entries count only once they survive a crash.
            Input::Durable(lsn) if self.is_sequencer() && lsn == out.persisted() => {
                self.count(self.seat.me, self.end(), out);
            }
            Input::Timer(()) if self.is_sequencer() => self.repeat(out),
            Input::Timer(()) => self.ask_again(out),
            Input::Link { peer, up } => {
                match up {
                    true => self.away.remove(&peer),
                    false => self.away.insert(peer),
                };
                if up && self.is_sequencer() {
                    self.delivered.remove(&peer);
                    self.repeat(out);
                }
            }
            Input::Installed { next, base } if next > self.next => {
                self.log = self.log.split_off(&next);
                self.next = next;
                self.offered.retain(|id, _| !base.contains(*id));
                self.decided = base;
                if !self.is_sequencer() {
                    self.tell(self.sequencer(), out);
                }
            }
            _ => {}
        }
    }

    fn room(&self) -> usize {
        let under_way = self.log.len() + self.offered.len() + self.reads.len();
        match under_way >= SLOTS_MAX {
            true => 0,
            false => COMMANDS_MAX,
        }
    }

    fn is_serving(&self) -> bool {
        !self.is_lost || self.seat.me != self.sequencer()
    }
}

impl Introspect for Sequencer {
    fn fingerprint(&self, to: &mut impl Hasher) {
        let heard = (&self.stored, &self.delivered, &self.away);
        (self.next, heard, self.is_lost).hash(to);
        (self.offered.keys().collect::<Vec<_>>(), &self.reads).hash(to);
        self.log.values().for_each(|entry| entry.id.hash(to));
    }

    fn leads(&self) -> Option<bool> {
        Some(self.is_sequencer())
    }

    fn check(&self) {
        let slots = self.log.keys().map(|slot| slot.0);
        assert!(
            slots.eq(self.next.0..self.end().0),
            "entries have no gaps: {:?}",
            self.log.keys()
        );
    }
}

/// The protocol by its name.
pub(crate) struct FixedSequencer;

impl Protocol for FixedSequencer {
    const NAME: &'static str = "fixed-sequencer";
    type Machine = Sequencer;

    fn config(seat: &Seat) -> Result<Seat, String> {
        if let Some(name) = seat.epoch.params.keys().next() {
            return Err(format!("the fixed sequencer has no parameter {name:?}"));
        }
        match seat.epoch.durability {
            Durability::Disk => Ok(seat.clone()),
            Durability::Memory => {
                Err("the fixed sequencer needs disks: it never comes back without its own".into())
            }
        }
    }

    /// None: the sequencer may be the one to fail.
    fn failures_survived(_: &Epoch) -> usize {
        0
    }
}
