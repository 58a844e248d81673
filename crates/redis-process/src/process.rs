//! A server that was started: waiting until it serves, asking it, ending it.

use crate::control::{Control, connect, field, not_an_answer};
use crate::error::ProcessError;
use crate::folder::ServerFolder;
use crate::settings::{Forced, RDB};
use crate::version::ServerVersion;
use quorate_resp::Reply;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

/// How long a server may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);
/// How long a server may load a file: so long, and longer by its length.
const LOADS_WITHIN: Duration = Duration::from_secs(60);
/// The pace that loading has to keep, in bytes a second.
const LOAD_BYTES_A_SECOND: u64 = 4 << 20;
/// The pauses between two looks at a server that starts.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(200);

/// A server process. It is killed, and its folder removed, when this is dropped.
pub struct ServerProcess {
    child: Child,
    pid: u32,
    folder: ServerFolder,
    password: String,
    forced: Vec<Forced>,
    version: ServerVersion,
    loads: bool,
}

impl fmt::Debug for ServerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerProcess")
            .field("pid", &self.pid)
            .field("folder", &self.folder.path())
            .finish_non_exhaustive()
    }
}

impl ServerProcess {
    pub(crate) fn new(
        child: Child,
        folder: ServerFolder,
        password: String,
        forced: Vec<Forced>,
        version: ServerVersion,
        loads: bool,
    ) -> ServerProcess {
        ServerProcess {
            pid: child.id().unwrap_or_default(),
            child,
            folder,
            password,
            forced,
            version,
            loads,
        }
    }

    /// The number of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The folder of the server.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file that the server writes its state to on `BGSAVE`.
    #[must_use]
    pub fn rdb(&self) -> PathBuf {
        self.folder.path().join(RDB)
    }

    /// Waits until the server has loaded its file, and makes sure that it is the one that was started, under the
    /// settings that it was given.
    ///
    /// # Errors
    /// Why it does not serve. It is to be dropped then.
    pub async fn ready(&mut self) -> Result<(), ProcessError> {
        let mut control = self.first_control().await?;
        self.check_identity(&mut control).await?;
        self.check_settings(&mut control).await?;
        if self.loads {
            self.loaded(&mut control).await?;
        }
        Ok(())
    }

    /// A new connection, in the name of the default user.
    ///
    /// # Errors
    /// When the server does not listen.
    pub async fn connect(&self) -> io::Result<UnixStream> {
        connect(self.folder.path()).await
    }

    /// A new connection in Quorate's own name.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn control(&self) -> Result<Control, ProcessError> {
        Control::open(self.folder.path(), &self.password).await
    }

    /// Waits until the process ends, and says how it did.
    pub async fn ended(&mut self) -> String {
        let status = self.child.wait().await;
        self.how(status)
    }

    /// Kills the process and waits until it is gone.
    pub async fn kill(mut self) {
        if let Err(error) = self.child.kill().await {
            tracing::warn!(pid = self.pid, "a server could not be killed: {error}");
        }
    }

    /// The first connection, once the server takes one.
    async fn first_control(&mut self) -> Result<Control, ProcessError> {
        let deadline = Instant::now() + LISTENS_WITHIN;
        let mut pause = LOOK_AGAIN;
        loop {
            self.check_lives()?;
            let late = ProcessError::Late {
                what: "it did not listen at its socket in time",
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let opened = timeout(left, Control::open(self.folder.path(), &self.password)).await;
            match opened {
                Ok(Ok(control)) => return Ok(control),
                // It does not listen yet, or has just ended, which the next look tells.
                Ok(Err(ProcessError::Socket(_))) if left > pause => sleep(pause).await,
                Ok(Err(other @ ProcessError::NotOurs { .. })) => return Err(other),
                Ok(Err(_)) | Err(_) => return Err(late),
            }
            pause = (2 * pause).min(LOOK_AGAIN_MAX);
        }
    }

    fn check_lives(&mut self) -> Result<(), ProcessError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(ProcessError::Ended {
                how: self.how(Ok(status)),
            }),
            Err(error) => Err(ProcessError::Ended {
                how: error.to_string(),
            }),
        }
    }

    fn how(&self, status: io::Result<ExitStatus>) -> String {
        let how = match status {
            Ok(status) => match status.signal() {
                Some(signal) => format!("killed by signal {signal}"),
                None => status.to_string(),
            },
            Err(error) => error.to_string(),
        };
        match self.folder.last_line() {
            Some(line) => format!("{how}; its last line was: {line}"),
            None => how,
        }
    }

    /// Whether who answers is the process that was started, in the version that it said.
    async fn check_identity(&self, control: &mut Control) -> Result<(), ProcessError> {
        let info = control.info("server").await?;
        let pid = field(&info, "process_id").unwrap_or_default();
        if pid != self.pid.to_string() {
            let why = format!(
                "process {pid} answers at the socket of process {}",
                self.pid
            );
            return Err(ProcessError::NotOurs { why });
        }
        let shown = field(&info, "valkey_version").or_else(|| field(&info, "redis_version"));
        let shown = shown.unwrap_or_default();
        if shown.parse() != Ok(self.version) {
            let version = self.version;
            let why = format!("it was {version} when it was asked, and says it is {shown} now");
            return Err(ProcessError::NotOurs { why });
        }
        Ok(())
    }

    async fn check_settings(&self, control: &mut Control) -> Result<(), ProcessError> {
        let asked: Vec<&Forced> = self.forced.iter().filter(|one| one.is_shown()).collect();
        let requests: Vec<[&str; 3]> = asked
            .iter()
            .map(|one| ["CONFIG", "GET", one.name])
            .collect();
        let requests: Vec<&[&str]> = requests.iter().map(|request| &request[..]).collect();
        let replies = control.ask_all(&requests).await?;
        for (one, reply) in asked.iter().zip(&replies) {
            let shown = match reply {
                Reply::Array(pair) => pair.get(1).and_then(Reply::text),
                Reply::Map(pairs) => pairs.first().and_then(|(_, value)| value.text()),
                other => return Err(not_an_answer("CONFIG GET", other)),
            };
            let shown = shown.unwrap_or_else(|| "nothing".to_owned());
            if !one.is(&shown) {
                let why = format!("its setting {} is {shown}", one.name);
                return Err(ProcessError::NotOurs { why });
            }
        }
        Ok(())
    }

    /// Waits until the server has loaded its file.
    async fn loaded(&mut self, control: &mut Control) -> Result<(), ProcessError> {
        let bytes = std::fs::metadata(self.rdb()).map_or(0, |found| found.len());
        let deadline =
            Instant::now() + LOADS_WITHIN + Duration::from_secs(bytes / LOAD_BYTES_A_SECOND);
        let mut pause = LOOK_AGAIN;
        while Instant::now() < deadline {
            self.check_lives()?;
            let told = control.info("persistence").await;
            match told {
                Ok(info) if field(&info, "loading") == Some("0") => return Ok(()),
                Ok(_) => {}
                Err(ProcessError::Socket(error)) if error.kind() == io::ErrorKind::TimedOut => {
                    *control = self.control().await?;
                }
                Err(error) => {
                    // A server that cannot load its file says why and ends.
                    let ended = timeout(LOOK_AGAIN_MAX, self.child.wait()).await;
                    return Err(match ended {
                        Ok(status) => ProcessError::Ended {
                            how: self.how(status),
                        },
                        Err(_) => error,
                    });
                }
            }
            sleep(pause).await;
            pause = (2 * pause).min(LOOK_AGAIN_MAX);
        }
        Err(ProcessError::Late {
            what: "it did not load its file in time",
        })
    }
}
