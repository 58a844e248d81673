//! What strangers send does not fill logs: a few lines of a kind, and a count of the others.

use crate::support::{Home, PATIENCE, eventually, metric};
use quorate_core::{Boot, Encoder, ReplicaId, Wire};
use quorate_host::SupportedVersions;
use quorate_server::read_meta;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;

/// How often each thing is said.
const TIMES: usize = 100;
/// Lines that a log may get meanwhile: four of a few kinds every ten seconds.
const LINES_MAX: usize = 40;

/// What is no request, or one that is refused, at a port for clients.
const NO_REQUESTS: [&[u8]; 8] = [
    b"",
    b"\0\xff\x01garbage",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /\xff HTTP/9.9\r\n\r\n",
    b"POST /cluster/protocol HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{]",
    b"POST /etcdserverpb.KV/Put HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"GET /kv/nothing HTTP/1.1\r\nHost: a\r\n\r\n",
];

fn connect(port: u16) -> TcpStream {
    let connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

/// Says it, and waits until the connection ends.
fn call(port: u16, words: &[u8]) {
    let mut connection = connect(port);
    // It may end before all is said.
    let _ = connection.write_all(words);
    let _ = connection.shutdown(Shutdown::Write);
    let _ = connection.read_to_end(&mut Vec::new());
}

fn lines(log: &PathBuf) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Scenario: strangers call the ports for clients of a replica and of a gateway, under either face.
#[tokio::test]
async fn what_is_no_request_does_not_fill_the_logs() {
    for face in ["etcd", "plain"] {
        let home = Home::new();
        let up = home.start(&["--face", face, "--gateways", "1"]);
        let port: u16 = home.port.parse().unwrap();
        let logs = ["1/log.txt", "gateway-1.log"].map(|name| home.dir.join(name));
        let before = logs.each_ref().map(|log| lines(log).len());
        for port in [port, port + 6] {
            for words in NO_REQUESTS {
                (0..TIMES).for_each(|_| call(port, words));
            }
        }
        for (log, before) in logs.iter().zip(before) {
            let added = &lines(log)[before..];
            assert!(added.len() < LINES_MAX, "{face}, {log:?}: {added:#?}");
        }
        assert!(up.stop().success());
    }
}

/// Scenario: a stranger that says it is a gateway sends frames that are none.
#[tokio::test]
async fn frames_that_are_none_do_not_fill_the_log() {
    let home = Home::new();
    let up = home.start(&[]);
    let log = home.dir.join("1/log.txt");
    let before = lines(&log).len();
    let port: u16 = home.port.parse().unwrap();
    let mut connection = connect(port + 1);
    connection.write_all(&gateway_hello(&home)).unwrap();
    let payload = [0xff; 5];
    let header = [payload.len() as u32, crc_fast::crc32_iscsi(&payload) as u32];
    let header = header.map(u32::to_le_bytes);
    let frame = [header.as_flattened(), &payload].concat();
    connection.write_all(&frame.repeat(TIMES)).unwrap();
    let name = "quorate_peer_bad_frames_total";
    let dropped = async || (metric(&up.urls[0], name).await >= TIMES as f64).then_some(());
    eventually("the frames are dropped", dropped).await;
    let lines = lines(&log);
    let added = &lines[before..];
    let told = added
        .iter()
        .filter(|line| line.contains("a frame was dropped"));
    assert!((1..=4).contains(&told.count()), "{added:#?}");
    assert!(added.len() < LINES_MAX, "{added:#?}");
}

/// How a gateway begins a connection to replica 1.
fn gateway_hello(home: &Home) -> Vec<u8> {
    let meta = read_meta(&home.dir.join("1")).unwrap();
    let mut out = Encoder::new();
    meta.cluster.encode(&mut out);
    ReplicaId(ReplicaId::GATEWAYS).encode(&mut out);
    out.u64(Boot(7).0);
    meta.group.encode(&mut out);
    let body = out.into_bytes();
    let SupportedVersions { oldest, newest } = SupportedVersions::SHIPPED;
    let crc = crc_fast::crc32_iscsi(&body);
    let words = [newest.0, oldest.0, body.len() as u32, crc].map(u32::to_le_bytes);
    [b"QUORGATE", words.as_flattened(), &body].concat()
}
