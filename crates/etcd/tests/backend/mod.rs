//! A replica of one, without a log: applies what arrives to a store, in the order of arrival.

use quorate_core::{Application, At, ClusterId, ReplicaId, Slot};
use quorate_kv::Store;
use quorate_server::{Handle, MemberInfo, Request, Status};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// Starts one, and returns the way to it.
pub(crate) fn start() -> Handle<Store> {
    let (handle, requests) = Handle::new(4096, Duration::from_secs(5));
    tokio::spawn(run(requests, handle.clone()));
    handle
}

async fn run(mut requests: Receiver<Request<Store>>, handle: Handle<Store>) {
    let mut store = Store::new();
    let mut applied = 0;
    while let Some(request) = requests.recv().await {
        store.tidy();
        // Whoever asked may have stopped waiting.
        match request {
            Request::Write {
                body,
                principal,
                reply,
            } => {
                let at = At {
                    slot: Slot(applied),
                    index: 0,
                    stamp_ns: applied,
                    principal,
                };
                let _ = reply.send(Ok(store.apply(at, &body)));
                applied += 1;
                handle.publish_applied(Slot(applied));
            }
            Request::Read { query, reply, .. } => {
                let _ = reply.send(Ok(store.query(&query)));
            }
            Request::Status { reply } => {
                let _ = reply.send(status(applied));
            }
        }
    }
}

fn status(applied: u64) -> Status {
    Status {
        cluster: ClusterId((9 << 64) | 7),
        me: ReplicaId(2),
        members: vec![MemberInfo {
            id: ReplicaId(2),
            name: "two".to_owned(),
            peer_url: "http://127.0.0.1:2380".to_owned(),
            client_url: String::new(),
        }],
        protocol: "none".to_owned(),
        applied: Slot(applied),
        log_bytes: 0,
        quorum: true,
        alarms: Vec::new(),
    }
}
