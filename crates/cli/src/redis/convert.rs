//! An RDB as the commands that make it: a server of our kind loads it and writes them.

use quorate_redis_process::{
    Launcher, LauncherOptions, Replication, ServerBinary, ServerUsers, UserSettings,
};
use quorate_redis_rdb::verify;
use quorate_resp::Reply;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The folder in which a server keeps files of commands.
const FOLDER: &str = "appendonlydir";
/// What the name of the file ends with that has everything.
const WHOLE: &str = ".base.aof";
/// How often the server is asked whether it is done.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long its file may not grow before the server is given up.
const STALL_MAX: Duration = Duration::from_secs(60);
/// What the name of a file begins with that the server has not finished.
const UNFINISHED: &str = "temp-";

/// Has a server load an RDB, every value of which it checks, and write the commands that make it to a file.
///
/// It takes itself for the replica of somebody who says nothing, so that it leaves keys alone whose time is over: when
/// they go is for the server to say that they come from.
pub(super) fn commands_of(
    rdb: &Path,
    binary: &ServerBinary,
    scratch: &Path,
) -> Result<PathBuf, String> {
    let of_rdb = |error: std::io::Error| format!("{}: {error}", rdb.display());
    let file = File::open(rdb).map_err(of_rdb)?;
    let bytes = file.metadata().map_err(of_rdb)?.len();
    verify(file, bytes).map_err(|why| format!("what came is no whole RDB: {why}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let silent = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = silent
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    let launcher = Launcher::new(LauncherOptions {
        binary: binary.clone(),
        folder: scratch.join("servers"),
        settings: UserSettings::default(),
        users: ServerUsers::default(),
        clients_max: 0,
        checks_files: true,
    });
    let launcher = launcher.map_err(|error| error.to_string())?;
    let to = scratch.join("commands");
    runtime.block_on(write(launcher, rdb, Replication { port }, &to))?;
    Ok(to)
}

async fn write(
    mut launcher: Launcher,
    rdb: &Path,
    replication: Replication,
    to: &Path,
) -> Result<(), String> {
    let unloaded = |why: &dyn std::fmt::Display| format!("the server does not load it: {why}");
    let process = launcher.start(Some(rdb), Some(replication));
    let mut process = process.map_err(|why| unloaded(&why))?;
    process.ready().await.map_err(|why| unloaded(&why))?;
    let control = process.control().await;
    let mut control = control.map_err(|why| unloaded(&why))?;
    let requests: [&[&str]; 2] = [
        &["CONFIG", "SET", "aof-use-rdb-preamble", "no"],
        &["BGREWRITEAOF"],
    ];
    let replies = control.ask_all(&requests).await;
    let replies = replies.map_err(|why| why.to_string())?;
    if let Some(Reply::Error(why)) = replies
        .iter()
        .find(|reply| matches!(reply, Reply::Error(_)))
    {
        return Err(format!("the server does not write its commands: {why}"));
    }
    let folder = process.folder().join(FOLDER);
    let mut growth = Growth::new(Instant::now());
    loop {
        let told = control.info("persistence").await;
        let told = told.map_err(|why| why.to_string())?;
        let is = |line: &str| told.lines().any(|told| told.trim_end() == line);
        if is("aof_rewrite_in_progress:0") && is("aof_rewrite_scheduled:0") {
            if !is("aof_last_bgrewrite_status:ok") {
                return Err("the server could not write its commands: is the disk full?".to_owned());
            }
            break;
        }
        if growth.has_stalled(written(process.folder(), &folder), Instant::now()) {
            return Err(format!(
                "the server has written nothing of its commands for {} s",
                STALL_MAX.as_secs()
            ));
        }
        sleep(LOOK_AGAIN).await;
    }
    let of_folder = |error: std::io::Error| format!("{}: {error}", folder.display());
    let files = fs::read_dir(&folder).map_err(of_folder)?;
    let whole = files
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(WHOLE));
    let whole = whole.ok_or("the server wrote no file of its commands")?;
    fs::rename(whole, to).map_err(of_folder)?;
    process.kill().await;
    Ok(())
}

/// The length of what a server has written of its commands, finished or not.
fn written(server: &Path, finished: &Path) -> u64 {
    let files = |folder| fs::read_dir(folder).into_iter().flatten().flatten();
    let is_unfinished =
        |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(UNFINISHED);
    let all = files(server).filter(is_unfinished).chain(files(finished));
    all.filter_map(|entry| entry.metadata().ok())
        .map(|found| found.len())
        .sum()
}

/// Whether something that is written goes on.
struct Growth {
    bytes: u64,
    since: Instant,
}

impl Growth {
    fn new(now: Instant) -> Growth {
        Growth {
            bytes: 0,
            since: now,
        }
    }

    /// Whether it has had this length for too long.
    fn has_stalled(&mut self, bytes: u64, now: Instant) -> bool {
        if bytes != self.bytes {
            (self.bytes, self.since) = (bytes, now);
        }
        now.duration_since(self.since) > STALL_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_writes_nothing_for_long_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let finished = dir.path().join(FOLDER);
        let begin = Instant::now();
        let mut growth = Growth::new(begin);
        let mut stalls = |seconds| {
            growth.has_stalled(
                written(dir.path(), &finished),
                begin + Duration::from_secs(seconds),
            )
        };
        assert!(!stalls(60) && stalls(61), "it has not begun");
        let write = |name: &str| fs::write(dir.path().join(name), "*1").unwrap();
        write("temp-rewriteaof-7.aof");
        assert!(!stalls(62), "it goes on");
        write("server.log");
        assert!(!stalls(122) && stalls(123), "what it says is no progress");
    }
}
