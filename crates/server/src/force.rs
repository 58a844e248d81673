//! A new cluster by hand, from the folders of replicas that do not run.

use crate::disk::{Disk, Folders};
use crate::error::ServerError;
use crate::folder::{Folder, FolderError, begin_folder, write_meta};
use crate::join::fresh_incarnation;
use crate::meta::{Meta, ReplicaState};
use crate::offline::OfflineFiles;
use crate::run::{host_config, random_u64};
use crate::snapshots::SnapshotFiles;
use bytes::Bytes;
use quorate_core::{Application, Boot, ClusterId, Durability, Member, Payload, PayloadId, Slot};
use quorate_host::force::{NewDisk, Survivor, rebuild};
use quorate_host::{Fragment, Limits, LogSource};
use quorate_protocols::{AnyMachine, Registered};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Live payloads looked at in one go.
const LOOKED_AT_ONCE: usize = 256;
/// Bytes of payloads between two flushes.
const FLUSH_BYTES: usize = 8 << 20;

/// What became of a new cluster by hand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forced {
    /// The id of the new cluster.
    pub cluster: ClusterId,
    /// The only member of the new cluster, in a new incarnation.
    pub member: Member,
    /// The number of the new cluster's first epoch.
    pub epoch: u64,
    /// Every slot of the old cluster before this one is in it.
    pub next: Slot,
    /// Slots that the survivor knew to be decided and did not have.
    pub lacking: u64,
    /// Payloads that were taken over.
    pub payloads: u64,
}

/// Makes a cluster of one in the empty folder `into`: that of the `survivors` who knows most, with payloads
/// from all of them. `edit` is told of the payloads that none of them can rebuild together, and changes
/// the application, if need be; the new cluster begins with what it is then.
///
/// # Errors
/// What is wrong with a folder, what `edit` says, or that they are not of one cluster. Then nothing is left
/// in `into` that could be taken for a replica.
pub fn force_new_cluster<A: Application>(
    survivors: &[Folder],
    into: &Path,
    app: &A,
    edit: impl FnOnce(&mut A, &BTreeSet<PayloadId>) -> Result<(), String>,
) -> Result<Forced, ServerError> {
    must_be_empty(into)?;
    check(survivors)?;
    let folders = begin_folder(into)?;
    let forced = make(survivors, into, &folders, app, edit);
    if forced.is_err() {
        remove_made(&folders);
    }
    forced
}

/// Checks that a folder is missing or empty.
pub(crate) fn must_be_empty(dir: &Path) -> Result<(), ServerError> {
    let is_empty = std::fs::read_dir(dir).map_or(Ok(true), |mut found| {
        found.next().map_or(Ok(true), |entry| entry.map(|_| false))
    })?;
    match is_empty {
        true => Ok(()),
        false => Err(FolderError::Occupied { dir: dir.into() }.into()),
    }
}

/// Removes the folders that were made for a replica which comes to nothing.
pub(crate) fn remove_made(folders: &Folders) {
    // Nobody should take what is there for half a replica; that it cannot be removed is no worse.
    for made in [&folders.log, &folders.fragments, &folders.snapshots] {
        let _ = std::fs::remove_dir_all(made);
    }
}

fn make<A: Application>(
    survivors: &[Folder],
    into: &Path,
    folders: &Folders,
    app: &A,
    edit: impl FnOnce(&mut A, &BTreeSet<PayloadId>) -> Result<(), String>,
) -> Result<Forced, ServerError> {
    let mut all = Vec::new();
    for folder in survivors {
        all.push(SurvivorFiles::read(folder, app)?);
    }
    let furthest = (0..all.len()).max_by_key(|at| all[*at].survivor.reached());
    let chosen = furthest.unwrap_or_default();
    let old = survivors[chosen].meta();
    let member = Member {
        id: old.replica,
        incarnation: fresh_incarnation()?,
    };
    let cluster = random_u64()?;
    let cluster = ClusterId(u128::from(cluster) << 64 | u128::from(random_u64()?));
    let meta = Meta {
        cluster,
        incarnation: member.incarnation,
        listed_as: Some(member.incarnation),
        state: ReplicaState::Started,
        ..old.clone()
    };
    let lacking = all[chosen].survivor.lacking();
    let (epoch, next) = all[chosen].survivor.reached();
    let mut new = NewCluster {
        disk: Disk::open(folders)?,
        files: NewDisk::new(
            &host_config::<Registered>(&meta, Boot(random_u64()?), Limits::default(), 0, None)?,
            epoch + 1,
        ),
        payloads: 0,
    };
    let lost = new.take_over(&mut all, chosen)?;
    let survivor = &mut all[chosen].survivor;
    edit(survivor.app_mut(), &lost).map_err(ServerError::Epoch)?;
    survivor.force(member).map_err(ServerError::Epoch)?;
    let snapshots = SnapshotFiles::open(&folders.snapshots)?;
    write_snapshot(survivor, &snapshots, &meta)?;
    new.flush()?;
    // Last: without it the folder is no replica's.
    write_meta(into, &meta)?;
    Ok(Forced {
        cluster,
        member,
        epoch: epoch + 1,
        next,
        lacking,
        payloads: new.payloads,
    })
}

/// Checks that the survivors are of one cluster, each of another replica, and on disk.
fn check(survivors: &[Folder]) -> Result<(), ServerError> {
    let Some((first, others)) = survivors.split_first() else {
        return Err(ServerError::Epoch("no survivor is named".to_owned()));
    };
    if first.meta().epoch.durability == Durability::Memory {
        let why = "its replicas live in memory: a folder of one that does not run holds nothing";
        return Err(ServerError::Epoch(why.to_owned()));
    }
    for folder in others {
        if folder.meta().cluster != first.meta().cluster {
            return Err(ServerError::Folder(FolderError::OtherCluster {
                dir: folder.dir().into(),
                found: folder.meta().cluster,
                expected: first.meta().cluster,
            }));
        }
    }
    Ok(())
}

/// A survivor and its files.
struct SurvivorFiles<A> {
    survivor: Survivor<A>,
    source: OfflineFiles,
}

impl<A: Application> SurvivorFiles<A> {
    fn read(folder: &Folder, app: &A) -> Result<Self, ServerError> {
        let config = host_config::<Registered>(folder.meta(), Boot(0), Limits::default(), 0, None)?;
        let mut source = OfflineFiles::new(folder);
        let survivor = Survivor::read::<AnyMachine>(&config, &mut source, app.empty());
        let survivor = survivor.map_err(|error| ServerError::Log {
            dir: folder.log_dir(),
            error,
        })?;
        Ok(SurvivorFiles { survivor, source })
    }

    /// The survivor's fragments of a payload. Fragments that cannot be read are left out.
    fn fragments(&mut self, id: PayloadId) -> Vec<(Fragment, Bytes)> {
        let here = self.survivor.fragments(id).iter();
        let read = |fragment: &Fragment| {
            let bytes = self.source.read_fragments(fragment.at, fragment.len);
            Some((*fragment, bytes.ok()?))
        };
        here.filter_map(read).collect()
    }
}

/// The folder that is made.
struct NewCluster {
    disk: Disk,
    files: NewDisk,
    payloads: u64,
}

impl NewCluster {
    /// Takes over every live payload of the chosen survivor; says which cannot be rebuilt.
    fn take_over<A: Application>(
        &mut self,
        all: &mut [SurvivorFiles<A>],
        chosen: usize,
    ) -> Result<BTreeSet<PayloadId>, ServerError> {
        let (mut after, mut lost, mut bytes) = (None, BTreeSet::new(), 0);
        loop {
            let live = all[chosen].survivor.app().live(after, LOOKED_AT_ONCE);
            let Some((last, _)) = live.last() else {
                return Ok(lost);
            };
            after = Some(*last);
            for (id, payload) in live {
                match whole(all, id, &payload) {
                    Some(whole) => {
                        bytes += whole.len();
                        self.files.add(id, whole);
                        self.payloads += 1;
                    }
                    None => drop(lost.insert(id)),
                }
                if bytes >= FLUSH_BYTES {
                    self.flush()?;
                    bytes = 0;
                }
            }
        }
    }

    fn flush(&mut self) -> Result<(), ServerError> {
        flush(&mut self.disk, &mut self.files)
    }
}

/// Writes and syncs what a replica that has not begun has to write.
pub(crate) fn flush(disk: &mut Disk, files: &mut NewDisk) -> Result<(), ServerError> {
    while let Some(flush) = files.take_flush() {
        disk.flush(&flush)?;
        files.flushed(&flush);
    }
    Ok(())
}

/// A payload, out of what all survivors have of it.
fn whole<A: Application>(
    all: &mut [SurvivorFiles<A>],
    id: PayloadId,
    payload: &Payload,
) -> Option<Bytes> {
    let fragments = all.iter_mut().flat_map(|one| one.fragments(id));
    rebuild(payload, &fragments.collect::<Vec<_>>())
}

fn write_snapshot<A: Application>(
    survivor: &mut Survivor<A>,
    files: &SnapshotFiles,
    meta: &Meta,
) -> Result<(), ServerError> {
    let (_, slot) = survivor.reached();
    durable(files, slot, |file| {
        let put = |bytes: &Bytes| file.write_all(bytes);
        survivor.snapshot::<AnyMachine, io::Error>(meta.cluster, meta.group, put)?;
        Ok(())
    })
}

/// Writes the file of a snapshot, which gets its name once it is durable.
pub(crate) fn durable(
    files: &SnapshotFiles,
    slot: Slot,
    write: impl FnOnce(&mut io::BufWriter<File>) -> io::Result<()>,
) -> Result<(), ServerError> {
    let (temporary, path) = (files.temporary(slot), files.path(slot));
    let mut file = io::BufWriter::new(File::create(&temporary)?);
    write(&mut file)?;
    file.into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()?;
    std::fs::rename(&temporary, &path)?;
    File::open(files.dir())?.sync_all()?;
    Ok(())
}
