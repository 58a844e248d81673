//! A client of HTTP/1.1 that shows what it gets, and one for WebSockets.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What an answer has in front of its body.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
}

/// A connection to a server.
pub(crate) struct Http {
    stream: BufReader<TcpStream>,
}

/// No answer of these tests takes so long.
const PATIENCE: Duration = Duration::from_secs(20);

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| panic!("{what} does not come"))
}

impl Http {
    pub(crate) async fn connect(address: SocketAddr) -> Http {
        let stream = TcpStream::connect(address).await.expect("a connection");
        Http {
            stream: BufReader::new(stream),
        }
    }

    /// Sends a request with its body, or the beginning of one that has no length.
    pub(crate) async fn send(&mut self, line: &str, headers: &[(&str, &str)], body: Option<&str>) {
        let mut text = format!("{line} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            text.push_str("host: quorate\r\n");
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        match body {
            Some(body) => text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len())),
            None => text.push_str("transfer-encoding: chunked\r\n\r\n"),
        }
        self.write(text.as_bytes()).await;
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        let written = self.stream.get_mut().write_all(bytes).await;
        written.expect("the server takes it");
    }

    /// Sends a part of a body that has no length; the empty one is the last.
    pub(crate) async fn chunk(&mut self, part: &str) {
        let chunk = format!("{:x}\r\n{part}\r\n", part.len());
        self.write(chunk.as_bytes()).await;
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line);
        in_time("a line", read).await.expect("a line");
        line.trim_end().to_owned()
    }

    /// The head of the next answer.
    pub(crate) async fn head(&mut self) -> Head {
        let line = self.line().await;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(':') else {
                let status = status.unwrap_or_else(|| panic!("no status: {line:?}"));
                return Head { status, headers };
            };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
    }

    /// Takes this many bytes, which come next.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let read = self.stream.read_exact(&mut bytes);
        in_time("more", read).await.expect("more");
        bytes
    }

    /// The next part of a body that has no length; `None` at its end.
    pub(crate) async fn part(&mut self) -> Option<String> {
        let length = usize::from_str_radix(&self.line().await, 16).expect("a length");
        let part = self.take(length).await;
        self.line().await;
        (length > 0).then(|| String::from_utf8(part).expect("text"))
    }

    /// The next answer, whole.
    pub(crate) async fn answer(&mut self) -> (Head, String) {
        let head = self.head().await;
        let length = head.headers.get("content-length");
        let body = match length {
            Some(length) => {
                let body = self.take(length.parse().expect("a number")).await;
                String::from_utf8(body).expect("text")
            }
            None => {
                let mut body = String::new();
                while let Some(part) = self.part().await {
                    body.push_str(&part);
                }
                body
            }
        };
        (head, body)
    }

    /// Sends a request, and gets the status and the body of its answer.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> (u16, String) {
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        self.send(&format!("POST {path}"), &kind, Some(body)).await;
        let (head, body) = self.answer().await;
        (head.status, body)
    }

    /// Whether the server has closed the connection.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        let read = in_time("the end", self.stream.read(&mut byte)).await;
        read.is_err() || read.is_ok_and(|count| count == 0)
    }

    /// Opens a WebSocket on this connection.
    pub(crate) async fn upgrade(mut self, path: &str, headers: &[(&str, &str)]) -> (Head, Http) {
        let asked = [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let all = [&asked, headers].concat();
        self.send(&format!("GET {path}"), &all, Some("")).await;
        (self.head().await, self)
    }

    /// Sends a frame over a WebSocket.
    pub(crate) async fn frame(&mut self, opcode: u8, content: &[u8]) {
        let length = u8::try_from(content.len()).expect("a short frame");
        assert!(length < 126, "a short frame");
        let mask = [9, 8, 7, 6];
        let mut frame = vec![0x80 | opcode, 0x80 | length];
        frame.extend(mask);
        let masks = mask.iter().cycle();
        frame.extend(content.iter().zip(masks).map(|(byte, mask)| byte ^ mask));
        self.write(&frame).await;
    }

    /// The next frame over a WebSocket.
    pub(crate) async fn next_frame(&mut self) -> (u8, String) {
        let head = self.take(2).await;
        let length = match head[1] {
            126 => {
                let length = self.take(2).await;
                usize::from(u16::from_be_bytes([length[0], length[1]]))
            }
            short => usize::from(short),
        };
        let content = self.take(length).await;
        let content = String::from_utf8_lossy(&content).into_owned();
        (head[0] & 0x0f, content)
    }
}
