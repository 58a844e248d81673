//! How much space a disk has.

use std::path::Path;

/// Bytes that are free for this process on the disk of a folder; `None` where the system does not say.
pub(super) fn free_bytes(dir: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(dir).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether a file of so many bytes would fit on the disk that `path` is on, as far as the system says.
pub(super) fn has_free(path: &Path, bytes: u64) -> bool {
    let dir = path.parent().unwrap_or(path);
    free_bytes(dir).is_none_or(|free| free >= bytes)
}
