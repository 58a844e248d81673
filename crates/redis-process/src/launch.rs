//! Starting servers, one after another, in folders of their own.

use crate::binary::ServerBinary;
use crate::error::ProcessError;
use crate::folder::{ServerFolder, remove};
use crate::process::ServerProcess;
use crate::settings::{RDB, check_files, forced, lines};
use crate::user_settings::UserSettings;
use crate::users::ServerUsers;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// How much sooner than others the kernel ends a server when memory is short, of 1,000.
const OOM_SCORE: &str = "500";
/// Connections that Quorate itself needs, beside those of clients.
const OWN_CONNECTIONS: usize = 32;
/// The settings of a server, in its folder.
const SETTINGS: &str = "server.conf";
/// The users of a server, in its folder.
const USERS: &str = "users.acl";

/// What servers are started with.
#[derive(Clone, Debug)]
pub struct LauncherOptions {
    /// The program to run.
    pub binary: ServerBinary,
    /// The folder for servers' folders. What is in it is removed.
    pub folder: PathBuf,
    /// Settings that the operator chose.
    pub settings: UserSettings,
    /// Users of clients.
    pub users: ServerUsers,
    /// Clients that may be connected at a time.
    pub clients_max: usize,
    /// Whether a server is to check every value of its file, as of a file that a stranger may have made.
    pub checks_files: bool,
}

/// The master that a server follows from its start on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replication {
    /// The port of the master, on the loopback interface.
    pub port: u16,
}

/// Starts servers in folders of their own.
pub struct Launcher {
    options: LauncherOptions,
    password: String,
    /// Servers started so far.
    started: u64,
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launcher")
            .field("binary", &self.options.binary)
            .field("folder", &self.options.folder)
            .finish_non_exhaustive()
    }
}

impl Launcher {
    /// Empties the folder for servers, and draws the password of Quorate's own user.
    ///
    /// # Errors
    /// When the folder cannot be emptied, or there are no random numbers.
    pub fn new(options: LauncherOptions) -> Result<Launcher, ProcessError> {
        if let Err(error) = remove(&options.folder) {
            let path = options.folder;
            return Err(ProcessError::Folder { path, error });
        }
        Ok(Launcher {
            password: random_password()?,
            options,
            started: 0,
        })
    }

    /// What the servers are.
    #[must_use]
    pub fn binary(&self) -> &ServerBinary {
        &self.options.binary
    }

    /// The password of Quorate's own user, `quorate`.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Starts a server with the state of a file, or with none. The kernel kills it when the thread that this is called
    /// on ends, however that comes. It serves once [`ServerProcess::ready`] says so.
    ///
    /// # Errors
    /// When its folder or its process cannot be made.
    pub fn start(
        &mut self,
        rdb: Option<&Path>,
        replication: Option<Replication>,
    ) -> Result<ServerProcess, ProcessError> {
        self.started += 1;
        let path = self.options.folder.join(self.started.to_string());
        let folder = ServerFolder::create(path)?;
        if let Some(rdb) = rdb {
            folder.adopt(rdb, RDB)?;
        }
        let binary = &self.options.binary;
        let clients_max = self.options.clients_max + OWN_CONNECTIONS;
        let mut forced = forced(binary.flavour, binary.version, folder.path(), clients_max);
        if self.options.checks_files {
            check_files(&mut forced);
        }
        folder.write(USERS, &self.options.users.file(&self.password))?;
        folder.write(SETTINGS, &self.settings(&lines(&forced), replication))?;
        let (out, errors) = (folder.log()?, folder.log()?);
        let mut command = Command::new(&binary.path);
        command
            .arg(SETTINGS)
            .current_dir(folder.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(errors)
            // Ctrl-C in a terminal reaches Quorate alone, which ends its server itself.
            .process_group(0)
            .kill_on_drop(true);
        end_with_this_thread(&mut command);
        let child = command.spawn().map_err(|error| ProcessError::Unusable {
            path: binary.path.clone(),
            why: error.to_string(),
        })?;
        if let Some(pid) = child.id() {
            prefer_for_killing(pid);
        }
        let loads = rdb.is_some();
        let password = self.password.clone();
        let version = binary.version;
        Ok(ServerProcess::new(
            child, folder, password, forced, version, loads,
        ))
    }

    /// The file of settings: the operator's first, so that they cannot undo what replication depends on.
    fn settings(&self, forced: &str, replication: Option<Replication>) -> String {
        let follows = match replication {
            Some(Replication { port }) => format!("replicaof 127.0.0.1 {port}\n"),
            None => String::new(),
        };
        format!(
            "{}{forced}aclfile {USERS}\n{follows}",
            self.options.settings.lines(),
        )
    }
}

/// A password that nobody can guess.
fn random_password() -> Result<String, ProcessError> {
    let mut bytes = [0; 32];
    getrandom(&mut bytes[..], GetRandomFlags::empty()).map_err(io::Error::from)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Has the kernel kill a process that is to be started, when the thread that starts it ends.
fn end_with_this_thread(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the kernel was asked.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    };
    prepare_with(command, prepare);
}

#[allow(
    unsafe_code,
    reason = "between fork and exec only two system calls are made, and no memory is allocated"
)]
fn prepare_with(
    command: &mut Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the closure of the only caller does nothing that another thread's locks could hold up.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Has the kernel end a server rather than Quorate, when memory is short.
fn prefer_for_killing(pid: u32) {
    let path = format!("/proc/{pid}/oom_score_adj");
    if let Err(error) = std::fs::write(path, OOM_SCORE) {
        tracing::debug!(
            pid,
            "the server is not preferred when memory is short: {error}"
        );
    }
}
