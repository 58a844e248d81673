//! A client of Redis for tests: one connection, whose replies are waited for.

use bytes::BytesMut;
use quorate_resp::{Reply, encode_request};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use super::PATIENCE;

/// A connection to the Redis face.
pub struct Client {
    stream: TcpStream,
    input: BytesMut,
}

impl Client {
    /// Connects to `redis://host:port`.
    pub fn connect(url: &str) -> Client {
        Client::try_connect(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    pub fn try_connect(url: &str) -> std::io::Result<Client> {
        let stream = TcpStream::connect(url.strip_prefix("redis://").unwrap_or(url))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream,
            input: BytesMut::new(),
        })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends requests at once, each of words with spaces between them.
    pub fn pipeline(&mut self, requests: &[&str]) {
        let mut text = Vec::new();
        for request in requests {
            let words: Vec<&str> = request.split(' ').collect();
            encode_request(&words, &mut text);
        }
        self.send(&text);
    }

    /// The next reply; `None` at the end of the connection.
    pub fn next(&mut self) -> Option<Reply> {
        loop {
            if let Some(reply) = Reply::take(&mut self.input).expect("it is a reply") {
                return Some(reply);
            }
            let mut space = [0; 4096];
            match self.stream.read(&mut space) {
                Ok(0) => return None,
                Ok(read) => self.input.extend_from_slice(&space[..read]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                // A child of another test has ended.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// The reply to a request.
    pub fn try_ask(&mut self, request: &str) -> Option<Reply> {
        self.pipeline(&[request]);
        self.next()
    }

    /// The reply to a request, which there must be.
    pub fn ask(&mut self, request: &str) -> Reply {
        self.try_ask(request)
            .unwrap_or_else(|| panic!("closed at {request:?}"))
    }

    /// The text of the reply to a request, or of the error.
    pub fn say(&mut self, request: &str) -> String {
        match self.ask(request) {
            Reply::Error(text) => text,
            Reply::Integer(number) => number.to_string(),
            Reply::Null => "(nil)".to_owned(),
            other => other.text().unwrap_or_else(|| format!("{other:?}")),
        }
    }
}
