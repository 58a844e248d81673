//! Whatever calls a replica's peer port gets one clear answer or none, a line in the log says why,
//! and the replica goes on.

use crate::support::{Client, Home, PATIENCE, eventually};
use bytes::Bytes;
use quorate_core::{ClusterId, Encoder, Wire};
use quorate_host::SupportedVersions;
use quorate_server::{Meta, read_meta};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

/// The beginning of a connection as `crates/server/src/peer/opening.rs` draws it.
fn opening(newest: u32, oldest: u32, body: &[u8]) -> Vec<u8> {
    let crc = crc_fast::crc32_iscsi(body);
    let words = [newest, oldest, body.len() as u32, crc].map(u32::to_le_bytes);
    [b"QUORPEER", words.as_flattened(), body].concat()
}

/// What replica 2 would say to replica 1.
fn hello(meta: &Meta, cluster: ClusterId) -> Bytes {
    let mut out = Encoder::new();
    cluster.encode(&mut out);
    meta.epoch.members[1].id.encode(&mut out);
    meta.epoch.members[1].incarnation.encode(&mut out);
    out.u64(7); // boot
    meta.epoch.members[0].id.encode(&mut out);
    out.string(&meta.epoch.protocol);
    meta.group.encode(&mut out);
    out.varint(meta.epoch.number);
    out.u64(meta.epoch.digest());
    out.into_bytes()
}

/// Says it to a port and returns what came back.
fn call(port: u16, words: &[u8]) -> Vec<u8> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(words).unwrap();
    // A refused stranger may see a reset, and find the connection gone already.
    let _ = connection.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = connection.read_to_end(&mut answer);
    answer
}

#[tokio::test]
async fn every_wrong_caller_is_told_apart_and_disturbs_nobody() {
    let home = Home::new();
    let up = home.start(&[]);
    let dir = home.dir.join("1");
    let meta = read_meta(&dir).unwrap();
    let port = home.port.parse::<u16>().unwrap() + 1;
    let SupportedVersions { oldest, newest } = SupportedVersions::SHIPPED;
    let right = hello(&meta, meta.cluster);
    let other = ClusterId(meta.cluster.0 ^ 1);
    let mut damaged = opening(newest.0, oldest.0, &right);
    damaged.push(0);
    let last = damaged.len() - 2;
    damaged[last] ^= 1;
    let mine = format!("replica 1 speaks {}", SupportedVersions::SHIPPED);
    let not_theirs = format!(
        "{mine}, not wire versions {} to {}",
        newest.0 + 1,
        newest.0 + 2
    );
    let too_old = format!("{mine}, not wire version 0: upgrade the older one");
    let cluster = format!("it is of cluster {other}, I am of {}", meta.cluster);
    let cases: [(&[u8], &str); 5] = [
        (&opening(newest.0 + 2, newest.0 + 1, &right), &not_theirs),
        (&opening(0, 0, &right), &too_old),
        (&opening(newest.0, oldest.0, &hello(&meta, other)), &cluster),
        (
            &damaged,
            "a malformed handshake: its checksum does not match",
        ),
        (
            b"GET / HTTP/1.1\r\nhost: here\r\n\r\n",
            "not a Quorate replica",
        ),
    ];
    for (words, why) in cases {
        let answer = call(port, words);
        eventually(why, || async {
            let log = fs::read_to_string(dir.join("log.txt")).unwrap();
            let line = format!("connection to the peer port refused: {why}");
            (log.matches(&line).count() == 1).then_some(())
        })
        .await;
        let is_told = words.starts_with(b"QUORPEER") && !why.contains("malformed");
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(
            answer.contains(why),
            is_told,
            "the answer to {why}: {answer}"
        );
    }
    // One that speaks a newer version as well is welcome, in the version that both know.
    let newer = opening(
        newest.0 + 1,
        oldest.0,
        // The lane, no name, no URL, a feature level, and what nobody knows yet.
        &[&right[..], b"\0\0\0\x02and more"].concat(),
    );
    let welcome = call(port, &newer);
    assert!(welcome.starts_with(b"QUORPEER"));
    assert!(!String::from_utf8_lossy(&welcome).contains("upgrade"));
    for url in &up.urls {
        Client::connect(url).await.put("k", "v").await.unwrap();
    }
}
