//! Opening a host: from the newest snapshot that is whole, and the log behind it.

use crate::api::{HostConfig, Start};
use crate::apply::Applier;
use crate::attachment_check::{self, LeftOut};
use crate::context::append_lost;
use crate::decided::DecidedLog;
use crate::epochs::Record;
use crate::fragments::{FragmentStore, FragmentsOpened};
use crate::log::{Gap, Identity, Kind, LogSource, LogWriter, Scanned, scan};
use crate::open_error::OpenError;
use crate::opened::Opened;
use crate::position::Position;
use crate::repair::Known;
use crate::replay::{Replay, UNKNOWN};
use crate::retained_records::RetainedRecords;
use crate::rollback::{Noted, Rollback};
use crate::snapshot::{self, Kept, Stored};
use quorate_core::{Application, Boot, Durability, Machine, Past, Slot};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What opening a host rebuilds.
pub(crate) struct Parts<M: Machine, A: Application> {
    /// What the machine starts from: at once, or, where it is intact and slots before it are missing,
    /// when they are here.
    pub(crate) past: Past<M>,
    pub(crate) base: M::Base,
    pub(crate) applier: Applier<A>,
    pub(crate) decided: DecidedLog,
    pub(crate) retained: RetainedRecords<M::Record>,
    /// Own records about epochs, and where they are.
    pub(crate) epochs: Vec<(Position, Record)>,
    pub(crate) log: Option<LogWriter>,
    pub(crate) fragments: Option<FragmentStore>,
    /// Snapshots on the disk, ascending.
    pub(crate) kept: VecDeque<Kept>,
    /// Segments of the log whose first records are damaged.
    pub(crate) ragged: BTreeSet<u64>,
    /// Decided slots in the log, behind some that are missing.
    pub(crate) ahead: BTreeMap<Slot, Known>,
    /// How many slots are missing.
    pub(crate) missing: u64,
    /// How far promises went.
    pub(crate) rollback: Rollback,
}

/// Reads what the snapshots and the log of a replica hold.
pub(crate) fn read<M: Machine, A: Application>(
    config: &HostConfig<M::Config>,
    start: Start,
    log: &mut dyn LogSource,
    app: A,
) -> Result<(Parts<M, A>, Opened), OpenError> {
    let replay = Replay::<M, A>::new(config, app);
    if config.seat.epoch.durability == Durability::Memory {
        return Ok(open_diskless(replay, start));
    }
    let identity = Identity {
        cluster: config.cluster,
        replica: config.seat.me,
        incarnation: config.incarnation,
    };
    if start != Start::Resume {
        return Ok(open_first(replay, start, identity));
    }
    resume(replay, log, identity)
}

/// The first record of a start says what it left out.
fn append_boot(log: &mut LogWriter, noted: &mut Noted, boot: Boot, left_out: &[LeftOut]) {
    let (at, _) = log.append(
        Kind::Boot,
        attachment_check::encode_boot(boot, left_out),
        true,
    );
    noted.start(boot, at);
}

fn open_first<M: Machine, A: Application>(
    mut replay: Replay<'_, M, A>,
    begin: Start,
    identity: Identity,
) -> (Parts<M, A>, Opened) {
    let config = replay.config;
    let seat = &config.seat;
    let segment_bytes = config.limits.segment_bytes;
    let mut log = LogWriter::create(identity, seat.group.0, seat.epoch.number, segment_bytes);
    append_boot(&mut log, &mut replay.noted, seat.boot, &[]);
    let opened = nothing_found(replay.applier.next());
    let past = past_without_log(&replay, begin);
    let fragments = FragmentStore::create(identity, config.limits.fragment_segment_bytes);
    (start(replay, past, Some((log, fragments))), opened)
}

fn resume<M: Machine, A: Application>(
    mut replay: Replay<'_, M, A>,
    source: &mut dyn LogSource,
    identity: Identity,
) -> Result<(Parts<M, A>, Opened), OpenError> {
    let fragment_segment_bytes = replay.config.limits.fragment_segment_bytes;
    let (fragments, fragments_opened) =
        FragmentStore::open(source, identity, fragment_segment_bytes)?;
    let (snapshot, bad_snapshots) = begin_with_snapshot(&mut replay, source)?;
    let scanned = scan(source, &identity, |piece| replay.visit(piece))?;
    if source.lacks_fragment_store() {
        replay.without_fragments();
    }
    for (slot, _) in &bad_snapshots {
        replay.reached(*slot);
    }
    let newest = replay.applier.newest();
    if *newest != replay.config.seat.epoch {
        return Err(OpenError::Epoch(Box::new(newest.clone())));
    }
    let log = match &scanned {
        Some(scanned) if scanned.records > 0 => {
            let begins_late = scanned
                .segments
                .first()
                .is_some_and(|tail| tail.at.segment > 1);
            let is_baseless = snapshot.is_none() && bad_snapshots.is_empty() && begins_late;
            if is_baseless || scanned.is_headless() {
                replay.headless();
            }
            LogAfter::Records(scanned)
        }
        _ => {
            replay.headless();
            LogAfter::Nothing(
                scanned
                    .as_ref()
                    .map_or((0, 0), |found| (found.last, found.boot)),
            )
        }
    };
    let scanned = scanned.as_ref();
    let blemishes = scanned.map_or(&[][..], |scanned| &scanned.blemishes);
    let gaps = replay.gaps.iter().map(|gap| (gap.from, gap.to));
    let segments = scanned.map_or(&[][..], |scanned| &scanned.segments);
    let opened = Opened {
        next: replay.applier.next(),
        segments: segments.iter().map(|tail| tail.at.segment).collect(),
        torn: scanned.and_then(|scanned| scanned.torn.then_some(scanned.tail.at)),
        records: scanned.map_or(0, |scanned| scanned.records),
        snapshot,
        bad_snapshots,
        damage: gaps
            .chain(blemishes.iter().map(|blank| (blank.of, blank.of)))
            .collect(),
        marked: scanned.map_or(Position::default(), |scanned| scanned.marked),
        missing: replay.missing(),
        until: replay.until,
        lost_promises: replay.lacks_promises(),
        fragment_store: fragments_opened,
    };
    Ok((go_on(replay, identity, &log, fragments), opened))
}

/// Where writing goes on.
enum LogAfter<'a> {
    /// Behind what was read.
    Records(&'a Scanned),
    /// Behind this segment and boot ordinal: nothing can be read.
    Nothing((u64, u32)),
}

/// What could not be used, and why.
type Bad = Vec<(Slot, String)>;

/// Loads the newest snapshot that is whole, and reads the others, which may be needed one day; says
/// which it is, and what is wrong with any.
fn begin_with_snapshot<M: Machine, A: Application>(
    replay: &mut Replay<'_, M, A>,
    source: &mut dyn LogSource,
) -> Result<(Option<Slot>, Bad), OpenError> {
    let list = snapshot::list(source);
    let list = list.map_err(|why| OpenError::Io(format!("listing the snapshots: {why}")))?;
    let is_by_bytes = !replay.applier.app().has_cut_digests();
    let (mut newest, mut kept, mut bad) = (None, VecDeque::new(), Bad::new());
    for stored in list {
        let digest = match &newest {
            Some(_) => snapshot::verify(replay.config, source, stored),
            None => {
                let app = replay.applier.app().empty();
                let loaded = snapshot::load::<M, A>(replay.config, source, stored, app);
                loaded.map(|loaded| newest.insert(loaded).digest)
            }
        };
        match digest {
            Ok(digest) => kept.push_front(unplaced(stored, digest, is_by_bytes)),
            Err(why) => bad.push((stored.0, why)),
        }
    }
    let slot = newest.as_ref().map(|loaded| loaded.slot);
    if let Some(loaded) = newest {
        replay.begin_with(loaded, kept);
    }
    Ok((slot, bad))
}

/// A snapshot on the disk, of which it is not known yet where its log begins.
fn unplaced((slot, bytes): Stored, digest: u64, is_by_bytes: bool) -> Kept {
    Kept {
        slot,
        bytes,
        digest,
        compared: is_by_bytes.then_some(digest),
        from: UNKNOWN,
        asked_ns: None,
    }
}

fn go_on<M: Machine, A: Application>(
    mut replay: Replay<'_, M, A>,
    identity: Identity,
    after: &LogAfter<'_>,
    fragments: FragmentStore,
) -> Parts<M, A> {
    let config = replay.config;
    let seat = &config.seat;
    let (group, epoch) = (seat.group.0, seat.epoch.number);
    let segment_bytes = config.limits.segment_bytes;
    let mut log = match after {
        LogAfter::Records(scanned) => {
            LogWriter::resume(identity, group, epoch, segment_bytes, scanned)
        }
        LogAfter::Nothing(found) => {
            LogWriter::begin_behind(identity, group, epoch, segment_bytes, *found)
        }
    };
    replay.end(log.tail());
    let gaps = std::mem::take(&mut replay.gaps);
    let past = if replay.lacks_promises() {
        append_boot(&mut log, &mut replay.noted, seat.boot, &[]);
        let losses = replay.noted.losses.saturating_add(1);
        let at = append_lost(&mut log, losses);
        replay.noted.lose(Some(losses), at);
        replay.forget_promises();
        Past::Lost {
            next: replay.applier.next(),
            base: replay.base.clone(),
        }
    } else {
        let left_out = replay.leave_out_unsaid(&fragments);
        append_boot(&mut log, &mut replay.noted, seat.boot, &left_out);
        Past::Intact {
            next: replay.until,
            base: replay.base.clone(),
            records: std::mem::take(&mut replay.records),
        }
    };
    let mut parts = start(replay, past, Some((log, fragments)));
    parts.ragged = gaps.iter().flat_map(Gap::ragged).collect();
    parts
}

fn open_diskless<M: Machine, A: Application>(
    replay: Replay<'_, M, A>,
    begin: Start,
) -> (Parts<M, A>, Opened) {
    let opened = nothing_found(replay.applier.next());
    let past = past_without_log(&replay, begin);
    (start(replay, past, None), opened)
}

fn nothing_found(next: Slot) -> Opened {
    Opened {
        next,
        segments: Vec::new(),
        torn: None,
        records: 0,
        snapshot: None,
        bad_snapshots: Vec::new(),
        damage: Vec::new(),
        marked: Position::default(),
        missing: Vec::new(),
        until: next,
        lost_promises: false,
        fragment_store: FragmentsOpened::default(),
    }
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
    stores: Option<(LogWriter, FragmentStore)>,
) -> Parts<M, A> {
    let (log, fragments) = stores.unzip();
    let missing = replay.missing();
    let Replay {
        applier,
        base,
        decided,
        retained,
        kept,
        ahead,
        epochs,
        noted,
        note,
        ..
    } = replay;
    Parts {
        past,
        base,
        applier,
        decided,
        retained,
        epochs,
        log,
        fragments,
        kept,
        ragged: BTreeSet::new(),
        ahead,
        rollback: Rollback::new(noted, note),
        missing: missing.iter().map(|(from, to)| to.0 - from.0).sum(),
    }
}
