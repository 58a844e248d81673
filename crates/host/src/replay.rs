//! Opening a host: what the log says happened before.

use crate::api::{HostConfig, OpenError, Opened, Start};
use crate::apply::Applier;
use crate::decided::{DecidedLog, Located};
use crate::host::{Host, Parts};
use crate::log::{
    Found, Identity, Kind, LogSource, LogWriter, Position, RECORD_HEADER_BYTES, Scanned,
    decode_record, scan,
};
use bytes::Bytes;
use quorate_core::{
    Application, Base, Boot, Decoder, Durability, Encoder, Entry, EntryId, Machine, Now, Out, Past,
    Record, Slot, Wire, WireError,
};
use std::collections::{BTreeMap, BTreeSet};

/// The body of a [`Kind::Decided`] record: the entry's bytes are in an earlier record.
struct Decided {
    slot: Slot,
    entry: Option<EntryId>,
}

/// The body of a [`Kind::Learned`] record.
struct Learned {
    slot: Slot,
    entry: Entry,
}

impl Wire for Decided {
    fn encode(&self, out: &mut Encoder) {
        self.slot.encode(out);
        self.entry.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Decided {
            slot: Slot::decode(input)?,
            entry: Option::decode(input)?,
        })
    }
}

impl Wire for Learned {
    fn encode(&self, out: &mut Encoder) {
        self.slot.encode(out);
        self.entry.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Learned {
            slot: Slot::decode(input)?,
            entry: Entry::decode(input)?,
        })
    }
}

/// The entry in the record at `at`, read back for a peer.
pub(crate) fn entry_of_record<M: Machine>(at: Position, bytes: &Bytes) -> Result<Entry, String> {
    let (header, end) = decode_record(at, bytes).ok_or("the record's checksum does not match")?;
    let body = bytes.slice(RECORD_HEADER_BYTES as usize..end);
    let entry = match header.kind {
        Kind::Machine => {
            let record = M::Record::from_bytes(body).map_err(|e| e.to_string())?;
            record.entry().cloned()
        }
        Kind::Learned => Some(Learned::from_bytes(body).map_err(|e| e.to_string())?.entry),
        Kind::Boot | Kind::Decided | Kind::Mark => None,
    };
    entry.ok_or_else(|| "the record carries no entry".to_string())
}

/// What is rebuilt while the log is read.
struct Replay<'a, M: Machine, A: Application> {
    config: &'a HostConfig<M::Config>,
    applier: Applier<A>,
    base: M::Base,
    decided: DecidedLog,
    /// Entries in the log that were not decided up to here.
    entries: BTreeMap<EntryId, Entry>,
    records: Vec<M::Record>,
    prune_at: usize,
    boots: u64,
}

/// Records kept before those that no longer matter are dropped.
const PRUNE_AT: usize = 4096;

impl<'a, M: Machine, A: Application> Replay<'a, M, A> {
    fn new(config: &'a HostConfig<M::Config>, app: A) -> Self {
        let first = config.seat.epoch.first_slot;
        let limits = &config.limits;
        Replay {
            applier: Applier::new(app, first, limits.checkpoint_slots, limits.sessions_max),
            base: M::Base::default(),
            decided: DecidedLog::new(first, limits.recent_bytes_max),
            entries: BTreeMap::new(),
            records: Vec::new(),
            prune_at: PRUNE_AT,
            boots: 0,
            config,
        }
    }

    fn visit(&mut self, found: Found) -> Result<(), OpenError> {
        let at = found.at;
        let damaged = |what: String| OpenError::Damaged { at, what };
        let seat = &self.config.seat;
        if found.group != seat.group.0 || found.epoch != seat.epoch.number {
            let what = format!("a record of group {} epoch {}", found.group, found.epoch);
            return Err(damaged(what));
        }
        self.take(found).map_err(damaged)
    }

    fn take(&mut self, found: Found) -> Result<(), String> {
        let len = RECORD_HEADER_BYTES + found.body.len() as u32;
        let located = Located { at: found.at, len };
        let wire = |e: WireError| format!("a valid record does not decode: {e}");
        match found.kind {
            Kind::Mark => Ok(()),
            Kind::Boot => {
                self.boots += 1;
                Ok(())
            }
            Kind::Machine => {
                self.keep(M::Record::from_bytes(found.body).map_err(wire)?, located);
                Ok(())
            }
            Kind::Learned => {
                let Learned { slot, entry } = Learned::from_bytes(found.body).map_err(wire)?;
                self.entries.remove(&entry.id);
                self.apply(slot, Some(entry), located)
            }
            Kind::Decided => {
                let Decided { slot, entry: id } = Decided::from_bytes(found.body).map_err(wire)?;
                let Some(id) = id else {
                    return self.apply(slot, None, Located::NOOP);
                };
                let entry = self.entries.remove(&id);
                let entry = entry.ok_or_else(|| format!("{id:?} was decided but is not there"))?;
                let located = self
                    .decided
                    .stored(id)
                    .ok_or("a decided entry has no place")?;
                self.apply(slot, Some(entry), located)
            }
        }
    }

    fn keep(&mut self, record: M::Record, located: Located) {
        if let Some(entry) = record.entry() {
            self.decided.store(entry.id, located);
            self.entries.insert(entry.id, entry.clone());
        }
        self.records.push(record);
        if self.records.len() >= self.prune_at {
            self.prune();
            self.prune_at = self.records.len() * 2 + PRUNE_AT;
        }
    }

    fn apply(&mut self, slot: Slot, entry: Option<Entry>, located: Located) -> Result<(), String> {
        let next = self.applier.next();
        if slot != next {
            return Err(format!(
                "slot {slot} is decided where slot {next} should be"
            ));
        }
        self.applier.apply(slot, entry.as_ref(), |_, _| {});
        self.base.advance(slot, entry.as_ref());
        self.decided.push(slot, entry, located);
        Ok(())
    }

    /// Drops what is decided: records of decided slots, and those that only carry decided entries.
    /// Of scalars the last remains.
    fn prune(&mut self) {
        let next = self.applier.next();
        let entries = &self.entries;
        let mut scalars = BTreeSet::new();
        self.records.reverse();
        self.records
            .retain(|record| record.scalar().is_none_or(|number| scalars.insert(number)));
        self.records.reverse();
        self.records
            .retain(|record| match (record.slot(), record.entry()) {
                (Some(slot), _) => slot >= next,
                (None, Some(entry)) => entries.contains_key(&entry.id),
                (None, None) => true,
            });
    }
}

impl<M: Machine, A: Application> Host<M, A> {
    /// Opens a host from what its log holds.
    ///
    /// # Errors
    /// [`OpenError`] when the log cannot be read, is another replica's, is newer than this program,
    /// or has lost acknowledged records.
    pub fn open(
        config: HostConfig<M::Config>,
        start: Start,
        log: &mut dyn LogSource,
        app: A,
        now: Now,
    ) -> Result<(Self, Opened), OpenError> {
        let mut replay = Replay::<M, A>::new(&config, app);
        if config.seat.epoch.durability == Durability::Memory {
            return Ok(open_diskless(replay, start, now));
        }
        let identity = Identity {
            cluster: config.cluster,
            replica: config.seat.me,
            incarnation: config.incarnation,
        };
        if start != Start::Resume {
            return Ok(open_first(replay, start, identity, now));
        }
        let scanned = scan(log, &identity, |found| replay.visit(found))?;
        let scanned = scanned
            .filter(|_| replay.boots > 0)
            .ok_or_else(|| OpenError::Damaged {
                at: Position {
                    segment: 1,
                    offset: 0,
                },
                what: "the log is empty, although this replica has run before".into(),
            })?;
        Ok(open_resumed(replay, identity, scanned, now))
    }

    fn append_boot(log: &mut LogWriter, boot: Boot) {
        let mut body = Encoder::new();
        body.u64(boot.0);
        log.append(Kind::Boot, body, true);
    }

    /// Appends a machine's record; an entry it carries can be read from there later.
    pub(crate) fn append_record(&mut self, record: &M::Record, sync: bool) {
        let Some(log) = &mut self.log else { return };
        let mut body = Encoder::new();
        record.encode(&mut body);
        let (at, len) = log.append(Kind::Machine, body, sync);
        if let Some(entry) = record.entry() {
            self.decided.store(entry.id, Located { at, len });
        }
    }

    /// Notes a decision. The entry's bytes are not written again if they are in the log.
    pub(crate) fn append_decided(&mut self, slot: Slot, entry: Option<&Entry>) -> Located {
        let stored = entry.and_then(|entry| self.decided.stored(entry.id));
        let Some(log) = &mut self.log else {
            return entry.map_or(Located::NOOP, |_| Located::NOWHERE);
        };
        let mut body = Encoder::new();
        match (entry, stored) {
            (Some(entry), None) => {
                Learned {
                    slot,
                    entry: entry.clone(),
                }
                .encode(&mut body);
                let (at, len) = log.append(Kind::Learned, body, false);
                Located { at, len }
            }
            (entry, stored) => {
                Decided {
                    slot,
                    entry: entry.map(|entry| entry.id),
                }
                .encode(&mut body);
                log.append(Kind::Decided, body, false);
                stored.unwrap_or(Located::NOOP)
            }
        }
    }
}

fn open_first<M: Machine, A: Application>(
    replay: Replay<'_, M, A>,
    begin: Start,
    identity: Identity,
    now: Now,
) -> (Host<M, A>, Opened) {
    let config = replay.config;
    let seat = &config.seat;
    let segment_bytes = config.limits.segment_bytes;
    let mut log = LogWriter::create(identity, seat.group.0, seat.epoch.number, segment_bytes);
    Host::<M, A>::append_boot(&mut log, seat.boot);
    let opened = Opened {
        next: replay.applier.next(),
        segments: Vec::new(),
        torn: None,
        records: 0,
        snapshot: None,
        bad_snapshots: Vec::new(),
    };
    let past = past_without_log(&replay, begin);
    (start(replay, past, Some(log), now), opened)
}

fn open_resumed<M: Machine, A: Application>(
    mut replay: Replay<'_, M, A>,
    identity: Identity,
    scanned: Scanned,
    now: Now,
) -> (Host<M, A>, Opened) {
    replay.prune();
    let config = replay.config;
    let seat = &config.seat;
    let mut log = LogWriter::resume(
        identity,
        seat.group.0,
        seat.epoch.number,
        config.limits.segment_bytes,
        &scanned,
    );
    Host::<M, A>::append_boot(&mut log, seat.boot);
    let next = replay.applier.next();
    let records = std::mem::take(&mut replay.records);
    let past = Past::Intact {
        next,
        base: replay.base.clone(),
        records,
    };
    let opened = Opened {
        next,
        segments: scanned
            .segments
            .iter()
            .map(|tail| tail.at.segment)
            .collect(),
        torn: scanned.torn.then_some(scanned.tail.at),
        records: scanned.records,
        snapshot: None,
        bad_snapshots: Vec::new(),
    };
    (start(replay, past, Some(log), now), opened)
}

fn open_diskless<M: Machine, A: Application>(
    replay: Replay<'_, M, A>,
    begin: Start,
    now: Now,
) -> (Host<M, A>, Opened) {
    let next = replay.applier.next();
    let past = past_without_log(&replay, begin);
    let opened = Opened {
        next,
        segments: Vec::new(),
        torn: None,
        records: 0,
        snapshot: None,
        bad_snapshots: Vec::new(),
    };
    (start(replay, past, None, now), opened)
}

fn past_without_log<M: Machine, A: Application>(
    replay: &Replay<'_, M, A>,
    begin: Start,
) -> Past<M> {
    match begin {
        Start::FirstBoot => Past::Fresh,
        Start::Resume | Start::Lost => Past::Lost {
            next: replay.applier.next(),
            base: replay.base.clone(),
        },
    }
}

fn start<M: Machine, A: Application>(
    replay: Replay<'_, M, A>,
    past: Past<M>,
    log: Option<LogWriter>,
    now: Now,
) -> Host<M, A> {
    let mut out = Out::default();
    let machine = M::recover(&replay.config.machine, past, now, &mut out);
    let Replay {
        config,
        applier,
        base,
        decided,
        ..
    } = replay;
    Host::assemble(
        config,
        Parts {
            machine,
            out,
            base,
            applier,
            decided,
            log,
        },
        now,
    )
}
