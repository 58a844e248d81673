//! The connections of this replica, as `CLIENT LIST` shows them.

use bytes::Bytes;
use quorate_resp::Resp;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// What the client of a connection has said of itself and done last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spoken {
    pub(crate) name: Bytes,
    /// The name of the client's library.
    pub(crate) library: Bytes,
    /// The version of the client's library.
    pub(crate) version: Bytes,
    pub(crate) user: Bytes,
    pub(crate) resp: Resp,
    pub(crate) db: u32,
    /// Calls that wait for `EXEC`, after `MULTI`.
    pub(crate) queued: Option<usize>,
    /// How many channels and how many patterns it subscribes to.
    pub(crate) subscriptions: [usize; 2],
    /// Whether it waits for an element.
    pub(crate) is_blocked: bool,
    /// The last command.
    pub(crate) command: Option<&'static str>,
}

/// All connections that are open.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: Mutex<BTreeMap<u64, Arc<Client>>>,
    next: AtomicU64,
    /// A connection ended.
    left: Notify,
}

/// One connection, as others see it.
#[derive(Debug)]
pub(crate) struct Client {
    /// The number of the connection, which no other connection of this replica gets.
    pub(crate) id: u64,
    /// The address of the client.
    pub(crate) from: SocketAddr,
    /// The address that the client reached.
    pub(crate) to: Option<SocketAddr>,
    began: Instant,
    shown: Mutex<Shown>,
    is_to_close: AtomicBool,
    ordered: Notify,
    /// How somebody else ended its waiting, which it has yet to see.
    unblocked: Mutex<Option<Unblocked>>,
    called: Notify,
}

/// How `CLIENT UNBLOCK` ends the waiting of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unblocked {
    /// The client is told what it would be told when its time is over.
    TimedOut,
    /// The client is told an error.
    Error,
}

/// What a connection tells of itself.
#[derive(Clone, Debug)]
struct Shown {
    active: Instant,
    spoken: Spoken,
}

impl Clients {
    /// Adds a connection, unless so many are open already.
    pub(crate) fn admit(
        self: &Arc<Self>,
        from: SocketAddr,
        to: Option<SocketAddr>,
        most: usize,
    ) -> Option<Place> {
        let mut open = self.lock();
        if open.len() >= most {
            return None;
        }
        let now = Instant::now();
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Relaxed) + 1,
            from,
            to,
            began: now,
            shown: Mutex::new(Shown {
                active: now,
                spoken: Spoken::default(),
            }),
            is_to_close: AtomicBool::new(false),
            ordered: Notify::new(),
            unblocked: Mutex::default(),
            called: Notify::new(),
        });
        open.insert(client.id, Arc::clone(&client));
        Some(Place {
            client,
            clients: Arc::clone(self),
        })
    }

    /// How many connections are open.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// All connections by number.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    /// Has all connections end.
    pub(crate) fn close_all(&self) {
        self.all().iter().for_each(|client| client.close());
    }

    /// Waits until no connection is left.
    pub(crate) async fn all_left(&self) {
        while self.count() > 0 {
            self.left.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection among all; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    /// The connection that has the place.
    pub(crate) client: Arc<Client>,
    clients: Arc<Clients>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.client.id);
        self.clients.left.notify_one();
    }
}

impl Client {
    /// Has the connection end, whatever it is doing.
    pub(crate) fn close(&self) {
        self.is_to_close.store(true, Relaxed);
        self.ordered.notify_one();
    }

    /// Whether the connection is to end.
    pub(crate) fn is_to_close(&self) -> bool {
        self.is_to_close.load(Relaxed)
    }

    /// Waits until the connection is to end.
    pub(crate) async fn ordered_to_close(&self) {
        while !self.is_to_close() {
            self.ordered.notified().await;
        }
    }

    /// Ends the waiting of the connection. Whether it waits.
    pub(crate) fn unblock(&self, how: Unblocked) -> bool {
        if !self.shown().spoken.is_blocked {
            return false;
        }
        *self.unblocked() = Some(how);
        self.called.notify_one();
        true
    }

    /// Waits until somebody ends the waiting of the connection, and says how.
    pub(crate) async fn ordered_on(&self) -> Unblocked {
        loop {
            if let Some(how) = self.unblocked().take() {
                return how;
            }
            self.called.notified().await;
        }
    }

    /// Begins to wait: what ended an earlier wait says nothing about this one.
    pub(crate) fn begin_waiting(&self) {
        *self.unblocked() = None;
    }

    fn unblocked(&self) -> MutexGuard<'_, Option<Unblocked>> {
        self.unblocked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the connection did just now.
    pub(crate) fn show(&self, spoken: Spoken) {
        *self.shown() = Shown {
            active: Instant::now(),
            spoken,
        };
    }

    /// The user in whose name the connection asks.
    pub(crate) fn user(&self) -> Bytes {
        self.shown().spoken.user.clone()
    }

    /// Whether the connection takes messages of channels.
    pub(crate) fn is_subscriber(&self) -> bool {
        self.shown().spoken.subscriptions.iter().sum::<usize>() > 0
    }

    /// The line of `CLIENT LIST` about the connection.
    pub(crate) fn line(&self) -> String {
        let shown = self.shown();
        let spoken = &shown.spoken;
        let to = self.to.map_or_else(|| "?".to_owned(), |to| to.to_string());
        let [channels, patterns] = spoken.subscriptions;
        let kinds = [
            (channels + patterns > 0, 'P'),
            (spoken.queued.is_some(), 'x'),
            (spoken.is_blocked, 'b'),
        ];
        let flags: String = kinds
            .iter()
            .filter(|kind| kind.0)
            .map(|kind| kind.1)
            .collect();
        let flags = if flags.is_empty() { "N" } else { &flags };
        let queued = spoken.queued.map_or(-1, |queued| queued as i64);
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let mut line = format!(
            "id={} addr={} laddr={to} fd=-1 name={} age={} idle={} flags={flags} db={} sub={channels} \
             psub={patterns} multi={queued} qbuf=0 qbuf-free=0 events=r cmd={} user={} redir=-1 resp={}",
            self.id,
            self.from,
            text(&spoken.name),
            self.began.elapsed().as_secs(),
            shown.active.elapsed().as_secs(),
            spoken.db,
            spoken.command.unwrap_or("NULL"),
            text(&spoken.user),
            spoken.resp.number()
        );
        for (name, value) in [("lib-name", &spoken.library), ("lib-ver", &spoken.version)] {
            if !value.is_empty() {
                let _ = write!(line, " {name}={}", text(value));
            }
        }
        line
    }
}
