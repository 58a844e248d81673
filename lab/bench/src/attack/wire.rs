//! Connections that say what an honest client never would, byte by byte.

use std::io;
use std::time::Duration;

use bytes::BufMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The beginning of a connection with HTTP/2, with settings that ask for nothing.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const FLAG_END_STREAM: u8 = 0x1;
const FLAG_END_HEADERS: u8 = 0x4;

/// Connects and says `bytes`.
pub(super) async fn connect(authority: &str, bytes: &[u8]) -> io::Result<TcpStream> {
    let mut stream = timeout(CONNECT_PATIENCE, TcpStream::connect(authority)).await??;
    stream.write_all(bytes).await?;
    Ok(stream)
}

/// Reads until the server closes the connection; false if it does not by then.
pub(super) async fn is_closed_within(stream: &mut TcpStream, patience: Duration) -> bool {
    let mut scratch = [0; 4096];
    let read_all = async { while stream.read(&mut scratch).await.is_ok_and(|count| count > 0) {} };
    timeout(patience, read_all).await.is_ok()
}

/// Whether the server has closed the connection by now.
pub(super) fn is_closed(stream: &TcpStream) -> bool {
    let mut scratch = [0; 4096];
    loop {
        match stream.try_read(&mut scratch) {
            Ok(count) if count > 0 => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            _ => return true,
        }
    }
}

/// A frame of DATA on a stream.
pub(super) fn data(stream: u32, payload: &[u8]) -> Vec<u8> {
    frame(DATA, 0, stream, payload)
}

/// The last frame of DATA on a stream.
pub(super) fn last_data(stream: u32, payload: &[u8]) -> Vec<u8> {
    frame(DATA, FLAG_END_STREAM, stream, payload)
}

/// The head of a gRPC call on a stream, in one frame.
pub(super) fn call(stream: u32, path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "attack"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    for (name, value) in fields {
        // Neither indexed nor compressed (RFC 7541, section 6.2.2).
        block.put_u8(0);
        for text in [name, value] {
            block.put_u8(text.len() as u8);
            block.put_slice(text.as_bytes());
        }
    }
    frame(HEADERS, FLAG_END_HEADERS, stream, &block)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(9 + payload.len());
    frame.put_uint(payload.len() as u64, 3);
    frame.put_u8(kind);
    frame.put_u8(flags);
    frame.put_u32(stream);
    frame.put_slice(payload);
    frame
}

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
