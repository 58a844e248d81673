//! One replica on this machine, before it is started.

use super::finding::Finding;
use super::{certificates, disk, machine, network};
use crate::Failure;
use crate::serve::{self, ServeOptions, Settings};
use quorate_server::{holds_data, read_meta};
use std::fs::File;

/// Looks at everything that a start needs. What cannot be read as options ends it: the rest goes by them.
pub(super) fn examine(options: ServeOptions) -> Vec<Finding> {
    let settings = match serve::resolve(options) {
        Ok(settings) => settings,
        Err(Failure::Usage(why) | Failure::Failed(why)) => {
            return vec![Finding::fault("options", why)];
        }
    };
    let mut found = vec![Finding::fine(
        "options",
        format!("replica {} in {}", settings.id, settings.data_dir.display()),
    )];
    found.extend(data(&settings));
    found.extend(disk::examine(&settings));
    found.extend(machine::examine(&settings));
    // Whoever runs on the folder has the ports.
    match holder(&settings) {
        None => found.extend(network::ports(&settings)),
        Some(process) => found.push(Finding::note(
            "running",
            format!(
                "process {process} runs on {}",
                settings.data_dir.display()
            ),
            "its ports are not looked at; ask the replica itself: quorate doctor --endpoints HOST:PORT",
        )),
    }
    found.extend(network::others(&settings));
    found.extend(certificates::examine(&settings));
    found
}

/// The owner of the data in the folder.
fn data(settings: &Settings) -> Option<Finding> {
    let dir = &settings.data_dir;
    let has_data = match holds_data(dir) {
        Ok(has_data) => has_data,
        Err(error) => return Some(Finding::fault("data", error.to_string())),
    };
    if !has_data {
        return Some(Finding::fine(
            "data",
            format!("{} holds none yet", dir.display()),
        ));
    }
    Some(match read_meta(dir) {
        Err(error) => Finding::fault("data", error.to_string()),
        Ok(meta) if meta.replica != settings.id => Finding::problem(
            "data",
            format!(
                "{} holds the data of replica {}, and replica {} is to be started",
                dir.display(),
                meta.replica,
                settings.id
            ),
            "give the folder of this replica (--data-dir), or the number that belongs to it (--id)",
        ),
        Ok(meta) => Finding::fine(
            "data",
            format!(
                "replica {} of cluster {}, which agrees by {}",
                meta.replica, meta.cluster, meta.epoch.protocol
            ),
        ),
    })
}

/// The process that runs on the data folder now.
fn holder(settings: &Settings) -> Option<String> {
    let path = settings.data_dir.join("lock");
    let file = File::open(&path).ok()?;
    match file.try_lock_shared() {
        Err(std::fs::TryLockError::WouldBlock) => {
            let named = std::fs::read_to_string(&path).unwrap_or_default();
            Some(named.trim().to_owned())
        }
        _ => None,
    }
}
