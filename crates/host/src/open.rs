//! Opening a host: from the newest snapshot that is whole, and the log behind it.

use crate::api::{HostConfig, OpenError, Opened, Start};
use crate::host::{Host, Parts};
use crate::log::{Identity, Kind, LogSource, LogWriter, Position, Scanned, scan};
use crate::replay::{Replay, UNKNOWN};
use crate::snapshot::{self, Kept, Stored};
use quorate_core::{Application, Boot, Durability, Encoder, Machine, Now, Out, Past, Slot};
use std::collections::VecDeque;

impl<M: Machine, A: Application> Host<M, A> {
    /// Opens a host from what its snapshots and its log hold.
    ///
    /// # Errors
    /// [`OpenError`] when the log cannot be read, is another replica's, is newer than this program,
    /// or has lost acknowledged records; and when it goes back no further than to a snapshot that
    /// cannot be used.
    pub fn open(
        config: HostConfig<M::Config>,
        start: Start,
        log: &mut dyn LogSource,
        app: A,
        now: Now,
    ) -> Result<(Self, Opened), OpenError> {
        let replay = Replay::<M, A>::new(&config, app);
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
        resume(replay, log, identity, now)
    }
}

fn append_boot(log: &mut LogWriter, boot: Boot) {
    let mut body = Encoder::new();
    body.u64(boot.0);
    log.append(Kind::Boot, body, true);
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
    append_boot(&mut log, seat.boot);
    let opened = nothing_found(replay.applier.next());
    let past = past_without_log(&replay, begin);
    (start(replay, past, Some(log), now), opened)
}

fn resume<M: Machine, A: Application>(
    mut replay: Replay<'_, M, A>,
    source: &mut dyn LogSource,
    identity: Identity,
    now: Now,
) -> Result<(Host<M, A>, Opened), OpenError> {
    let (snapshot, bad_snapshots) = begin_with_snapshot(&mut replay, source)?;
    let mut has_begun = snapshot.is_some();
    let scanned = scan(source, &identity, |found| {
        let segment = found.at.segment;
        let is_first = !std::mem::replace(&mut has_begun, true);
        if is_first && segment > 1 {
            let bad = bad_snapshots.clone();
            return Err(OpenError::NoSnapshot { segment, bad });
        }
        replay.visit(found)
    })?;
    let scanned = scanned.filter(|_| replay.signs_of_life > 0);
    let scanned = scanned.ok_or_else(|| OpenError::Damaged {
        at: Position {
            segment: 1,
            offset: 0,
        },
        what: "the log is empty, although this replica has run before".into(),
    })?;
    let opened = Opened {
        next: replay.applier.next(),
        segments: scanned
            .segments
            .iter()
            .map(|tail| tail.at.segment)
            .collect(),
        torn: scanned.torn.then_some(scanned.tail.at),
        records: scanned.records,
        snapshot,
        bad_snapshots,
    };
    Ok((go_on(replay, identity, &scanned, now), opened))
}

/// What could not be used, and why.
type Bad = Vec<(Slot, String)>;

/// Loads the newest snapshot that is whole; says which, and what is wrong with newer ones.
fn begin_with_snapshot<M: Machine, A: Application>(
    replay: &mut Replay<'_, M, A>,
    source: &mut dyn LogSource,
) -> Result<(Option<Slot>, Bad), OpenError> {
    let list = snapshot::list(source);
    let list = list.map_err(|why| OpenError::Io(format!("listing the snapshots: {why}")))?;
    let mut bad = Bad::new();
    for (index, stored) in list.iter().enumerate() {
        let app = replay.applier.app().empty();
        match snapshot::load::<M, A>(replay.config, source, *stored, app) {
            Err(why) => bad.push((stored.0, why)),
            Ok(loaded) => {
                let kept = kept(&list[index..], loaded.digest);
                let slot = loaded.slot;
                replay.begin_with(loaded, kept);
                return Ok((Some(slot), bad));
            }
        }
    }
    Ok((None, bad))
}

/// The snapshot that was loaded, with its digest, and those before it; ascending.
fn kept(list: &[Stored], digest: u64) -> VecDeque<Kept> {
    let kept = list.iter().enumerate().map(|(age, (slot, bytes))| Kept {
        slot: *slot,
        bytes: *bytes,
        digest: (age == 0).then_some(digest),
        from: UNKNOWN,
        asked_ns: None,
    });
    kept.rev().collect()
}

fn go_on<M: Machine, A: Application>(
    mut replay: Replay<'_, M, A>,
    identity: Identity,
    scanned: &Scanned,
    now: Now,
) -> Host<M, A> {
    replay.end(scanned.tail.at);
    let config = replay.config;
    let seat = &config.seat;
    let mut log = LogWriter::resume(
        identity,
        seat.group.0,
        seat.epoch.number,
        config.limits.segment_bytes,
        scanned,
    );
    append_boot(&mut log, seat.boot);
    let past = Past::Intact {
        next: replay.applier.next(),
        base: replay.base.clone(),
        records: std::mem::take(&mut replay.records),
    };
    start(replay, past, Some(log), now)
}

fn open_diskless<M: Machine, A: Application>(
    replay: Replay<'_, M, A>,
    begin: Start,
    now: Now,
) -> (Host<M, A>, Opened) {
    let opened = nothing_found(replay.applier.next());
    let past = past_without_log(&replay, begin);
    (start(replay, past, None, now), opened)
}

fn nothing_found(next: Slot) -> Opened {
    Opened {
        next,
        segments: Vec::new(),
        torn: None,
        records: 0,
        snapshot: None,
        bad_snapshots: Vec::new(),
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
        pins,
        kept,
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
            pins,
            log,
            kept,
        },
        now,
    )
}
