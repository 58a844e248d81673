//! A replica of one, without a log: applies what arrives to a store, in the order of arrival.
#![allow(dead_code, reason = "every test uses a part of it")]

pub(crate) mod shelf;

use bytes::Bytes;
use quorate_core::{
    Admission, Application, At, ClusterId, Countdown, Durability, EntryId, Incarnation, PayloadId,
    Principal, ReplicaId, Slot,
};
use quorate_etcd_store::Store;
use quorate_face_etcd::{Limits, UserOptions, serve};
use quorate_server::{
    Alarm, AlarmKind, ChangeError, ClockError, Door, GroupChange, Handle, Listener, MemberInfo,
    RaisedAlarm, Request, Status, USERS_LEVEL, answer_any,
};
use shelf::Shelf;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::Instant;
use tonic::transport::Channel;

/// Serves the face of this handle on a port of its own, and connects a client.
pub(crate) async fn serve_face(handle: Handle<Store>, limits: Limits) -> Channel {
    let listener = listen();
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(serve(
        listener,
        handle,
        limits,
        None,
        std::future::pending(),
    ));
    connect(address).await
}

/// For tests that answer each request themselves: the face asks for nothing but what clients want.
pub(crate) fn userless() -> Limits {
    Limits {
        users: UserOptions {
            board: Some(Store::new().board()),
            ..UserOptions::default()
        },
        ..Limits::default()
    }
}

/// A listener for clients on a free port.
pub(crate) fn listen() -> Listener {
    let port = quorate_server::bind("127.0.0.1:0").expect("a free port");
    Listener::new(port, Door::Client).expect("a listener")
}

/// Connects a client.
pub(crate) async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("a good URL");
    endpoint.connect().await.expect("the face listens")
}

/// Sends a plain HTTP/1 request and returns status and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let (code, _, body) = get_whole(address, path).await;
    (code, body)
}

/// Sends a plain HTTP/1 request and returns status, headers and body.
pub(crate) async fn get_whole(address: SocketAddr, path: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
    let code = head[9..12].parse().expect("a status code");
    (code, head.to_owned(), body.to_owned())
}

/// Starts one, and returns the way to it.
pub(crate) fn start() -> Handle<Store> {
    start_behind().0
}

/// Starts one that keeps values of so many bytes and more apart, and returns where.
pub(crate) fn start_apart(payload_min: usize) -> (Handle<Store>, Arc<Shelf>) {
    let (handle, requests) = Handle::new(4096);
    handle.payload_threshold().set(Some(payload_min));
    let (_, jumps) = mpsc::channel(1);
    let shelf = Arc::new(Shelf::default());
    tokio::spawn(run(requests, jumps, handle.clone(), Arc::clone(&shelf)));
    (handle, shelf)
}

/// Starts one that may be given the state of a replica ahead of it, as a snapshot does.
pub(crate) fn start_behind() -> (Handle<Store>, Sender<Store>) {
    let (handle, requests) = Handle::new(4096);
    let (jump, jumps) = mpsc::channel(1);
    tokio::spawn(run(requests, jumps, handle.clone(), Arc::default()));
    (handle, jump)
}

async fn run(
    mut requests: Receiver<Request>,
    mut jumps: Receiver<Store>,
    handle: Handle<Store>,
    shelf: Arc<Shelf>,
) {
    let mut store = Store::new();
    let mut applied = 0;
    let mut raised = Vec::new();
    let mut countdowns: BTreeMap<u64, (Instant, Bytes)> = BTreeMap::new();
    loop {
        store.tidy();
        shelf.clear(&mut store);
        for countdown in store.take_countdowns() {
            match countdown {
                Countdown::Start {
                    id,
                    after_ns,
                    command,
                } => {
                    let end = Instant::now() + Duration::from_nanos(after_ns);
                    countdowns.insert(id, (end, command));
                }
                Countdown::Stop { id } => drop(countdowns.remove(&id)),
            }
        }
        let soon = Instant::now() + Duration::from_secs(3600);
        let first = countdowns.values().min().cloned();
        let (end, command) = first.unwrap_or((soon, Bytes::new()));
        let request = tokio::select! {
            request = requests.recv() => request,
            Some(ahead) = jumps.recv() => {
                store = ahead;
                applied += 1;
                handle.publish_applied(Slot(applied));
                continue;
            }
            () = tokio::time::sleep_until(end) => {
                store.apply(at(applied, Principal(0)), &command, &[]);
                applied += 1;
                handle.publish_applied(Slot(applied));
                continue;
            }
        };
        let Some(request) = request else { return };
        // Whoever asked may have stopped waiting.
        match request {
            Request::Write {
                body,
                payloads,
                principal,
                room: _,
                reply,
            } => {
                let at = At {
                    admission: admission(&raised),
                    ..at(applied, principal)
                };
                shelf.put(at.payload, &payloads);
                let _ = reply.send(Ok(store.apply(at, &body, &payloads)));
                applied += 1;
                handle.publish_applied(Slot(applied));
            }
            Request::Read { query, reply, .. } => {
                let _ = reply.send(Ok(answer_any(&store, &query)));
            }
            Request::Payload { id, payload, reply } => shelf.ask(id, &payload, reply),
            Request::Remaining { id, reply } => {
                let end = countdowns.get(&id).map(|(end, _)| *end);
                let _ = reply.send(end.map(|end| end.saturating_duration_since(Instant::now())));
            }
            Request::Change {
                change: GroupChange::Alarm { alarm, is_raised },
                reply,
            } => {
                raised
                    .retain(|known: &RaisedAlarm| (known.kind, known.id) != (alarm.kind, alarm.id));
                raised.extend(is_raised.then(|| for_all(alarm)));
                let _ = reply.send(Ok(()));
            }
            Request::Change { reply, .. } => {
                let why = "there is no group here".to_owned();
                let _ = reply.send(Err(ChangeError::Refused(why)));
            }
            Request::Look => {}
            Request::Status { reply } => {
                let raised = raised.clone();
                let _ = reply.send(Status {
                    raised,
                    ..status(applied)
                });
            }
        }
    }
}

/// An alarm that a client raised.
fn for_all(alarm: Alarm) -> RaisedAlarm {
    RaisedAlarm {
        kind: alarm.kind,
        id: alarm.id,
        hinders: true,
        is_of_group: true,
    }
}

fn admission(raised: &[RaisedAlarm]) -> Admission {
    let is_raised = |kind| raised.iter().any(|alarm| alarm.kind == kind);
    match (is_raised(AlarmKind::Corrupt), is_raised(AlarmKind::NoSpace)) {
        (true, _) => Admission::Nothing,
        (false, true) => Admission::NoGrowth,
        (false, false) => Admission::All,
    }
}

fn at(applied: u64, principal: Principal) -> At {
    At {
        admission: Admission::All,
        slot: Slot(applied),
        index: 0,
        stamp_ns: now_ns(),
        principal,
        payload: PayloadId {
            entry: EntryId {
                seq: applied,
                ..EntryId::default()
            },
            part: 0,
        },
    }
}

/// Entries are stamped with the time: tokens are as old as theirs.
#[allow(
    clippy::disallowed_methods,
    reason = "the face that is tested lives in real time"
)]
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.expect("a clock that is set").as_nanos()).expect("this century")
}

/// What the replica says of itself.
pub(crate) fn status(applied: u64) -> Status {
    Status {
        cluster: ClusterId((9 << 64) | 7),
        me: ReplicaId(2),
        members: vec![MemberInfo {
            id: ReplicaId(2),
            name: "two".to_owned(),
            peer_url: "http://127.0.0.1:2380".to_owned(),
            client_url: String::new(),
            is_learner: false,
            stays_learner: false,
            has_started: true,
        }],
        epochs: Vec::new(),
        level: USERS_LEVEL,
        behind: Vec::new(),
        wire_version: 1,
        is_open: true,
        is_settled: true,
        payloads_lacking: 0,
        recoded: Default::default(),
        recode_rate: u64::MAX,
        is_member: true,
        is_first: true,
        leads: None,
        leader: Some(ReplicaId(2)),
        term: 1,
        protocol: "none".to_owned(),
        incarnation: Incarnation(3),
        params: BTreeMap::new(),
        durability: Durability::Memory,
        serving: true,
        applied: Slot(applied),
        log_bytes: 0,
        log_segments: 0,
        snapshot_bytes: 0,
        quorum: true,
        links_up: Vec::new(),
        uptime: Duration::from_secs(1),
        clock: ClockError {
            source: "kernel",
            bound_ns: None,
            estimated_ns: None,
        },
        alarms: Vec::new(),
        peer_proof: None,
        raised: Vec::new(),
        difference: None,
        fragment_bytes: 0,
        fragment_file_bytes: 0,
        free_bytes: None,
    }
}
