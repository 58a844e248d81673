//! Load against a store in memory that speaks just enough of the protocol, honest or not.
#![allow(
    clippy::disallowed_methods,
    reason = "the store serves from a thread of its own, as a real one would"
)]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use quorate_etcd_api::etcdserverpb::{
    PutRequest, PutResponse, RangeRequest, RangeResponse, ResponseHeader,
};
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_load::load::{self, Job, LoadArgs, ReadArgs, VerifyArgs};
use quorate_load::report::Report;

#[test]
fn an_honest_store_passes_verification() {
    let report = mixed(Store::start(Vice::None));
    let verdict = report.verify.as_ref().expect("a verdict");
    assert!(!report.failed(), "{}", report.table());
    assert_eq!(report.operations, OPERATIONS);
    assert_eq!(verdict.readbacks.len(), 2);
    assert!(
        verdict
            .readbacks
            .iter()
            .all(|readback| readback.intact == verdict.keys)
    );
}

#[test]
fn an_acknowledged_write_that_is_dropped_is_found() {
    let report = mixed(Store::start(Vice::DropsOneWriteIn(50)));
    assert!(report.failed(), "{}", report.table());
    let verdict = report.verify.expect("a verdict");
    let found = |readback: &load::Readback| readback.lost + readback.stale > 0;
    assert!(
        verdict.readbacks.iter().any(found) || verdict.stale_reads > 0,
        "{verdict}"
    );
}

#[test]
fn an_acknowledged_write_that_is_altered_is_found() {
    let report = mixed(Store::start(Vice::AltersOneWriteIn(50)));
    assert!(report.failed(), "{}", report.table());
}

#[test]
fn a_refusal_is_counted_by_its_text_and_leaves_the_write_unknown() {
    let report = mixed(Store::start(Vice::RefusesOneWriteIn(50)));
    assert!(!report.failed(), "{}", report.table());
    let text = "UNAVAILABLE: etcdserver: no leader";
    let refused = report.errors.get(text).copied().unwrap_or_default();
    assert!(refused > 0, "{:?}", report.errors);
    assert_eq!(report.verify.expect("a verdict").unknown, refused);
}

#[test]
fn an_endpoint_where_nothing_listens_is_named() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    let error = load::run(&job(&url)).expect_err("nothing listens there");
    assert!(
        error.starts_with(&format!("nothing serves at {url}: ")),
        "{error}"
    );
}

const OPERATIONS: u64 = 2000;

fn mixed(url: String) -> Report {
    load::run(&job(&url)).expect("the load runs")
}

/// Eight clients on three connections overwrite and read back eighty keys.
fn job(url: &str) -> Job {
    let load = LoadArgs {
        clients: 8,
        conns: Some(3),
        total: Some(OPERATIONS),
        key_space: Some(80),
        seed: Some(1),
        ..LoadArgs::at(vec![url.to_owned()])
    };
    let (read, verify) = (ReadArgs::default(), VerifyArgs { verify: true });
    Job {
        name: "mixed",
        read_share: 0.3,
        load,
        read,
        verify,
    }
}

/// What is wrong with the store.
#[derive(Clone, Copy)]
enum Vice {
    None,
    DropsOneWriteIn(i64),
    AltersOneWriteIn(i64),
    RefusesOneWriteIn(i64),
}

struct Store {
    vice: Vice,
    revision: i64,
    keys: BTreeMap<Bytes, KeyValue>,
}

impl Store {
    /// Serves from a thread of its own until the test ends; returns where.
    fn start(vice: Vice) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let store = Arc::new(Mutex::new(Store {
            vice,
            revision: 1,
            keys: BTreeMap::new(),
        }));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(serve(listener, store));
        });
        url
    }

    fn put(&mut self, request: PutRequest) -> Option<PutResponse> {
        self.revision += 1;
        let (key, mut value) = (request.key, request.value);
        let mut kept = true;
        match self.vice {
            Vice::DropsOneWriteIn(every) if self.revision % every == 0 => kept = false,
            Vice::AltersOneWriteIn(every) if self.revision % every == 0 => {
                value = [&value[..value.len() - 1], b"!"].concat().into();
            }
            Vice::RefusesOneWriteIn(every) if self.revision % every == 0 => return None,
            _ => {}
        }
        if kept {
            let mod_revision = self.revision;
            let found = KeyValue {
                key: key.clone(),
                value,
                mod_revision,
                ..KeyValue::default()
            };
            self.keys.insert(key, found);
        }
        Some(PutResponse {
            header: self.header(),
            prev_kv: None,
        })
    }

    fn range(&self, request: &RangeRequest) -> RangeResponse {
        let end = match request.range_end.is_empty() {
            true => Bound::Included(request.key.clone()),
            false => Bound::Excluded(request.range_end.clone()),
        };
        let range = self.keys.range((Bound::Included(request.key.clone()), end));
        let mut kvs: Vec<KeyValue> = range.map(|(_, found)| found.clone()).collect();
        let (count, limit) = (kvs.len(), request.limit as usize);
        let more = limit > 0 && count > limit;
        kvs.truncate(if more { limit } else { count });
        RangeResponse {
            header: self.header(),
            kvs,
            more,
            count: count as i64,
        }
    }

    fn header(&self) -> Option<ResponseHeader> {
        Some(ResponseHeader {
            revision: self.revision,
            ..ResponseHeader::default()
        })
    }
}

async fn serve(listener: TcpListener, store: Arc<Mutex<Store>>) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    while let Ok((stream, _)) = listener.accept().await {
        let store = store.clone();
        stream.set_nodelay(true).expect("a socket");
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(stream).await.expect("a client");
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::spawn(answer(request, respond, store.clone()));
            }
        });
    }
}

async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    store: Arc<Mutex<Store>>,
) {
    let path = request.uri().path().to_owned();
    let mut body = request.into_body();
    let mut message = BytesMut::new();
    while let Some(Ok(chunk)) = body.data().await {
        message.extend_from_slice(&chunk);
    }
    let message = message.freeze().slice(5..);
    let answer = {
        let mut store = store.lock().expect("no test panicked with the store");
        match path.as_str() {
            "/etcdserverpb.KV/Put" => {
                let request = PutRequest::decode(message).expect("a put");
                store.put(request).map(|answer| answer.encode_to_vec())
            }
            "/etcdserverpb.KV/Range" => {
                let request = RangeRequest::decode(message).expect("a range");
                Some(store.range(&request).encode_to_vec())
            }
            other => panic!("unexpected call {other}"),
        }
    };
    let status = |code| http::HeaderValue::from_static(code);
    let Some(answer) = answer else {
        let mut refusal = http::Response::new(());
        refusal.headers_mut().insert("grpc-status", status("14"));
        refusal
            .headers_mut()
            .insert("grpc-message", status("etcdserver: no leader"));
        respond.send_response(refusal, true).expect("a client");
        return;
    };
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(answer.len() as u32);
    frame.put_slice(&answer);
    let mut stream = respond
        .send_response(http::Response::new(()), false)
        .expect("a client");
    stream.send_data(frame.freeze(), false).expect("a client");
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", status("0"));
    stream.send_trailers(trailers).expect("a client");
}
