//! What a trial takes of the disk and of memory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::replicas::Replicas;
use crate::trial::ClusterArgs;
use quorate_tooling::cleanup;
use quorate_tooling::process;
use quorate_tooling::tables::Table;
use quorate_tooling::units::show_bytes;

/// What one replica takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Footprint {
    /// Bytes of its folder on the disk.
    pub(super) disk: u64,
    /// The most memory it ever had in RAM, in bytes.
    pub(super) memory_peak: u64,
    /// Bytes of memory that the replica has now.
    pub(super) memory: u64,
}

impl Footprint {
    pub(super) fn of(replicas: &Replicas, index: usize) -> Footprint {
        let pid = replicas.pid(index);
        Footprint {
            disk: bytes_on_disk(&replicas.folder(index)),
            memory_peak: pid.map_or(0, process::rss_bytes_peak),
            memory: pid.map_or(0, |pid| process::resident_bytes(&[pid])),
        }
    }
}

/// A line for each replica.
pub(super) fn table(replicas: &[Footprint], written: u64) -> String {
    let mut table = Table::new(&["replica", "disk", "of all", "memory peak", "memory now"]);
    for (index, one) in replicas.iter().enumerate() {
        table.add(vec![
            (index + 1).to_string(),
            show_bytes(one.disk),
            format!("{:.3}", one.disk as f64 / written as f64),
            show_bytes(one.memory_peak),
            show_bytes(one.memory),
        ]);
    }
    table.to_string()
}

/// Bytes on the disk that values of so many take in all replicas, and room for everything else.
pub(super) fn needed(total: u64, cluster: &ClusterArgs) -> u64 {
    let (n, k) = (u64::from(cluster.replicas), cluster.k() as u64);
    let values = total * n / k;
    values + values / 10 + n * BESIDE
}

/// Whether so much is free.
pub(super) fn check_space(parent: Option<&Path>, needed: u64) -> Result<(), String> {
    let parent = parent.map_or_else(cleanup::default_parent, |parent| Ok(parent.to_owned()));
    let parent = parent.map_err(|error| error.to_string())?;
    let described = |error| format!("cannot look at {}: {error}", parent.display());
    let stat = rustix::fs::statvfs(&parent).map_err(described)?;
    let free = stat.f_bavail * stat.f_frsize;
    if free < needed {
        return Err(format!(
            "this takes about {} in {}, where {} are free: choose a smaller --total or another \
             --data-dir",
            show_bytes(needed),
            parent.display(),
            show_bytes(free)
        ));
    }
    Ok(())
}

/// Blocks of all files below a folder; what goes away meanwhile takes none.
fn bytes_on_disk(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_on_disk(&entry.path()),
            Ok(metadata) => metadata.blocks() * BLOCK,
            Err(_) => 0,
        })
        .sum()
}

/// Of `st_blocks`, everywhere.
const BLOCK: u64 = 512;
/// Log segments, snapshots and segments in use, per replica.
const BESIDE: u64 = 512 << 20;
