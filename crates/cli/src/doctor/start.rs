//! One replica on this machine, before it is started.

use super::finding::Finding;
use super::{certificates, disk, machine, network};
use crate::Failure;
use crate::face::{FaceName, RedisStore};
use crate::new_cluster::failures_survived;
use crate::serve::{self, ServeOptions, Settings, face_of};
use quorate_core::{Durability, Incarnation};
use quorate_server::{FolderError, Meta, holds_data, read_meta};
use std::fs::File;

/// The kind of findings about data.
const DATA: &str = "data";

/// What the replica is of: what its folder says, or the options if that has no data.
pub(super) struct Known {
    pub(super) protocol: String,
    pub(super) durability: Durability,
    pub(super) face: FaceName,
    /// The store behind Redis's protocol.
    pub(super) store: Option<RedisStore>,
}

/// Looks at everything that a start needs. What cannot be read as options ends it: the rest goes by them.
pub(super) fn examine(options: ServeOptions) -> Vec<Finding> {
    let settings = match serve::resolve(options) {
        Ok(settings) => settings,
        Err(failure) => return vec![Finding::fault("options", text(failure))],
    };
    let (dir, id) = (settings.data_dir.display(), settings.id);
    let mut found = vec![Finding::fine("options", format!("replica {id} in {dir}"))];
    let (data, meta) = data(&settings);
    found.push(data);
    let known = Known::of(&settings, meta.as_ref());
    let holder = holder(&settings);
    found.extend(disk::examine(&settings, &known, holder.is_some()));
    found.extend(machine::examine(&settings, &known));
    // Whoever runs on the folder has the ports, and the disk to flush to.
    match holder {
        None => found.extend(network::ports(&settings)),
        Some(process) => found.push(Finding::note(
            "running",
            format!("process {process} runs on {dir}"),
            "its ports and its disk are left alone; ask the replica itself: quorate doctor --endpoints HOST:PORT",
        )),
    }
    found.extend(network::others(&settings));
    found.extend(certificates::examine(&settings, &known));
    found
}

fn text(failure: Failure) -> String {
    match failure {
        Failure::Usage(why) | Failure::Failed(why) => why,
    }
}

impl Known {
    fn of(settings: &Settings, meta: Option<&Meta>) -> Known {
        let begun = settings.first_meta(Incarnation(0));
        let epoch = &meta.unwrap_or(&begun).epoch;
        let face = FaceName::of(&epoch.params).unwrap_or_default();
        Known {
            protocol: epoch.protocol.clone(),
            durability: epoch.durability,
            face,
            store: face.store(&epoch.params).ok().flatten(),
        }
    }
}

/// The owner of the data in the folder, and whether this replica would begin or go on with it.
fn data(settings: &Settings) -> (Finding, Option<Meta>) {
    let dir = &settings.data_dir;
    let fault = |why: String| Finding::fault(DATA, why);
    match holds_data(dir) {
        Err(error) => (fault(error.to_string()), None),
        Ok(false) => (none_yet(settings), None),
        Ok(true) => match read_meta(dir) {
            Err(error) => (fault(error.to_string()), None),
            Ok(meta) => {
                let fit = fits(settings, &meta);
                (
                    fit.map_or_else(fault, |words| Finding::fine(DATA, words)),
                    Some(meta),
                )
            }
        },
    }
}

/// Whether the data are what the options say, and of which cluster.
fn fits(settings: &Settings, meta: &Meta) -> Result<String, String> {
    let dir = &settings.data_dir;
    let checked = settings.expected().check(dir, meta);
    checked.map_err(|error| error.to_string())?;
    let face = face_of(meta, dir, settings.face).map_err(text)?;
    settings.check_face(face)?;
    let (replica, cluster, protocol) = (meta.replica, meta.cluster, &meta.epoch.protocol);
    Ok(format!(
        "replica {replica} of cluster {cluster}, which agrees by {protocol}"
    ))
}

/// What a start makes of a folder without data.
fn none_yet(settings: &Settings) -> Finding {
    let dir = &settings.data_dir;
    let shown = dir.display();
    if settings.is_new() {
        let begun = settings.first_meta(Incarnation(0));
        return match failures_survived(&begun.epoch, settings.id) {
            Err(why) => Finding::fault(DATA, why),
            Ok(_) => Finding::fine(DATA, format!("{shown} holds none: a cluster is begun")),
        };
    }
    match settings.peer_addresses.is_empty() {
        // Alone, there is nobody to ask what the replica may have promised.
        true => Finding::fault(DATA, FolderError::NoData { dir: dir.clone() }.to_string()),
        false => Finding::fine(
            DATA,
            format!("{shown} holds none: the replica comes back from the others"),
        ),
    }
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
