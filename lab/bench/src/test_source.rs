//! What replicas under test are told of their clocks and disks: the file of `quorate serve --test-source`.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Sets what a replica is told of its clock, in ns beside the real one, and how long its syncs take beyond
/// what they take. It may be reading.
pub(crate) fn write(path: &Path, clock_ns: i64, sync: Duration) -> Result<(), String> {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&clock_ns.to_le_bytes());
    bytes[8..].copy_from_slice(&(sync.as_nanos() as u64).to_le_bytes());
    let write = || {
        let mut file = OpenOptions::new();
        file.create(true).write(true).truncate(false);
        file.open(path)?.write_all_at(&bytes, 0)
    };
    write().map_err(|error: std::io::Error| format!("cannot write {}: {error}", path.display()))
}
