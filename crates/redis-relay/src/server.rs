//! The server process of a relay, and the driver's connections with it.

use crate::limits::READ_BYTES;
use crate::peer_process::is_of;
use crate::rdb_files::RdbFiles;
use bytes::{Bytes, BytesMut};
use quorate_redis_effects::{Conn, Life, Rdb};
use quorate_redis_process::{Launcher, ProcessError, Replication, connect};
use quorate_server::LogLimit;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, spawn_local};

/// What happened to a server or on a connection with it.
#[derive(Debug)]
pub(crate) enum ServerEvent {
    Started {
        life: Life,
    },
    Died {
        life: Life,
        why: String,
    },
    Opened {
        life: Life,
        conn: Conn,
        number: u64,
    },
    Closed {
        life: Life,
        conn: Conn,
        number: u64,
    },
    Bytes {
        life: Life,
        conn: Conn,
        number: u64,
        bytes: Bytes,
    },
    Flushed {
        life: Life,
        number: u64,
        bytes: u64,
    },
}

/// How events reach the engine.
pub(crate) type Events = mpsc::Sender<ServerEvent>;

/// Starts servers and connects to them.
pub(crate) struct Servers {
    launcher: Rc<RefCell<Launcher>>,
    files: Arc<RdbFiles>,
    link_port: u16,
    events: Events,
    child: Option<Child>,
    connections: Vec<Open>,
    /// Connections begun so far.
    number: u64,
    /// Bounds what the log says of strangers.
    strangers: LogLimit,
}

/// The server that runs, or is being started or ended.
struct Child {
    life: Life,
    running: Rc<RefCell<Option<Running>>>,
    kill: Rc<Notify>,
    keeper: JoinHandle<()>,
}

/// A process that was started.
struct Running {
    pid: u32,
    /// Where its socket and its files are.
    folder: PathBuf,
}

/// A connection with the server.
struct Open {
    life: Life,
    conn: Conn,
    number: u64,
    write: mpsc::UnboundedSender<Bytes>,
    carrier: JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

impl Servers {
    pub(crate) fn new(
        launcher: Launcher,
        files: Arc<RdbFiles>,
        link_port: u16,
        events: Events,
    ) -> Servers {
        Servers {
            launcher: Rc::new(RefCell::new(launcher)),
            files,
            link_port,
            events,
            child: None,
            connections: Vec::new(),
            number: 0,
            strangers: LogLimit::default(),
        }
    }

    /// The folder of the server that runs.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let running = self.child.as_ref()?.running.borrow();
        running.as_ref().map(|running| running.folder.clone())
    }

    /// The number of the newest server.
    pub(crate) fn life(&self) -> Option<Life> {
        self.child.as_ref().map(|child| child.life)
    }

    /// Ends the server that runs, and starts one with the state of an RDB.
    pub(crate) fn start(&mut self, life: Life, rdb: Arc<dyn Rdb>) {
        self.connections.clear();
        let before = self.child.take();
        let running = Rc::new(RefCell::new(None));
        let kill = Rc::new(Notify::new());
        let keeper = Keeper {
            life,
            launcher: Rc::clone(&self.launcher),
            files: Arc::clone(&self.files),
            link_port: self.link_port,
            events: self.events.clone(),
            running: Rc::clone(&running),
            kill: Rc::clone(&kill),
        };
        let keeper = spawn_local(async move {
            if let Some(before) = before {
                before.end().await;
            }
            keeper.keep(rdb).await;
        });
        self.child = Some(Child {
            life,
            running,
            kill,
            keeper,
        });
    }

    /// Ends the server, which then is told to have died.
    pub(crate) fn kill(&mut self, life: Life) {
        if let Some(child) = self.child.as_ref().filter(|child| child.life == life) {
            child.kill.notify_one();
        }
    }

    /// Ends the server, and waits until it is gone.
    pub(crate) async fn end(&mut self) {
        self.connections.clear();
        if let Some(child) = self.child.take() {
            child.end().await;
        }
    }

    /// Takes the file that the server has written.
    pub(crate) fn collect(&self, life: Life) -> Option<Arc<dyn Rdb>> {
        let folder = self.folder().filter(|_| self.life() == Some(life))?;
        match self.files.take(&folder.join(quorate_redis_process::RDB)) {
            Ok(rdb) => Some(rdb),
            Err(error) => {
                tracing::warn!("the server's RDB cannot be used: {error}");
                None
            }
        }
    }

    /// Connects to the server's socket.
    pub(crate) fn connect(&mut self, life: Life, conn: Conn) {
        let Some(folder) = self.folder().filter(|_| self.life() == Some(life)) else {
            return;
        };
        self.open(life, conn, move |carrier| async move {
            match connect(&folder).await {
                Ok(stream) => carrier.carry(stream).await,
                Err(error) => tracing::debug!("the server's socket: {error}"),
            }
        });
    }

    /// Takes a connection that the server has begun, and nobody else's.
    pub(crate) fn linked(&mut self, stream: TcpStream) {
        match self.life().filter(|_| self.is_own(&stream)) {
            Some(life) => self.open(life, Conn::Link, move |carrier| carrier.carry(stream)),
            None => {
                if let Some(left_out) = self.strangers.admit("stranger") {
                    let from = stream.peer_addr().ok();
                    tracing::warn!(
                        ?from,
                        left_out,
                        "a connection to the port for the server was closed: the server did not begin it"
                    );
                }
            }
        }
    }

    /// Whether the server that runs has begun a connection.
    fn is_own(&self, stream: &TcpStream) -> bool {
        let Some(child) = &self.child else {
            return false;
        };
        let pid = child.running.borrow().as_ref().map(|running| running.pid);
        let addresses = stream.peer_addr().ok().zip(stream.local_addr().ok());
        pid.zip(addresses)
            .is_some_and(|(pid, (from, to))| is_of(pid, from, to).unwrap_or(false))
    }

    /// Begins a connection, in the place of the last one of its kind.
    fn open<F: Future<Output = ()> + 'static>(
        &mut self,
        life: Life,
        conn: Conn,
        begin: impl FnOnce(Carrier) -> F,
    ) {
        self.close(conn);
        self.number += 1;
        let number = self.number;
        let (write, to_write) = mpsc::unbounded_channel();
        let events = self.events.clone();
        let carrying = begin(Carrier {
            life,
            conn,
            number,
            to_write,
            events: events.clone(),
        });
        let carrier = spawn_local(async move {
            carrying.await;
            // Nobody listens any more once all is being stopped.
            let _ = events
                .send(ServerEvent::Closed { life, conn, number })
                .await;
        });
        self.connections.push(Open {
            life,
            conn,
            number,
            write,
            carrier,
        });
    }

    /// Whether an event is of a connection that is still wanted.
    pub(crate) fn is_open(&self, conn: Conn, number: u64) -> bool {
        let mut connections = self.connections.iter();
        connections.any(|open| (open.conn, open.number) == (conn, number))
    }

    /// Whether there is a connection of a kind, or one is being opened.
    pub(crate) fn has(&self, conn: Conn) -> bool {
        self.connections.iter().any(|open| open.conn == conn)
    }

    /// Closes a connection, of which nothing is told any more.
    pub(crate) fn close(&mut self, conn: Conn) {
        self.connections.retain(|open| open.conn != conn);
    }

    /// Sends bytes to the server.
    pub(crate) fn write(&self, life: Life, conn: Conn, bytes: Bytes) {
        let mut connections = self.connections.iter();
        let found = connections.find(|open| (open.life, open.conn) == (life, conn));
        if let Some(open) = found {
            // A connection that is over is told to be.
            let _ = open.write.send(bytes);
        }
    }
}

impl Child {
    async fn end(self) {
        self.kill.notify_one();
        // An error means that it has been told already.
        let _ = self.keeper.await;
    }
}

/// Looks after one server from start to end.
struct Keeper {
    life: Life,
    launcher: Rc<RefCell<Launcher>>,
    files: Arc<RdbFiles>,
    link_port: u16,
    events: Events,
    running: Rc<RefCell<Option<Running>>>,
    kill: Rc<Notify>,
}

impl Keeper {
    async fn keep(self, rdb: Arc<dyn Rdb>) {
        let life = self.life;
        let why = match self.run(rdb).await {
            Ok(why) => why,
            Err(error) => error.to_string(),
        };
        *self.running.borrow_mut() = None;
        let _ = self.events.send(ServerEvent::Died { life, why }).await;
    }

    /// Runs the server; returns how it ended.
    async fn run(&self, rdb: Arc<dyn Rdb>) -> Result<String, ProcessError> {
        let placed = self.files.placed(&*rdb)?;
        let follows = Replication {
            port: self.link_port,
        };
        let mut process = self
            .launcher
            .borrow_mut()
            .start(Some(&placed.path), Some(follows))?;
        drop(placed);
        *self.running.borrow_mut() = Some(Running {
            pid: process.pid(),
            folder: process.folder().to_owned(),
        });
        let is_killed = tokio::select! {
            () = self.kill.notified() => true,
            ready = process.ready() => {
                ready?;
                false
            }
        };
        if !is_killed {
            tracing::info!(pid = process.pid(), "the server takes connections");
            let _ = self
                .events
                .send(ServerEvent::Started { life: self.life })
                .await;
            tokio::select! {
                () = self.kill.notified() => {}
                why = process.ended() => return Ok(why),
            }
        }
        process.kill().await;
        Ok("it was killed".to_owned())
    }
}

/// Carries bytes between the engine and a connection.
struct Carrier {
    life: Life,
    conn: Conn,
    number: u64,
    to_write: mpsc::UnboundedReceiver<Bytes>,
    events: Events,
}

impl Carrier {
    async fn carry(self, stream: impl AsyncRead + AsyncWrite) {
        let Carrier {
            life,
            conn,
            number,
            mut to_write,
            events,
        } = self;
        let (mut from, mut to) = tokio::io::split(stream);
        let opened = ServerEvent::Opened { life, conn, number };
        if events.send(opened).await.is_err() {
            return;
        }
        let reading = async {
            let mut buffer = BytesMut::new();
            loop {
                buffer.reserve(READ_BYTES);
                match from.read_buf(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                let bytes = buffer.split().freeze();
                let read = ServerEvent::Bytes {
                    life,
                    conn,
                    number,
                    bytes,
                };
                if events.send(read).await.is_err() {
                    return;
                }
            }
        };
        let writing = async {
            while let Some(bytes) = to_write.recv().await {
                if to.write_all(&bytes).await.is_err() {
                    return;
                }
                let bytes = bytes.len() as u64;
                let flushed = ServerEvent::Flushed {
                    life,
                    number,
                    bytes,
                };
                if conn == Conn::Link && events.send(flushed).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = reading => {}
            () = writing => {}
        }
    }
}
