//! What tests tell a replica of its clock and its disk.
//!
//! Whole processes are tested as they ship, on machines whose clocks and disks do not misbehave on
//! demand: a file stands in for them. Operators have no use for it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A file of 16 bytes, read whenever it matters; without one nothing is different.
///
/// ```text
/// offset  bytes  field, little-endian
///      0      8  what the synchronised clock shows beside the real one, signed, in ns
///      8      8  what a sync of the log takes beyond what it takes, in ns
/// ```
#[derive(Clone, Debug, Default)]
pub struct TestSource(Option<Arc<File>>);

impl TestSource {
    /// Opens the file.
    ///
    /// # Errors
    /// That of the operating system.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(TestSource(Some(Arc::new(File::open(path)?))))
    }

    /// The real time, and what is to be added to it.
    pub(crate) fn shift(&self, clock_ns: u64) -> u64 {
        match self.read(0) {
            Some(bytes) => clock_ns.saturating_add_signed(i64::from_le_bytes(bytes)),
            None => clock_ns,
        }
    }

    /// Waits for what a sync takes beyond what it takes.
    pub(crate) fn delay_sync(&self) {
        let delay = self.sync_delay();
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
    }

    /// What a sync takes beyond what it takes.
    fn sync_delay(&self) -> Duration {
        let bytes = self.read(8);
        bytes.map_or(Duration::ZERO, |bytes| {
            Duration::from_nanos(u64::from_le_bytes(bytes))
        })
    }

    fn read(&self, offset: u64) -> Option<[u8; 8]> {
        let mut bytes = [0; 8];
        let file = self.0.as_ref()?;
        file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_shifts_the_clock_both_ways_and_slows_syncs_at_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("source");
        let tell = |clock_ns: i64, sync_ns: u64| {
            let bytes = [clock_ns.to_le_bytes(), sync_ns.to_le_bytes()].concat();
            std::fs::write(&path, bytes).unwrap();
        };
        tell(-5, 0);
        let source = TestSource::open(&path).unwrap();
        assert_eq!((source.shift(7), source.sync_delay()), (2, Duration::ZERO));
        tell(3, 9);
        assert_eq!(
            (source.shift(7), source.sync_delay()),
            (10, Duration::from_nanos(9))
        );
        assert_eq!(TestSource::default().shift(7), 7);
    }
}
