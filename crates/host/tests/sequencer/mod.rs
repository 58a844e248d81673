//! The simplest protocol, application and disk: just enough to see the host at work.

use crate::disk::Disk;
use bytes::Bytes;
use quorate_core::{
    Application, At, Base, Boot, Carry, Catalogue, ClusterId, Command, Decoder, Durability,
    Encoder, Entry, EntryBuilder, EntryId, Epoch, Group, Incarnation, Input, Introspect, Lsn,
    Machine, Member, Now, Numbers, Out, Outcome, Past, Payload, Peers, Record, Refusal, ReplicaId,
    RequestId, Seat, Slot, Unfit, Wire, WireError,
};
use quorate_host::{Host, HostConfig, Limits, OpenError, Start, SupportedVersions};
use std::collections::{BTreeMap, VecDeque};
use std::hash::Hasher;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Replica 1 numbers entries; the others take them in order or ask the host to catch up.
#[derive(Clone, Debug)]
pub(crate) struct Sequencer {
    me: ReplicaId,
    boot: Boot,
    next: Slot,
    proposed: Slot,
    entries: u64,
    waiting: VecDeque<(Lsn, Entry, Vec<RequestId>)>,
    /// What was promised for ever is among the records.
    is_bound: bool,
}

/// An entry and its slot, both as a message and as a record. As an offer it is early; as a record
/// it is then a promise for ever, of which the last counts.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    slot: Slot,
    entry: Entry,
    offer: bool,
}

impl Wire for Ordered {
    fn encode(&self, out: &mut Encoder) {
        self.slot.encode(out);
        self.entry.encode(out);
        out.u8(u8::from(self.offer));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let (slot, entry) = (Slot::decode(input)?, Entry::decode(input)?);
        Ok(Ordered {
            slot,
            entry,
            offer: input.u8()? == 1,
        })
    }
}

impl Carry for Ordered {}

impl Record for Ordered {
    fn slot(&self) -> Option<Slot> {
        (!self.offer).then_some(self.slot)
    }

    fn scalar(&self) -> Option<u8> {
        self.offer.then_some(0)
    }

    fn entry(&self) -> Option<&Entry> {
        (!self.offer).then_some(&self.entry)
    }
}

/// How many slots were decided.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Count(u64);

impl Wire for Count {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.0);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Count(input.varint()?))
    }
}

impl Base for Count {
    fn advance(&mut self, slot: Slot, _entry: Option<&Entry>) {
        assert_eq!(slot.0, self.0);
        self.0 += 1;
    }
}

/// All epochs are right for it.
#[derive(Debug)]
pub(crate) struct Anything;

impl Catalogue for Anything {
    fn numbers(&self, _level: u32, epoch: &Epoch) -> Result<Numbers, Unfit> {
        Ok(Numbers {
            n: epoch.n(),
            failures: (epoch.n() - 1) / 2,
            code: 1,
        })
    }

    fn entry_of(&self, _: &str, record: Bytes) -> Result<Option<Entry>, WireError> {
        let record = <Sequencer as Machine>::Record::from_bytes(record)?;
        Ok(Record::entry(&record).cloned())
    }
}

impl Machine for Sequencer {
    type Message = Ordered;
    type Record = Ordered;
    type Timer = ();
    type Base = Count;
    type Config = Seat;

    fn message(_: &str, input: &mut Decoder) -> Result<Self::Message, WireError> {
        Wire::decode(input)
    }

    fn record(_: &str, input: &mut Decoder) -> Result<Self::Record, WireError> {
        Wire::decode(input)
    }

    fn recover(seat: &Seat, past: Past<Self>, _now: Now, out: &mut Out<Self>) -> Self {
        // One without the promises of its last life says nothing before it is asked for something.
        let is_bound = !matches!(past, Past::Lost { .. });
        let next = match past {
            Past::Fresh => {
                out.persist(promise());
                Slot(0)
            }
            Past::Intact {
                next,
                base,
                records,
            } => {
                assert_eq!(base, Count(next.0));
                let promises = records.iter().filter(|record| record.offer);
                assert_eq!(promises.count(), 1, "of what was promised for ever");
                next
            }
            Past::Lost { next, base } => {
                assert_eq!(base, Count(next.0));
                next
            }
        };
        let (me, boot) = (seat.me, seat.boot);
        Sequencer {
            me,
            boot,
            next,
            proposed: next,
            entries: 0,
            waiting: VecDeque::new(),
            is_bound,
        }
    }

    fn step(&mut self, _now: Now, input: Input<Self>, out: &mut Out<Self>) {
        match input {
            Input::Submit(commands) => self.submit(&commands, out),
            Input::Message { from, message } => self.take(from, message, out),
            Input::Durable(lsn) => self.durable(lsn, out),
            Input::Installed { next, base } => {
                assert_eq!(base, Count(next.0));
                self.next = next;
            }
            // It takes in whatever it gets at once.
            Input::Withdraw(_) => {}
            Input::Timer(())
            | Input::Held(_)
            | Input::Applied { .. }
            | Input::Prefer(_)
            | Input::Link { .. } => {}
        }
    }

    fn room(&self) -> usize {
        1024
    }

    /// Tests have replica 1 order one entry at a time.
    fn reach(_: &Seat) -> Option<u64> {
        Some(1)
    }
}

/// The record of what is promised for ever.
fn promise() -> Ordered {
    Ordered {
        slot: Slot(0),
        entry: EntryBuilder::default().finish(EntryId::default(), 0),
        offer: true,
    }
}

impl Introspect for Sequencer {
    fn fingerprint(&self, to: &mut impl Hasher) {
        to.write_u64(self.next.0);
    }
}

impl Sequencer {
    fn submit(&mut self, commands: &[Command], out: &mut Out<Self>) {
        if self.me != ReplicaId(1) {
            let refused = Outcome::Refused(Refusal::NotServing);
            return commands
                .iter()
                .for_each(|command| out.reply(command.id, refused.clone()));
        }
        if !std::mem::replace(&mut self.is_bound, true) {
            out.persist(promise());
        }
        self.entries += 1;
        let mut builder = EntryBuilder::default();
        let is_read = |command: &&Command| command.class == quorate_core::Class::Read;
        commands
            .iter()
            .filter(|command| !is_read(command))
            .for_each(|c| builder.push(c));
        let reads = commands
            .iter()
            .filter(is_read)
            .map(|command| command.id)
            .collect();
        let id = EntryId {
            origin: self.me,
            boot: self.boot,
            seq: self.entries,
        };
        let entry = builder.finish(id, 0);
        let slot = self.proposed;
        self.proposed = slot.next();
        out.send_early(
            Peers::All,
            Ordered {
                slot,
                entry: entry.clone(),
                offer: true,
            },
        );
        let lsn = out.persist(Ordered {
            slot,
            entry: entry.clone(),
            offer: false,
        });
        self.waiting.push_back((lsn, entry.clone(), reads));
        out.send(
            Peers::All,
            Ordered {
                slot,
                entry,
                offer: false,
            },
        );
    }

    fn durable(&mut self, lsn: Lsn, out: &mut Out<Self>) {
        while self
            .waiting
            .front()
            .is_some_and(|(needs, _, _)| *needs <= lsn)
        {
            let (_, entry, reads) = self.waiting.pop_front().unwrap();
            out.deliver(self.next, Some(entry));
            self.next = self.next.next();
            reads
                .into_iter()
                .for_each(|id| out.reply(id, Outcome::ReadAt(self.next)));
        }
    }

    fn take(&mut self, from: ReplicaId, message: Ordered, out: &mut Out<Self>) {
        if message.offer || self.me == ReplicaId(1) || message.slot < self.next {
            return;
        }
        if message.slot > self.next {
            return out.catch_up(from, message.slot);
        }
        out.deliver(message.slot, Some(message.entry));
        self.next = self.next.next();
    }
}

/// Numbers and keeps every line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pub(crate) lines: Vec<String>,
    /// A defect to try: results are off by this much.
    pub(crate) shift: usize,
    /// Lines of no meaning before others in snapshots, which then differ from replica to replica.
    pub(crate) padding: Option<usize>,
}

/// A line of no meaning in a snapshot.
const PADDING: &str = "\0";

impl Application for Journal {
    type Query = ();
    type Answer = Vec<String>;
    /// Copied lines, the next one last.
    type Cut = Vec<String>;

    fn apply(&mut self, _at: At, body: &Bytes, _: &[Payload]) -> Bytes {
        self.lines.push(String::from_utf8_lossy(body).into_owned());
        let number = self.lines.len().wrapping_add(self.shift);
        Bytes::from(format!("{number}:{}", self.lines[self.lines.len() - 1]))
    }

    fn query(&self, (): &()) -> Vec<String> {
        self.lines.clone()
    }

    fn cut(&mut self) -> Vec<String> {
        let padding = vec![PADDING.to_owned(); self.padding.unwrap_or(0)];
        let lines = padding.iter().chain(&self.lines);
        lines.rev().cloned().collect()
    }

    fn cut_digest(&self, cut: &Vec<String>) -> Option<u64> {
        let lines = cut.iter().filter(|line| *line != PADDING);
        let digest = lines.fold(0, |digest, line| xxh3_64_with_seed(line.as_bytes(), digest));
        self.padding.map(|_| digest)
    }

    fn has_cut_digests(&self) -> bool {
        self.padding.is_some()
    }

    fn piece(&mut self, cut: &mut Vec<String>, bytes: usize) -> Option<Bytes> {
        let mut piece = Encoder::new();
        while piece.len() < bytes {
            let Some(line) = cut.pop() else { break };
            piece.string(&line);
        }
        (!piece.is_empty()).then(|| piece.into_bytes())
    }

    fn release(&mut self, _cut: Vec<String>) {}

    fn empty(&self) -> Self {
        Journal {
            lines: Vec::new(),
            ..self.clone()
        }
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        let mut input = Decoder::new(piece);
        while input.remaining() > 0 {
            let line = input.string().map_err(|e| e.to_string())?;
            self.lines.extend((line != PADDING).then_some(line));
        }
        Ok(())
    }

    fn loaded(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// The same with other durability.
pub(crate) fn in_memory(me: u16) -> HostConfig<Seat> {
    let mut config = config(me);
    config.seat.epoch.durability = Durability::Memory;
    config
}

/// A request for decided slots, as replica 2 would send it.
pub(crate) fn fetch_frame(from: Slot) -> Bytes {
    let mut out = Encoder::new();
    out.varint(1); // wire version
    out.varint(0); // group
    out.varint(1); // epoch
    out.varint(0); // applied
    out.varint(0); // checkpoint slot
    out.u64(0); // checkpoint digest
    out.u8(2); // fetch
    from.encode(&mut out);
    out.into_bytes()
}

pub(crate) fn config(me: u16) -> HostConfig<Seat> {
    let member = |id| Member {
        id: ReplicaId(id),
        incarnation: Incarnation(u128::from(id)),
    };
    let epoch = Epoch {
        number: 1,
        first_slot: Slot(0),
        members: (1..=3).map(member).collect(),
        protocol: "sequencer".into(),
        durability: Durability::Disk,
        seed: 0,
        params: BTreeMap::new(),
    };
    let seat = Seat {
        group: Group(0),
        epoch,
        me: ReplicaId(me),
        boot: Boot(u64::from(me) + 10),
    };
    HostConfig {
        cluster: ClusterId(1),
        incarnation: Incarnation(u128::from(me)),
        listed_as: Incarnation(u128::from(me)),
        genesis: seat.epoch.clone(),
        catalogue: &Anything,
        machine: seat.clone(),
        seat,
        supported: SupportedVersions::SHIPPED,
        limits: Limits {
            segment_bytes: 8192,
            recent_bytes_max: 1000,
            checkpoint_slots: 16,
            requests_max: 100,
            snapshot_slots: 20,
            snapshot_piece_bytes: 300,
            snapshot_chunk_bytes: 500,
            ..Limits::default()
        },
        jitter_seed: 1,
    }
}

pub(crate) fn open(
    me: u16,
    start: Start,
    disk: &mut Disk,
    app: Journal,
) -> Result<Host<Sequencer, Journal>, OpenError> {
    Host::open(config(me), start, disk, app, Now::default()).map(|(host, _)| host)
}
