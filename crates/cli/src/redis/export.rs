//! `quorate redis export`: everything that a cluster holds, as an RDB file.

use super::Common;
use crate::Failure;
use crate::progress::Progress;
use clap::Args;
use quorate_redis_rdb::verify;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where a replica serves the file.
const PAGE: &str = "/redis/rdb";
/// What a file is called until it is complete.
const PARTIAL: &str = "partial";

/// The options of `quorate redis export`.
#[derive(Args, Debug)]
pub(crate) struct ExportOptions {
    /// The RDB file to write, which must not be there yet
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Writes the file; what it holds was committed when this was asked for, or later.
pub(super) fn run(options: &ExportOptions) -> Result<(), Failure> {
    let path = &options.file;
    if path.exists() {
        return Err(Failure::Usage(format!(
            "{}: the file is there already; name one that is not",
            path.display()
        )));
    }
    let mut partial = path.clone().into_os_string();
    partial.push(format!(".{PARTIAL}"));
    let partial = PathBuf::from(partial);
    let written = write(options, &partial);
    if written.is_err() {
        // What is left of it is of no use.
        let _ = fs::remove_file(&partial);
    }
    let bytes = written?;
    fs::rename(&partial, path).map_err(|error| of_file(path, &error))?;
    println!("exported: {bytes} bytes to {}", path.display());
    Ok(())
}

fn of_file(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

/// Fetches the file and makes sure that it is whole; how long it is.
fn write(options: &ExportOptions, path: &Path) -> Result<u64, Failure> {
    let asked = options.common.endpoints.open()?;
    let mut open = OpenOptions::new();
    open.read(true).write(true).create(true).truncate(true);
    let file = open.open(path).map_err(|error| of_file(path, &error))?;
    let progress = Progress::new(1);
    progress.say("waiting for the replica to save");
    let mut counted = Counted {
        file,
        bytes: 0,
        progress: &progress,
    };
    let fetched = asked.download(PAGE, &mut counted);
    let (file, bytes) = (counted.file, counted.bytes);
    progress.end();
    fetched?;
    file.sync_all().map_err(|error| of_file(path, &error))?;
    let again = File::open(path).map_err(|error| of_file(path, &error))?;
    verify(again, bytes)
        .map_err(|why| Failure::Failed(format!("what came is no whole RDB: {why}: ask again")))?;
    Ok(bytes)
}

/// A file, whose bytes are counted and shown.
struct Counted<'a> {
    file: File,
    bytes: u64,
    progress: &'a Progress,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        self.progress
            .say(&format!("saved {} MiB", self.bytes >> 20));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
