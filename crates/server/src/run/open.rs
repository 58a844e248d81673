//! Opening a replica's log and host, and telling people what was found.

use super::{ServerConfig, random_u64};
use crate::clock::Clock;
use crate::disk::{Disk, Folders};
use crate::error::ServerError;
use crate::meta::{Meta, ReplicaState};
use crate::metrics::Metrics;
use crate::timed_app::TimedApp;
use bytes::Bytes;
use quorate_core::{Application, Boot, Durability, Incarnation, Machine, Seat, Slot, Touches};
use quorate_host::{
    Host, HostConfig, Limits, LogSource, OpenError, Opened as OpenedHost, Start, SupportedVersions,
};
use quorate_protocols::ProtocolSet;
use std::io;

/// A host and the disk its log is on, if it keeps one.
pub(super) type Opened<P> = (Host<<P as ProtocolSet>::Machine, TimedApp>, Option<Disk>);

/// Opens the log and the host, or says what is wrong with them.
pub(super) fn open_host<P: ProtocolSet>(
    config: &ServerConfig,
    meta: &Meta,
    boot: Boot,
    app: TimedApp,
    clock: &Clock,
    metrics: &Metrics,
) -> Result<Opened<P>, ServerError> {
    let limits = Limits {
        follow: tracing::enabled!(tracing::Level::TRACE),
        ..config.limits
    };
    let touches = app.command_properties().touches;
    let host_config = ReplicaConfig::<P> {
        supported: config.supported,
        ..host_config::<P>(meta, boot, limits, random_u64()?, touches)?
    };
    let start = match meta.state {
        ReplicaState::Bootstrapped => Start::FirstBoot,
        ReplicaState::Lost => Start::Lost,
        ReplicaState::Started => Start::Resume,
        ReplicaState::Joining | ReplicaState::Confirmed => {
            return Err(ServerError::Epoch(
                "this replica has not been allowed to begin yet".to_owned(),
            ));
        }
    };
    let dir = config.folder.log_dir();
    let folders = config.folder.disk_folders();
    if (start, meta.epoch.durability) == (Start::Resume, Durability::Disk) {
        log_missing_folders(&folders);
    }
    let mut disk = match meta.epoch.durability {
        Durability::Disk => {
            let disk = Disk::open(&folders)?;
            Some(disk.slowed_by(config.test_source.clone()))
        }
        Durability::Memory => None,
    };
    if let (Start::FirstBoot | Start::Lost, Some(disk)) = (start, &mut disk) {
        disk.clear()?;
    }
    let log: &mut dyn LogSource = match &mut disk {
        Some(disk) => disk,
        None => &mut NoLog,
    };
    let opened = open_in_its_epoch::<P, _>(host_config, touches, |config| {
        Host::open(config, start, log, app.empty(), clock.now())
    });
    let (host, found) = opened.map_err(|error| ServerError::Log { dir, error })?;
    tracing::info!(
        replica = %meta.replica, cluster = %meta.cluster, protocol = meta.epoch.protocol,
        next_slot = %found.next, records = found.records, segments = found.segments.len(),
        snapshot = found.snapshot.map(|slot| slot.0), fragments = found.fragment_store.fragments,
        "log read"
    );
    if let Some(disk) = disk
        .as_mut()
        .filter(|disk| disk.lacks_fragment_store() && found.lost_promises)
    {
        tracing::warn!(path = %folders.fragments.display(),
            "a folder is missing, and the log may refer to it: what was in it is rebuilt from peers");
        disk.renew_fragments()?;
    }
    log_damage(&found, disk.as_ref());
    metrics.storage.opened(config.folder.was_damaged(), &found);
    Ok((host, disk))
}

/// Opens in the epoch that the log turns out to end in.
fn open_in_its_epoch<P: ProtocolSet, H>(
    mut config: ReplicaConfig<P>,
    touches: Option<Touches>,
    mut open: impl FnMut(ReplicaConfig<P>) -> Result<H, OpenError>,
) -> Result<H, OpenError> {
    loop {
        match open(config.clone()) {
            Err(OpenError::Epoch(epoch)) => config.seat.epoch = *epoch,
            opened => return opened,
        }
        if let Ok(machine) = machine_config::<P>(&config.seat, touches) {
            config.machine = machine;
        }
    }
}

/// The machine's configuration for a seat. Who is no member needs none that is right: its machine does
/// not start, and only what is the same for all is looked at.
fn machine_config<P: ProtocolSet>(
    seat: &Seat,
    touches: Option<Touches>,
) -> Result<MachineConfig<P>, String> {
    let is_member = seat.epoch.index_of(seat.me).is_some();
    let first = seat.epoch.members.first().filter(|_| !is_member);
    let seat = Seat {
        me: first.map_or(seat.me, |member| member.id),
        ..seat.clone()
    };
    P::config(&seat, touches)
}

/// Tells people which folders are missing that a replica has from its beginning.
fn log_missing_folders(folders: &Folders) {
    let log = "what this replica has promised is gone with it";
    let snapshots = "its state is read from the log as far as that goes, and fetched from peers";
    for (path, what) in [(&folders.log, log), (&folders.snapshots, snapshots)] {
        if !path.exists() {
            tracing::warn!(path = %path.display(), "a folder is missing: {what}");
        }
    }
}

/// Tells people what is not as it was written, and what follows from it.
fn log_damage(found: &OpenedHost, disk: Option<&Disk>) {
    for (slot, why) in &found.bad_snapshots {
        let path = disk.map(|disk| disk.snapshots().path(*slot));
        let path = path.unwrap_or_default();
        tracing::warn!(path = %path.display(), "a snapshot cannot be used: {why}");
    }
    for (from, to) in &found.damage {
        tracing::warn!(
            segment = from.segment,
            offset = from.offset,
            to_segment = to.segment,
            to_offset = to.offset,
            "the log is damaged: check this disk"
        );
    }
    for (from, to) in &found.fragment_store.damage {
        tracing::warn!(
            segment = from.segment,
            from = from.offset,
            to = to.offset,
            "the fragment store is damaged: check this disk; lost fragments are rebuilt from peers"
        );
    }
    for (from, to) in &found.missing {
        tracing::warn!(%from, before = %to, "decided slots are missing: fetching them from peers");
    }
    if found.lost_promises {
        tracing::warn!(
            "promises of this replica may be lost: it recovers from its peers before it votes again"
        );
    }
    if let Some(at) = found.torn {
        tracing::info!(
            segment = at.segment,
            offset = at.offset,
            "an unfinished write at the end of the log, never acknowledged, was cut off"
        );
    }
}

/// What the host of a folder's replica is opened with, for an application whose commands touch this.
pub(crate) fn host_config<P: ProtocolSet>(
    meta: &Meta,
    boot: Boot,
    limits: Limits,
    jitter_seed: u64,
    touches: Option<Touches>,
) -> Result<ReplicaConfig<P>, ServerError> {
    let seat = Seat {
        group: meta.group,
        epoch: meta.epoch.clone(),
        me: meta.replica,
        boot,
    };
    Ok(HostConfig {
        cluster: meta.cluster,
        incarnation: meta.incarnation,
        listed_as: listed_as(meta),
        genesis: meta.epoch.clone(),
        catalogue: P::CATALOGUE,
        machine: machine_config::<P>(&seat, touches).map_err(ServerError::Epoch)?,
        seat,
        supported: SupportedVersions::SHIPPED,
        limits,
        jitter_seed,
    })
}

/// The incarnation under which epochs list a replica: one that lost its data comes back within the epoch, in
/// another incarnation.
fn listed_as(meta: &Meta) -> Incarnation {
    if let Some(life) = meta.listed_as {
        return life;
    }
    let mut members = meta.epoch.members.iter();
    let listed = members.find(|member| member.id == meta.replica);
    listed.map_or(meta.incarnation, |member| member.incarnation)
}

/// The configuration of a machine of one of these protocols.
type MachineConfig<P> = <<P as ProtocolSet>::Machine as Machine>::Config;

/// A host's configuration.
type ReplicaConfig<P> = HostConfig<MachineConfig<P>>;

/// The log of a replica that lives in memory.
struct NoLog;

impl LogSource for NoLog {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(Vec::new())
    }

    fn read(&mut self, _segment: u64) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        Ok(Vec::new())
    }

    fn read_snapshot(&mut self, _slot: Slot, _offset: u64, _len: usize) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }
}
