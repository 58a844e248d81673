//! A relay from its start to its end, on a thread of its own.

use crate::board::{Board, OperatorRequest};
use crate::client::Clients;
use crate::engine::{Engine, EngineState, Happening, server_events};
use crate::hub::Hub;
use crate::limits::RelayLimits;
use crate::listen::{accept_clients, accept_links, accept_tunnels};
use crate::orders::Orders;
use crate::own_thread::OwnThread;
use crate::rdb_files::RdbFiles;
use crate::server::Servers;
use quorate_core::ReplicaId;
use quorate_redis_effects::{Config, Driver, Files, Flavour, ServerVersion, Shared};
use quorate_redis_process::{
    Launcher, LauncherOptions, ProcessError, ServerBinary, ServerUsers, UserSettings,
};
use quorate_server::{Listener, Tunnels};
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::timeout;

/// What servers and clients of a relay are to be.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// The replica of the relay.
    pub me: ReplicaId,
    /// A number that no other process of this replica has or had.
    pub boot: u64,
    /// The program that is run as server.
    pub binary: ServerBinary,
    /// Settings that the operator chose.
    pub settings: UserSettings,
    /// Users of clients.
    pub users: ServerUsers,
    /// What clients may do.
    pub limits: RelayLimits,
}

/// What a relay needs before its replica runs: the application shares it.
pub struct Prepared {
    /// What the application and the driver have in common.
    pub shared: Arc<Shared>,
    changed: Arc<Notify>,
    launcher: Launcher,
    files: Arc<RdbFiles>,
    link: std::net::TcpListener,
    config: Config,
    limits: RelayLimits,
    users_mark: u16,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("launcher", &self.launcher)
            .finish_non_exhaustive()
    }
}

/// Prepares a relay whose servers have their folders in this one.
///
/// # Errors
/// When the folder, or a port on the loopback interface, cannot be had.
pub fn prepare(options: RelayOptions, folder: &Path) -> Result<Prepared, ProcessError> {
    let in_folder = |error| ProcessError::Folder {
        path: folder.to_owned(),
        error,
    };
    let users_mark = options.users.mark();
    let launcher = Launcher::new(LauncherOptions {
        folder: folder.join("servers"),
        settings: options.settings,
        users: options.users,
        // Those that come through tunnels may be as many.
        clients_max: 2 * options.limits.connections_max,
        binary: options.binary,
        checks_files: false,
    })?;
    let files = RdbFiles::open(&folder.join("rdb")).map_err(in_folder)?;
    let link = std::net::TcpListener::bind("127.0.0.1:0")?;
    let changed = Arc::new(Notify::new());
    let wake = {
        let changed = Arc::clone(&changed);
        Box::new(move || changed.notify_one())
    };
    let shared = Shared::new(Arc::clone(&files) as Arc<dyn Files>, wake);
    let mut config = Config::new(options.me, options.boot, version(launcher.binary()));
    launcher.password().clone_into(&mut config.password);
    config.link_port = link.local_addr()?.port();
    Ok(Prepared {
        shared,
        changed,
        launcher,
        files,
        link,
        config,
        limits: options.limits,
        users_mark,
    })
}

impl Prepared {
    /// The server's family and version, and its program, for people.
    #[must_use]
    pub fn server(&self) -> String {
        self.launcher.binary().to_string()
    }

    /// A mark that is equal where users of clients are.
    #[must_use]
    pub fn users_mark(&self) -> u16 {
        self.users_mark
    }
}

fn version(binary: &ServerBinary) -> ServerVersion {
    let quorate_redis_process::ServerVersion {
        major,
        minor,
        patch,
    } = binary.version;
    ServerVersion {
        flavour: match binary.flavour {
            quorate_redis_process::Flavour::Redis => Flavour::Redis,
            quorate_redis_process::Flavour::Valkey => Flavour::Valkey,
        },
        number: (major, minor, patch),
    }
}

/// A relay that runs. It ends, and its server with it, when this is dropped.
#[derive(Debug)]
pub struct Relay {
    // Ends before its board goes.
    thread: OwnThread,
    board: Arc<Board>,
}

impl Relay {
    /// Starts a relay for clients at a port. `admin` is the address for operators.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn start(
        prepared: Prepared,
        orders: Box<dyn Orders>,
        clients: Listener,
        tunnels: Option<Tunnels>,
        admin: Option<String>,
    ) -> io::Result<Relay> {
        prepared.link.set_nonblocking(true)?;
        let (board, requests) = Board::new(prepared.config.me);
        let board = Arc::new(board);
        let inside = Inside {
            prepared,
            orders,
            clients,
            tunnels,
            admin,
            board: Arc::clone(&board),
            requests,
        };
        let thread = OwnThread::start("relays clients of Redis", move |stopping| {
            if let Err(error) = inside.run_here(stopping) {
                tracing::error!("clients of Redis are not served: {error}");
            }
        })?;
        Ok(Relay { board, thread })
    }

    /// The relay as operators see it.
    #[must_use]
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    /// Stops the relay, and waits until its server is gone.
    pub fn stop(self) {
        drop(self.thread);
    }
}

/// What the thread of a relay has.
struct Inside {
    prepared: Prepared,
    orders: Box<dyn Orders>,
    clients: Listener,
    tunnels: Option<Tunnels>,
    admin: Option<String>,
    board: Arc<Board>,
    requests: mpsc::Receiver<OperatorRequest>,
}

impl Inside {
    /// Runs on this thread until it is told to stop. The engine is a task like others: what wakes the future that a
    /// runtime was given, or a `LocalSet`, costs a system call and a look at all sockets each time.
    fn run_here(self, stopping: oneshot::Receiver<()>) -> io::Result<()> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())?;
        let running = runtime.spawn_local(self.run(stopping));
        runtime.block_on(running).map_err(io::Error::other)?
    }

    async fn run(self, stopping: oneshot::Receiver<()>) -> io::Result<()> {
        let Prepared {
            shared,
            changed,
            launcher,
            files,
            link,
            config,
            limits,
            users_mark: _,
        } = self.prepared;
        let (to_engine, happenings) = mpsc::unbounded_channel();
        let (events_in, events) = server_events();
        let hub = Hub::new();
        let (arrived, dialer) = match self.tunnels {
            Some(tunnels) => (Some(tunnels.arrived), Some(tunnels.dialer)),
            None => (None, None),
        };
        let clients = Clients {
            hub: Rc::clone(&hub),
            limits,
            dialer: dialer.clone(),
            budget: self.clients.budget(),
            admin: self.admin,
        };
        spawn_local(accept_links(
            TcpListener::from_std(link)?,
            to_engine.clone(),
        ));
        if let Some(arrived) = arrived {
            spawn_local(accept_tunnels(arrived, clients.clone(), to_engine.clone()));
        }
        let accepting = spawn_local(accept_clients(self.clients, clients));
        spawn_local(pass_requests(self.requests, to_engine.clone()));
        let engine = Engine {
            me: config.me,
            servers: Servers::new(launcher, files, config.link_port, events_in),
            driver: Driver::new(config, shared),
            hub: Rc::clone(&hub),
            orders: self.orders,
            dialer,
            board: self.board,
            shared: changed,
            happenings: to_engine.clone(),
            state: EngineState::new(),
        };
        spawn_local(async move {
            // An error means that nobody is left to say so.
            let _ = stopping.await;
            accepting.abort();
            // Answers that are under way have a moment.
            let quiet = async {
                while hub.waiting() > 0 {
                    tokio::time::sleep(limits.drain / 20).await;
                }
            };
            let _ = timeout(limits.drain, quiet).await;
            let _ = to_engine.send(Happening::Stop);
        });
        engine.run(events, happenings).await;
        Ok(())
    }
}

/// Passes on what operators ask for.
async fn pass_requests(
    mut requests: mpsc::Receiver<OperatorRequest>,
    happenings: mpsc::UnboundedSender<Happening>,
) {
    while let Some(request) = requests.recv().await {
        // Nobody listens any more once all is being stopped.
        let _ = happenings.send(match request {
            OperatorRequest::Move(target) => Happening::Move(target),
            OperatorRequest::Claim(epoch) => Happening::Claim(epoch),
            OperatorRequest::Rdb(reply) => Happening::RdbWanted(reply),
        });
    }
}
