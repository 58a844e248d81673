//! What must not stay behind: temporary directories and child processes, also after Ctrl-C.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::children;

/// A directory that disappears with this value.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
    kept: bool,
}

impl TempDir {
    /// Creates a fresh directory under `parent`, or where [`default_parent`] says.
    pub fn new(parent: Option<&Path>) -> io::Result<TempDir> {
        let parent = parent.map_or_else(default_parent, |parent| Ok(parent.to_owned()))?;
        let name = format!(
            "quorate-bench-{}-{:08x}",
            std::process::id(),
            fastrand::u32(..)
        );
        let path = parent.join(name);
        fs::create_dir_all(&path).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot create {}: {error}", path.display()),
            )
        })?;
        leftovers().directories.push(path.clone());
        Ok(TempDir { path, kept: false })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the directory where it is, as evidence.
    pub fn keep(&mut self) {
        self.kept = true;
        leftovers().directories.retain(|path| *path != self.path);
    }

    /// Whether the directory is in memory, where a flush costs nothing.
    pub fn is_in_memory(&self) -> bool {
        const TMPFS_MAGIC: i128 = 0x0102_1994;
        rustix::fs::statfs(&self.path).is_ok_and(|stat| i128::from(stat.f_type) == TMPFS_MAGIC)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // Nothing useful can be done about a directory that does not go away.
        let _ = fs::remove_dir_all(&self.path);
        leftovers().directories.retain(|path| *path != self.path);
    }
}

/// `TMPDIR` if it is set, else the current directory: `/tmp` is often memory, the two are not.
pub fn default_parent() -> io::Result<PathBuf> {
    match std::env::var_os("TMPDIR") {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => std::env::current_dir(),
    }
}

/// Remembers a directory that another process of this program made and removes in the end, so that
/// an interrupt of this one removes it, too.
pub fn watch_directory(path: &Path) {
    leftovers().directories.push(path.to_owned());
}

/// Remembers a child, so that an interrupt ends it.
pub fn watch_process(pid: u32) {
    leftovers().processes.push(pid);
}

/// Forgets a child that has been waited for: its id may now name another process.
pub fn forget_process(pid: u32) {
    leftovers().processes.retain(|watched| *watched != pid);
}

/// From now on SIGINT and SIGTERM end the children, remove the directories, and exit.
pub fn on_interrupt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            if let Ok(code) = runtime.and_then(|runtime| runtime.block_on(interrupted())) {
                INTERRUPTED.store(true, SeqCst);
                clean_up();
                std::process::exit(code);
            }
        });
    });
}

/// Does not return if an interrupt is ending this process: what a child came to then says nothing.
pub fn stop_if_interrupted() {
    while INTERRUPTED.load(SeqCst) {
        std::thread::park();
    }
}

async fn interrupted() -> io::Result<i32> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => Ok(128 + 2),
        _ = terminate.recv() => Ok(128 + 15),
    }
}

fn clean_up() {
    let (processes, directories) = {
        let leftovers = leftovers();
        (leftovers.processes.clone(), leftovers.directories.clone())
    };
    // First ask, so that a program with children of its own ends them; the parent-death signal
    // of whatever is left follows when this process exits.
    for &pid in &processes {
        children::signal(pid, Signal::TERM);
    }
    if !processes.is_empty() {
        std::thread::sleep(GRACE);
    }
    for &pid in &processes {
        children::signal(pid, Signal::KILL);
    }
    for path in &directories {
        let _ = fs::remove_dir_all(path);
    }
}

#[derive(Default)]
struct Leftovers {
    processes: Vec<u32>,
    directories: Vec<PathBuf>,
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

static LEFTOVERS: Mutex<Leftovers> = Mutex::new(Leftovers {
    processes: Vec::new(),
    directories: Vec::new(),
});

fn leftovers() -> MutexGuard<'static, Leftovers> {
    LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

const GRACE: std::time::Duration = std::time::Duration::from_millis(500);
