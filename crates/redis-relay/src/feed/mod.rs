//! The real side of command mode: a server that is fed with the bodies of the log, on a thread of its own.
//!
//! The face asks for replies to its own bodies and to reads ([`FeedHandle`]); `run` looks after the server: it is
//! started from the newest RDB, given what was taken since, saved now and then, and replaced when anything is in doubt.

mod handle;
mod run;
mod serve;
mod status;
mod waiting;

pub use handle::{Awaited, FeedHandle, NoReply};
pub use status::FeedStatus;

use crate::own_thread::OwnThread;
use crate::rdb_files::RdbFiles;
use handle::Request;
use quorate_redis_commands::Shared;
use quorate_redis_effects::Files;
use quorate_redis_process::{
    Launcher, LauncherOptions, ProcessError, ServerBinary, ServerUsers, UserSettings,
};
use run::Feeding;
use status::FeedBoard;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, oneshot};
use waiting::{WaitLimits, Waiting};

/// Connections that a fed server takes beside Quorate's own: none of clients.
const CLIENTS_MAX: usize = 0;

/// What fed servers are to be.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// A number that no other process of any replica has or had.
    pub boot: u64,
    /// The program that is run as server.
    pub binary: ServerBinary,
    /// Settings that the operator chose.
    pub settings: UserSettings,
    /// Bytes that requests and replies of clients may take, by which what waits for the server is bounded.
    pub client_memory: usize,
}

/// What a feed needs before its replica runs: the application shares it.
pub struct PreparedFeed {
    /// What the application and the feed have in common.
    pub shared: Arc<Shared>,
    changed: Arc<Notify>,
    launcher: Launcher,
    files: Arc<RdbFiles>,
    boot: u64,
    limits: WaitLimits,
}

impl fmt::Debug for PreparedFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedFeed")
            .field("launcher", &self.launcher)
            .finish_non_exhaustive()
    }
}

/// Prepares a feed whose servers have their folders in this one.
///
/// # Errors
/// When the folder cannot be had.
pub fn prepare_feed(options: FeedOptions, folder: &Path) -> Result<PreparedFeed, ProcessError> {
    let in_folder = |error| ProcessError::Folder {
        path: folder.to_owned(),
        error,
    };
    let launcher = Launcher::new(LauncherOptions {
        folder: folder.join("servers"),
        settings: options.settings,
        users: ServerUsers::default(),
        clients_max: CLIENTS_MAX,
        binary: options.binary,
        checks_files: false,
    })?;
    let files = RdbFiles::open(&folder.join("rdb")).map_err(in_folder)?;
    let changed = Arc::new(Notify::new());
    let wake = {
        let changed = Arc::clone(&changed);
        Box::new(move || changed.notify_one())
    };
    Ok(PreparedFeed {
        shared: Shared::new(Arc::clone(&files) as Arc<dyn Files>, wake),
        changed,
        launcher,
        files,
        boot: options.boot,
        limits: WaitLimits::of(options.client_memory),
    })
}

impl FeedOptions {
    /// The first setting that was chosen and that servers which each carry out all commands cannot have: each of them
    /// would drop keys of its own choice, or have other databases.
    #[must_use]
    pub fn unfit_setting(&self) -> Option<&str> {
        self.settings.first_of(&["maxmemory*", "databases"])
    }
}

impl PreparedFeed {
    /// The server's family and version, and its program, for people.
    #[must_use]
    pub fn server(&self) -> String {
        self.launcher.binary().to_string()
    }
}

/// A feed that runs. It ends, and its server with it, when this is dropped.
#[derive(Debug)]
pub struct Feed {
    // Ends before its handle goes.
    thread: OwnThread,
    handle: FeedHandle,
    gave_up: oneshot::Receiver<String>,
}

impl Feed {
    /// Starts a feed.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn start(prepared: PreparedFeed) -> io::Result<Feed> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (to_feed, requests) = mpsc::unbounded_channel::<Request>();
        let board = Arc::new(FeedBoard::default());
        let waiting = Waiting::new(prepared.limits);
        let seen = (Arc::clone(&prepared.shared), Arc::clone(&board));
        let handle = FeedHandle::new(prepared.boot, to_feed, seen, waiting);
        let feeding = Feeding::new(prepared, handle.waiters(), requests, board);
        let (give_up, gave_up) = oneshot::channel();
        // The kernel ends servers with the thread that started them.
        let thread = OwnThread::start("feeds the server of Redis", move |stopping| {
            if let Err(why) = runtime.block_on(feeding.run(stopping)) {
                // Whoever looks after the feed may be gone.
                let _ = give_up.send(why);
            }
        })?;
        Ok(Feed {
            thread,
            handle,
            gave_up,
        })
    }

    /// What faces ask.
    #[must_use]
    pub fn handle(&self) -> FeedHandle {
        self.handle.clone()
    }

    /// Waits until the feed gives up, for the servers fail and too much waits for them; says why.
    pub async fn gave_up(&mut self) -> String {
        match (&mut self.gave_up).await {
            Ok(why) => why,
            // A feed that was stopped does not give up any more.
            Err(_) => std::future::pending().await,
        }
    }

    /// Stops the feed, and waits until its server is gone.
    pub fn stop(self) {
        drop(self.thread);
    }
}
