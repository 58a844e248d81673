//! A new cluster that begins with a state which another system made.

use crate::disk::Disk;
use crate::error::ServerError;
use crate::folder::{begin_folder, write_meta};
use crate::force::{durable, flush, must_be_empty};
use crate::meta::{Meta, ReplicaState};
use crate::run::{host_config, random_u64};
use crate::snapshots::SnapshotFiles;
use bytes::Bytes;
use quorate_core::{Application, Boot, Durability, Slot};
use quorate_host::epochs::Alarm;
use quorate_host::force::NewDisk;
use quorate_host::{Limits, write_first_snapshot};
use quorate_protocols::{AnyMachine, Registered};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Makes the folder of every replica of a new cluster, each of which begins with the state of `app`. They are empty, or
/// missing, and their identities are those of one first epoch. These alarms are raised for all of them.
///
/// # Errors
/// What is wrong with a folder or the epoch. Then nothing is left that could be taken for a replica.
pub fn found_cluster<A: Application>(
    replicas: &[(PathBuf, Meta)],
    app: A,
    alarms: &[Alarm],
) -> Result<(), ServerError> {
    for (dir, meta) in replicas {
        must_be_empty(dir)?;
        if meta.epoch.durability == Durability::Memory {
            let why = "replicas that live in memory have no folder that could hold a state";
            return Err(ServerError::Epoch(why.to_owned()));
        }
    }
    let made = make(replicas, app, alarms);
    if made.is_err() {
        for (dir, _) in replicas {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
    made
}

fn make<A: Application>(
    replicas: &[(PathBuf, Meta)],
    app: A,
    alarms: &[Alarm],
) -> Result<(), ServerError> {
    let mut app = Some(app);
    // All of them begin with the same bytes.
    let mut first: Option<(PathBuf, Slot)> = None;
    for (dir, meta) in replicas {
        let folders = begin_folder(dir)?;
        let config =
            host_config::<Registered>(meta, Boot(random_u64()?), Limits::default(), 0, None)?;
        let mut files = NewDisk::new(&config, meta.epoch.number);
        flush(&mut Disk::open(&folders)?, &mut files)?;
        let snapshots = SnapshotFiles::open(&folders.snapshots)?;
        match (&first, app.take()) {
            (Some((path, slot)), _) => durable(&snapshots, *slot, |out| {
                io::copy(&mut File::open(path)?, out)?;
                Ok(())
            })?,
            (None, Some(app)) => {
                let slot = meta.epoch.first_slot.next();
                durable(&snapshots, slot, |out| {
                    let put = |bytes: &Bytes| out.write_all(bytes);
                    write_first_snapshot::<AnyMachine, A, io::Error>(&config, app, alarms, put)?;
                    Ok(())
                })?;
                first = Some((snapshots.path(slot), slot));
            }
            (None, None) => {}
        }
    }
    // Last: without it a folder is no replica's.
    for (dir, meta) in replicas {
        let started = Meta {
            state: ReplicaState::Started,
            ..meta.clone()
        };
        write_meta(dir, &started)?;
        sync_parent(dir)?;
    }
    Ok(())
}

/// Makes the name of a folder survive a crash.
fn sync_parent(dir: &Path) -> io::Result<()> {
    match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
