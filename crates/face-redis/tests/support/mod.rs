//! A face over a store in this process: what a replica would do, without a replica.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "a module of each test file, which uses a part of it"
)]

use bytes::{Bytes, BytesMut};
use quorate_core::{Application, At};
use quorate_face_redis::{FaceOptions, Limits, RedisApplication, Subscriptions, Users, serve};
use quorate_redis_store::Store;
use quorate_resp::{Reply, encode_request};
use quorate_server::{Budget, CLIENT_MEMORY, Door, Failure, Handle, Listener, Request, answer_any};
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than anything takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A face that serves until the test ends.
pub struct Served {
    pub address: SocketAddr,
    pub budget: Budget,
    /// Bodies that were ordered so far.
    pub ordered: Arc<AtomicUsize>,
    /// Queries that were asked so far.
    pub asked: Arc<AtomicUsize>,
    /// What is answered to everything from now on, in the place of the store.
    pub failure: Arc<Mutex<Option<Failure>>>,
}

pub fn start() -> Served {
    start_with(Limits::default(), Users::default(), CLIENT_MEMORY)
}

pub fn start_with(limits: Limits, users: Users, client_memory: usize) -> Served {
    let budget = Budget::new(client_memory);
    let port = quorate_server::bind("127.0.0.1:0").expect("a free port");
    let listener = Listener::new(port, Door::Client).expect("a listener");
    let listener = listener.budgeted(budget.clone());
    let address = listener.local_addr().expect("it is bound");
    let (handle, requests) = Handle::<RedisApplication>::new(100);
    let subscriptions = Arc::new(Subscriptions::default());
    let served = Served {
        address,
        budget,
        ordered: Arc::default(),
        asked: Arc::default(),
        failure: Arc::default(),
    };
    let store = Store::with_subscribers(subscriptions.clone());
    let store = RedisApplication::Embedded(store);
    let counts = [&served.ordered, &served.asked].map(Arc::clone);
    tokio::spawn(answer_all(store, requests, counts, served.failure.clone()));
    let options = FaceOptions {
        limits,
        users,
        subscriptions,
    };
    let never = std::future::pending();
    tokio::spawn(serve(listener, handle, options, None, never));
    served
}

/// Does what a core does, alone.
async fn answer_all(
    mut store: RedisApplication,
    mut requests: tokio::sync::mpsc::Receiver<Request>,
    [ordered, asked]: [Arc<AtomicUsize>; 2],
    failure: Arc<Mutex<Option<Failure>>>,
) {
    let mut at = At::default();
    while let Some(request) = requests.recv().await {
        let failure = *failure.lock().expect("nobody panics with it");
        match request {
            Request::Write { body, reply, .. } => {
                at.slot.0 += 1;
                at.payload.entry.seq += 1;
                at.stamp_ns += 1;
                ordered.fetch_add(1, Relaxed);
                let result = failure.map_or_else(|| Ok(store.apply(at, &body, &[])), Err);
                // Whoever asked may be gone.
                let _ = reply.send(result);
            }
            Request::Read { query, reply, .. } => {
                asked.fetch_add(1, Relaxed);
                let answer = failure.map_or_else(|| Ok(answer_any(&store, &query)), Err);
                let _ = reply.send(answer);
            }
            // Nobody answers: as a replica that shuts down.
            _ => {}
        }
    }
}

/// A connection to the face.
pub struct Client {
    pub stream: TcpStream,
    input: BytesMut,
}

impl Served {
    pub async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Client {
        Client {
            stream: TcpStream::connect(address).await.expect("it listens"),
            input: BytesMut::new(),
        }
    }

    /// Sends bytes as they are; the server may close before it has read all.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Sends requests at once, each of words with spaces between them.
    pub async fn pipeline(&mut self, requests: &[&str]) {
        let mut text = Vec::new();
        for request in requests {
            let words: Vec<&str> = request.split(' ').collect();
            encode_request(&words, &mut text);
        }
        self.send(&text).await;
    }

    /// The next reply; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<Reply> {
        loop {
            if let Some(reply) = Reply::take(&mut self.input).expect("it is a reply") {
                return Some(reply);
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.input)).await;
            match read.expect("a reply in time") {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub async fn ask(&mut self, request: &str) -> Reply {
        self.pipeline(&[request]).await;
        self.next()
            .await
            .unwrap_or_else(|| panic!("closed at {request:?}"))
    }

    /// The text of the reply to a request, or of the error.
    pub async fn say(&mut self, request: &str) -> String {
        match self.ask(request).await {
            Reply::Error(text) => text,
            Reply::Integer(number) => number.to_string(),
            Reply::Null => "(nil)".to_owned(),
            other => other.text().unwrap_or_else(|| format!("{other:?}")),
        }
    }
}

/// Waits until it holds.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("never happened: {what}"));
}

pub fn bulk(text: &'static str) -> Reply {
    Reply::Bulk(Bytes::from(text))
}
