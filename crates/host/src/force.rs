//! A new group made by hand from what is left of an old one, when too few members are left to decide
//! anything.
//!
//! What comes of it is the state after some prefix of the old group's order: of what a survivor knows,
//! everything that its own log and snapshots hold without a gap. Writes that were acknowledged behind
//! that are gone. The new group has another cluster id, so that no former member can speak in it, and
//! one member in a new life; its first epoch follows the last one known, and is marked
//! ([`Epoch::is_forced_behind`]).

use crate::api::{Flush, HostConfig};
use crate::apply::Applier;
use crate::attachment_check::encode_boot;
use crate::epochs::GroupState;
use crate::fragments::{Fragment, FragmentStore};
use crate::log::{Identity, Kind, LogSource, LogWriter, scan};
use crate::open_error::OpenError;
use crate::replay::Replay;
use crate::snapshot;
use bytes::Bytes;
use quorate_core::{
    Application, ClusterId, Epoch, Group, Machine, Member, Payload, PayloadId, Share, Slot,
};
use quorate_erasure::{Codec, ReedSolomon};
use std::collections::{BTreeMap, VecDeque};

/// What a replica that does not run has.
pub struct Survivor<A> {
    applier: Applier<A>,
    fragments: BTreeMap<PayloadId, Vec<Fragment>>,
    /// The first slot behind all that it knows to be decided.
    until: Slot,
}

impl<A: Application> Survivor<A> {
    /// Reads the newest snapshot that is whole, and the log behind it. Nothing is changed.
    ///
    /// # Errors
    /// [`OpenError`] when the disk cannot be read, or what it holds is another replica's.
    pub fn read<M: Machine>(
        config: &HostConfig<M::Config>,
        source: &mut dyn LogSource,
        app: A,
    ) -> Result<Self, OpenError> {
        let identity = Identity {
            cluster: config.cluster,
            replica: config.seat.me,
            incarnation: config.incarnation,
        };
        let segment_bytes = config.limits.fragment_segment_bytes;
        let (store, _) = FragmentStore::open(source, identity, segment_bytes)?;
        let mut fragments: BTreeMap<PayloadId, Vec<Fragment>> = BTreeMap::new();
        for fragment in store.fragments() {
            let of_payload = fragments.entry(fragment.payload).or_default();
            of_payload.push(*fragment);
        }
        let mut replay = Replay::<M, A>::new(config, app.empty());
        let stored = snapshot::list(source).map_err(OpenError::Io)?;
        let mut loaded = stored
            .into_iter()
            .filter_map(|stored| snapshot::load::<M, A>(config, source, stored, app.empty()).ok());
        let loaded = loaded.next();
        let has_snapshot = loaded.is_some();
        if let Some(loaded) = loaded {
            replay.begin_with(loaded, VecDeque::new());
        }
        let scanned = scan(source, &identity, |piece| replay.visit(piece))?;
        let first = scanned.and_then(|scanned| Some(scanned.segments.first()?.at.segment));
        if !has_snapshot && first.is_some_and(|first| first > 1) {
            // Nothing at all is left to begin with.
            return Err(OpenError::Missing {
                from: config.genesis.first_slot,
                before: replay.until,
            });
        }
        Ok(Survivor {
            until: replay.until,
            applier: replay.applier,
            fragments,
        })
    }

    /// How far it is: the newest epoch, and the first slot that it has not applied.
    #[must_use]
    pub fn reached(&self) -> (u64, Slot) {
        (self.applier.newest().number, self.applier.next())
    }

    /// Slots that it knows to be decided and has not, behind a gap in its log.
    #[must_use]
    pub fn lacking(&self) -> u64 {
        self.until.0.saturating_sub(self.applier.next().0)
    }

    /// What it knows of the group.
    #[must_use]
    pub fn epochs(&self) -> &GroupState {
        self.applier.epochs()
    }

    /// The application.
    #[must_use]
    pub fn app(&self) -> &A {
        self.applier.app()
    }

    /// The application, to be changed by hand: the new group begins with what it is then.
    pub fn app_mut(&mut self) -> &mut A {
        self.applier.app_mut()
    }

    /// What it has of a payload.
    #[must_use]
    pub fn fragments(&self, payload: PayloadId) -> &[Fragment] {
        self.fragments.get(&payload).map_or(&[], Vec::as_slice)
    }

    /// The group goes on with this member alone: its last slot seals the newest epoch.
    ///
    /// # Errors
    /// When the protocol cannot work with one member, whatever its parameters.
    pub fn force(&mut self, me: Member) -> Result<&Epoch, String> {
        let state = self.applier.epochs();
        let seal = self.applier.next();
        let level = state.level;
        let catalogue = self.applier.catalogue();
        let next = state.chain.newest().forced(seal, me);
        let bare = Epoch {
            params: BTreeMap::new(),
            ..next.clone()
        };
        // Quorums and codes were chosen for more members.
        let fits = |epoch: &Epoch| catalogue.numbers(level, epoch).is_ok_and(|n| n.code == 1);
        let next = [next, bare].into_iter().find(fits);
        let next = next.ok_or("its protocol does not work with one member")?;
        self.applier.force(next);
        Ok(self.applier.newest())
    }

    /// Gives the bytes of a snapshot of the state, in order; says before which slot it is.
    ///
    /// # Errors
    /// What `put` says.
    pub fn snapshot<M: Machine, E>(
        &mut self,
        cluster: ClusterId,
        group: Group,
        put: impl FnMut(&Bytes) -> Result<(), E>,
    ) -> Result<Slot, E> {
        snapshot::write_whole::<M, A, E>(&mut self.applier, cluster, group, put)
    }
}

impl<A> std::fmt::Debug for Survivor<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Survivor")
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// A payload out of fragments, of whatever codes, if any of these has enough of them. Fragments whose
/// bytes are wrong are left out.
#[must_use]
pub fn rebuild(payload: &Payload, fragments: &[(Fragment, Bytes)]) -> Option<Bytes> {
    let mut by_code: BTreeMap<u8, BTreeMap<usize, Bytes>> = BTreeMap::new();
    for (fragment, bytes) in fragments.iter().filter(|(one, bytes)| one.is(bytes)) {
        let of_code = by_code.entry(fragment.code).or_default();
        of_code.insert(fragment.index.into(), bytes.clone());
    }
    let n = |code: u8, held: &BTreeMap<usize, Bytes>| {
        let last = held.keys().max().map_or(0, |index| index + 1);
        last.max(code.into())
    };
    let mut wholes = by_code.iter().filter_map(|(code, held)| {
        if *code == 1 {
            return held.values().next().cloned();
        }
        let codec = ReedSolomon::new(usize::from(*code), n(*code, held)).ok()?;
        let held: Vec<(usize, Bytes)> = held.iter().map(|(at, one)| (*at, one.clone())).collect();
        codec.decode(&held, payload.len as usize).ok()
    });
    wholes.find(|bytes| payload.is(bytes))
}

/// The disk of a replica that has not begun: whole payloads, and a log that has only begun.
#[derive(Debug)]
pub struct NewDisk {
    log: LogWriter,
    fragments: FragmentStore,
}

impl NewDisk {
    /// Of the replica of this configuration, which begins in `epoch`.
    #[must_use]
    pub fn new<C>(config: &HostConfig<C>, epoch: u64) -> NewDisk {
        let (seat, limits) = (&config.seat, &config.limits);
        let identity = Identity {
            cluster: config.cluster,
            replica: seat.me,
            incarnation: config.incarnation,
        };
        let mut log = LogWriter::create(identity, seat.group.0, epoch, limits.segment_bytes);
        log.append(Kind::Boot, encode_boot(seat.boot, &[]), true);
        let fragments = FragmentStore::create(identity, limits.fragment_segment_bytes);
        NewDisk { log, fragments }
    }

    /// Adds a payload, whole.
    pub fn add(&mut self, id: PayloadId, bytes: Bytes) {
        let length = u32::try_from(bytes.len()).expect("payloads are bounded far below 4 GiB");
        let share = Share::whole(vec![bytes]);
        self.fragments
            .append(id.entry, 1, (&share, &[]), id.part, &[length]);
        self.log.want_sync();
    }

    /// What is to be written and synced, if there is anything; [`NewDisk::flushed`] follows.
    pub fn take_flush(&mut self) -> Option<Flush> {
        self.fragments.take_flush(&mut self.log)
    }

    /// That is done.
    pub fn flushed(&mut self, flush: &Flush) {
        self.fragments.flushed();
        self.log.flushed(flush.through);
    }
}
