//! `quorate bundle`: what others need to see of a cluster that is unwell, as one archive without its data.

use crate::Failure;
use crate::doctor;
use crate::endpoints::{Asked, Endpoints};
use crate::status::Gathered;
use crate::utc;
use clap::Args;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tar::{Builder, EntryType, Header};

/// The last bytes of a log that are taken: hours of one that has trouble.
const LOG_BYTES_MAX: u64 = 4 << 20;
/// Files of the archive can be read by their owner alone.
const MODE: u32 = 0o600;

/// The options of `quorate bundle`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  quorate bundle --endpoints 10.0.0.1:2379
  quorate bundle --output trouble.tar --log quorate-data/1/log.txt --log quorate-data/2/log.txt")]
pub(crate) struct BundleOptions {
    #[command(flatten)]
    endpoints: Endpoints,

    /// The archive to write; one that exists is not touched
    #[arg(long, value_name = "FILE", default_value = "quorate-bundle.tar")]
    output: PathBuf,

    /// A log of a replica, whose last 4 MiB are added; may be repeated
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,
}

/// Asks the cluster, and writes the archive.
pub(crate) fn run(options: &BundleOptions) -> Result<(), Failure> {
    let asked = options.endpoints.open()?;
    let logs: Vec<(String, Vec<u8>)> = (options.log.iter().enumerate())
        .map(|(index, path)| Ok((log_name(index, path), end_of(path)?)))
        .collect::<Result<_, Failure>>()?;
    let (file, path) = create(&options.output)?;
    let made = now();
    let (found, sights) = doctor::of_cluster(&asked);
    let answered = sights.iter().filter(|sight| sight.seen.is_ok()).count();
    let mut archive = Archive {
        tar: Builder::new(file),
        made_s: made / 1000,
    };
    let written = (|| {
        let about = about(made, answered, &sights);
        archive.add("about.txt", about.as_bytes())?;
        archive.add("doctor.txt", found.render().as_bytes())?;
        archive.add("doctor.json", &serde_json::to_vec(&found)?)?;
        for sight in &sights {
            archive.add_replica(&asked, sight)?;
        }
        for (name, bytes) in &logs {
            archive.add(name, bytes)?;
        }
        archive.tar.into_inner()?.sync_all()
    })();
    written.map_err(|error| {
        // What is half an archive is none.
        let _ = std::fs::remove_file(path);
        Failure::Failed(format!("cannot write {}: {error}", path.display()))
    })?;
    println!(
        "{} has what {answered} of {} replicas say, and {} logs; no key or value of theirs is in it",
        path.display(),
        sights.len(),
        logs.len()
    );
    Ok(())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// A file for the owner alone, which was not there before.
fn create(path: &Path) -> Result<(File, &Path), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(MODE).open(path);
    let file = file.map_err(|error| {
        Failure::Failed(format!(
            "cannot make {}: {error}; --output names another file",
            path.display()
        ))
    })?;
    Ok((file, path))
}

/// What whoever opens the archive reads first.
fn about(made_ms: u64, answered: usize, sights: &[Gathered]) -> String {
    let mut text = format!(
        "Made by quorate {} at {}, of a cluster of which {answered} of {} replicas answered.\n\n\
         doctor.txt, doctor.json: what `quorate doctor` found\n\
         replica-N/status.json, replica-N/metrics.txt: what replica N says of itself\n\
         replica-N/silence.txt: why it was not heard\n\
         logs/: the ends of the logs that were named\n\n\
         Keys and values of the cluster are not in here, nor passwords, secrets and private keys. Addresses and names \
         of members are, and in logs addresses of clients and names of users.\n\n",
        env!("CARGO_PKG_VERSION"),
        utc::format(made_ms),
        sights.len()
    );
    for sight in sights {
        text += &format!("{}: {}\n", name_of(sight), sight.url);
    }
    text
}

/// The folder of a replica in the archive.
fn name_of(sight: &Gathered) -> String {
    match sight.id {
        Some(id) => format!("replica-{id}"),
        // It could be anybody's.
        None => format!("endpoint-{}", sight.url.replace([':', '/'], "-")),
    }
}

fn log_name(index: usize, path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy());
    format!("logs/{}-{}", index + 1, name.unwrap_or_default())
}

/// The last bytes of a file.
fn end_of(path: &Path) -> Result<Vec<u8>, Failure> {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error: std::io::Error| {
        Failure::Failed(format!("cannot read --log {}: {error}", path.display()))
    })
}

/// The archive while it is written.
struct Archive<W: Write> {
    tar: Builder<W>,
    /// The time in seconds since 1970 that all files bear.
    made_s: u64,
}

impl<W: Write> Archive<W> {
    fn add(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(MODE);
        header.set_mtime(self.made_s);
        header.set_size(bytes.len() as u64);
        self.tar.append_data(&mut header, name, bytes)
    }

    /// What a replica says now, as it says it.
    fn add_replica(&mut self, asked: &Asked, sight: &Gathered) -> std::io::Result<()> {
        let folder = name_of(sight);
        if let Err(why) = &sight.seen {
            return self.add(&format!("{folder}/silence.txt"), why.as_bytes());
        }
        for (page, name) in [("/status", "status.json"), ("/metrics", "metrics.txt")] {
            let (name, text) = match asked.get(&sight.url, page) {
                Ok(text) => (format!("{folder}/{name}"), text),
                Err(why) => (format!("{folder}/silence.txt"), why),
            };
            self.add(&name, text.as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_that_is_there_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bundle.tar");
        std::fs::write(&path, "precious").unwrap();
        let Err(Failure::Failed(why)) = create(&path) else {
            panic!("it was made anew");
        };
        assert!(why.contains("--output names another file"), "{why}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn of_long_logs_the_end_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.txt");
        let bytes = [vec![b'a'; 100], vec![b'b'; LOG_BYTES_MAX as usize]].concat();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(end_of(&path).unwrap(), &bytes[100..]);
        assert_eq!(log_name(1, &path), "logs/2-log.txt");
        assert!(end_of(&dir.path().join("none")).is_err());
    }
}
