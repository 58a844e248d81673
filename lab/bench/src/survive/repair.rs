//! A follower whose folder is deleted, and one whose fragments are damaged: rebuilt from the others.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Trial;
use super::observe::Written;
use super::stops::How;
use quorate_tooling::scrape;
use quorate_tooling::terminal::say;

impl Trial<'_> {
    /// Both kinds of loss, each of another follower.
    pub(super) fn repairs(&mut self) -> Result<(), String> {
        self.wait_whole()?;
        let leader = self.leader()?;
        let n = self.quorums.n;
        self.wipe((leader + 1) % n)?;
        self.damage((leader + 2) % n)
    }

    /// A folder is deleted. Every fragment in it has to be made anew.
    fn wipe(&mut self, hurt: usize) -> Result<(), String> {
        self.replicas.kill(&[hurt])?;
        self.replicas.wipe(hurt)?;
        let began = Instant::now();
        self.replicas.start(&[hurt])?;
        self.replicas.wait_voting(hurt)?;
        let votes = began.elapsed();
        self.wait_whole()?;
        let (rebuilt, gathered) = (self.metric(hurt, REBUILT)?, self.metric(hurt, GATHERED)?);
        say(format_args!(
            "wiped: replica {} votes after {:.2} s and has all its fragments after {:.2} s: {rebuilt} \
             rebuilt, {gathered} values put together",
            hurt + 1,
            votes.as_secs_f64(),
            began.elapsed().as_secs_f64()
        ));
        let lost = self.coded().count();
        if self.quorums.k > 1 && rebuilt < lost as f64 {
            self.wrong
                .push(format!("wiped: {rebuilt} of {lost} fragments were rebuilt"));
        }
        self.check_needed("wiped", hurt)
    }

    /// Bytes in the middle of a segment of fragments are overwritten. Reads find that, and have the
    /// fragments rebuilt.
    fn damage(&mut self, hurt: usize) -> Result<(), String> {
        self.replicas.kill(&[hurt])?;
        let segment = fullest_segment(&self.replicas.folder(hurt).join("bulk"))?;
        overwrite_middle(&segment)
            .map_err(|error| format!("cannot damage {}: {error}", segment.display()))?;
        self.replicas.start(&[hurt])?;
        self.replicas.wait_voting(hurt)?;
        self.read_first("damaged", &[hurt])?;
        self.wait_whole()?;
        let (damaged, rebuilt) = (self.metric(hurt, DAMAGED)?, self.metric(hurt, REBUILT)?);
        say(format_args!(
            "damaged: replica {} found {damaged} places, {rebuilt} fragments rebuilt",
            hurt + 1
        ));
        if damaged == 0.0 || rebuilt == 0.0 {
            self.wrong
                .push("damaged: nobody noticed, or nothing was rebuilt".to_owned());
        }
        self.check_needed("damaged", hurt)
    }

    /// Reads everything through this replica, then again while so many others are stopped that its
    /// fragments are needed.
    fn check_needed(&mut self, what: &str, hurt: usize) -> Result<(), String> {
        self.read_first(what, &[hurt])?;
        let leader = self.leader()?;
        let n = self.quorums.n;
        let others = (0..n).filter(|index| ![hurt, leader].contains(index));
        let stopped: Vec<usize> = others.take(n - self.quorums.fewest()).collect();
        self.stop(How::Paused, &stopped)?;
        self.read_first(what, &[hurt])?;
        say(format_args!(
            "  {what}: all values intact through replica {}, also with {} others stopped",
            hurt + 1,
            stopped.len()
        ));
        self.heal(How::Paused, &stopped)
    }

    /// Waits until every replica holds at least a fragment of everything written so far. One that was
    /// away or slow when a value was written may have made others write larger fragments, too.
    fn wait_whole(&self) -> Result<(), String> {
        let least = self.fragment_bytes() as f64;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = (0..self.quorums.n).map(|index| self.metric(index, LIVE));
            let live = all.collect::<Result<Vec<f64>, String>>()?;
            if live.iter().all(|bytes| *bytes >= least) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "the replicas hold {live:?} bytes of fragments, where {least} are the least"
                ));
            }
            std::thread::sleep(POLL);
        }
    }

    fn metric(&self, index: usize, name: &str) -> Result<f64, String> {
        let page = scrape::get(&self.replicas.endpoints[index], "/metrics")?;
        Ok(scrape::value(&page, name))
    }

    /// Lengths of the values so far that are cut.
    fn coded(&self) -> impl Iterator<Item = usize> {
        let lens = (0..self.written.first).map(Written::first_len);
        lens.filter(|len| *len >= PAYLOAD_MIN)
    }

    /// Bytes of one fragment of each of them, cut into as many as can be.
    fn fragment_bytes(&self) -> usize {
        self.coded().map(|len| len.div_ceil(self.quorums.k)).sum()
    }
}

/// The segment with the most in it: it lies on the disk, where its room does not.
fn fullest_segment(folder: &Path) -> Result<PathBuf, String> {
    let described = |error| format!("cannot read {}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(described)?.flatten();
    let segments = entries.map(|entry| entry.path());
    let filled = segments.filter_map(|path| Some((used(&path).ok()?, path)));
    let fullest = filled.max().filter(|(used, _)| *used > 0);
    fullest
        .map(|(_, path)| path)
        .ok_or_else(|| format!("{} holds nothing", folder.display()))
}

/// Bytes up to the last one that is not zero.
fn used(path: &Path) -> std::io::Result<usize> {
    let bytes = fs::read(path)?;
    Ok(bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1))
}

fn overwrite_middle(path: &Path) -> std::io::Result<()> {
    let middle = used(path)? as u64 / 2;
    let file = File::options().write(true).open(path)?;
    file.write_all_at(&[0xa5; DAMAGE_BYTES], middle)?;
    file.sync_all()
}

const REBUILT: &str = "quorate_fragments_rebuilt_total";
const GATHERED: &str = "quorate_payloads_gathered_total";
const DAMAGED: &str = "quorate_storage_damage_total";
const LIVE: &str = "quorate_bulk_live_bytes";
/// Values of so many bytes are cut, by default.
const PAYLOAD_MIN: usize = 4 << 10;
/// More than any fragment here, so that one is hit.
const DAMAGE_BYTES: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_what_was_written_is_hit() {
        let folder = quorate_tooling::cleanup::TempDir::new(Some(&std::env::temp_dir())).unwrap();
        let empty = folder.path().join("1.seg");
        fs::write(&empty, [0; 100]).unwrap();
        assert!(
            fullest_segment(folder.path())
                .unwrap_err()
                .contains("holds nothing")
        );
        let full = folder.path().join("2.seg");
        let written = 4 * DAMAGE_BYTES;
        fs::write(&full, [vec![1; written], vec![0; written]].concat()).unwrap();
        assert_eq!(fullest_segment(folder.path()).unwrap(), full);
        overwrite_middle(&full).unwrap();
        let bytes = fs::read(&full).unwrap();
        let hit: Vec<usize> = (0..written).filter(|at| bytes[*at] == 0xa5).collect();
        assert_eq!((hit[0], hit.len()), (2 * DAMAGE_BYTES, DAMAGE_BYTES));
    }
}
