//! `quorate backup`: what a cluster holds, and every change of it, in a folder elsewhere.

mod follow;
mod full;
mod session;

use crate::Failure;
use crate::endpoints::Endpoints;
use crate::serve::create_files_for_owner_only;
use crate::utc;
use clap::{Args, Subcommand};
use quorate_backup::{BackupError, Folder, Moment};
use quorate_tooling::units;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The commands of `quorate backup`.
#[derive(Subcommand, Debug)]
pub(crate) enum BackupCommand {
    /// Back a cluster up, a real etcd as well: a full snapshot now and then, and every change in between
    Run(RunOptions),
    /// Write the state of a moment as a snapshot, that `quorate import` and `etcdutl snapshot restore` take
    Restore(RestoreOptions),
    /// Read all of a backup, and say what can be restored
    Verify(VerifyOptions),
}

/// The options of `quorate backup run`.
#[derive(Args, Debug)]
#[command(
    after_help = "It goes on until it is stopped, over whichever endpoint answers, and goes on where it stopped when \
                  it is started again. With users on, it needs root. The folder may be copied elsewhere at any time; \
                  metrics.prom there is for the text files that Prometheus's node exporter reads.\n\n\
                  Example:\n  quorate backup run --to backup --endpoints 10.0.0.1:2379,10.0.0.2:2379\n  quorate backup \
                  restore backup --to-time 2026-11-27T12:00:00Z --out then.db\n  quorate import --etcd-snapshot \
                  then.db --data-dir restored"
)]
pub(crate) struct RunOptions {
    /// Folder of the backup; a new one has to be empty
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,

    /// Take one full snapshot, and stop
    #[arg(long)]
    pub(crate) once: bool,

    /// How often a full snapshot is taken
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = interval)]
    pub(crate) full_every: Duration,

    /// How many full snapshots to keep, and the changes since the oldest of them; 0 for all
    #[arg(long, value_name = "COUNT", default_value_t = 7)]
    pub(crate) keep: usize,

    #[command(flatten)]
    pub(crate) endpoints: Endpoints,
}

/// The options of `quorate backup restore`.
#[derive(Args, Debug)]
#[command(
    after_help = "Without --to-revision or --to-time it is the last revision of the backup. Keys have their history, \
                  and leases begin anew; users and roles are those of the full snapshot before that moment.\n\n\
                  Example:\n  quorate backup restore backup --to-time 10m --out then.db"
)]
pub(crate) struct RestoreOptions {
    /// Folder of the backup
    #[arg(value_name = "DIR")]
    from: PathBuf,

    /// Restore this revision
    #[arg(long, value_name = "REVISION", conflicts_with = "to_time")]
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    to_revision: Option<i64>,

    /// Restore what had come in by a moment: 2026-11-27T12:00:00Z, or so long ago: 10m
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to_time: Option<u64>,

    /// File for the snapshot, which must not be there yet
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// The options of `quorate backup verify`.
#[derive(Args, Debug)]
pub(crate) struct VerifyOptions {
    /// Folder of the backup
    #[arg(value_name = "DIR")]
    from: PathBuf,
}

/// Does what was asked.
pub(crate) fn run(command: &BackupCommand) -> Result<(), Failure> {
    create_files_for_owner_only();
    match command {
        BackupCommand::Run(options) => follow::run(options),
        BackupCommand::Restore(options) => restore(options),
        BackupCommand::Verify(options) => verify(options),
    }
}

fn restore(options: &RestoreOptions) -> Result<(), Failure> {
    let moment = match (options.to_revision, options.to_time) {
        (Some(revision), _) => Moment::Revision(revision),
        (None, Some(time_ms)) => Moment::Time(time_ms),
        (None, None) => Moment::Last,
    };
    let folder = Folder::open(&options.from).map_err(failed)?;
    let restored = folder.restore(moment, &options.out).map_err(failed)?;
    println!(
        "restored: revision {} of {}, from the full snapshot of revision {} and {} changes\nbegin a cluster with it: \
         quorate import --etcd-snapshot {} --data-dir DIR",
        restored.revision,
        utc::format(restored.time_ms),
        restored.full.revision,
        restored.changes,
        options.out.display()
    );
    Ok(())
}

fn verify(options: &VerifyOptions) -> Result<(), Failure> {
    let folder = Folder::open(&options.from).map_err(failed)?;
    let found = folder.verify().map_err(failed)?;
    println!("{} full snapshots, {} changes", found.fulls, found.changes);
    for range in &found.ranges {
        println!("restorable: revisions {} to {}", range.first, range.last);
    }
    for path in &found.torn {
        println!(
            "{}: its last record was never written whole, and is left out",
            path.display()
        );
    }
    if found.damaged.is_empty() {
        return Ok(());
    }
    let count = found.damaged.len();
    let all = found.damaged.join("\n  ");
    Err(Failure::Failed(format!(
        "{count} files of the backup are damaged: what they hold cannot be restored\n  {all}"
    )))
}

fn failed(error: BackupError) -> Failure {
    Failure::Failed(error.to_string())
}

fn interval(text: &str) -> Result<Duration, String> {
    match units::duration(text)? {
        time if time < Duration::from_secs(1) => Err("it takes a second at least".to_owned()),
        time => Ok(time),
    }
}

fn moment(text: &str) -> Result<u64, String> {
    let ago = || {
        let ago = units::duration(text).ok()?.as_millis();
        now_ms().checked_sub(u64::try_from(ago).ok()?)
    };
    let found = utc::parse(text).or_else(ago);
    found
        .ok_or_else(|| "give a moment such as 2026-11-27T12:00:00Z, or so long ago: 10m".to_owned())
}

/// The time, in ms since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_of_the_calendar_or_ago() {
        assert_eq!(moment("1970-01-01T00:00:02Z"), Ok(2000));
        let ago = moment("1h").unwrap();
        assert!(now_ms() - ago - 3_600_000 < 60_000, "{ago}");
        assert!(moment("yesterday").unwrap_err().contains("10m"));
        assert!(interval("100ms").is_err() && interval("1m").is_ok());
    }
}
