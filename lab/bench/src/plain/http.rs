//! The least HTTP/1.1 client: one connection, one request at a time, bodies whose length is told.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest answer that is taken.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    authority: String,
    received: Vec<u8>,
}

/// What a server said.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    /// The number in its `ETag`.
    pub(super) tag: Option<u64>,
    pub(super) body: Bytes,
}

impl Connection {
    /// Connects to `host:port`.
    pub(super) async fn open(authority: &str) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            authority: authority.to_owned(),
            received: Vec::new(),
        })
    }

    /// Asks, and waits for the answer. After an error the connection is of no use any more.
    pub(super) async fn ask(&mut self, what: &str, body: &[u8]) -> std::io::Result<HttpAnswer> {
        let head = format!(
            "{what} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
            self.authority,
            body.len()
        );
        self.stream
            .write_all(&[head.as_bytes(), body].concat())
            .await?;
        let head_end = loop {
            if let Some(at) = self
                .received
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
            {
                break at + 4;
            }
            self.receive().await?;
        };
        let head = String::from_utf8_lossy(&self.received[..head_end]).into_owned();
        let Head {
            status,
            tag,
            length,
        } = read_head(&head).ok_or_else(strange)?;
        while self.received.len() < head_end + length {
            self.receive().await?;
        }
        let rest = self.received.split_off(head_end + length);
        let answer = std::mem::replace(&mut self.received, rest);
        let body = Bytes::from(answer).slice(head_end..);
        Ok(HttpAnswer { status, tag, body })
    }

    async fn receive(&mut self) -> std::io::Result<()> {
        if self.received.len() > ANSWER_BYTES_MAX {
            return Err(strange());
        }
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// What the head of an answer says.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    tag: Option<u64>,
    /// Of the body, in bytes.
    length: usize,
}

fn read_head(head: &str) -> Option<Head> {
    let status = head.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let field = |wanted: &str| {
        let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let found = fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim().trim_matches('"').to_owned())
    };
    let tag = field("etag").and_then(|tag| tag.parse().ok());
    let length = match field("content-length") {
        Some(length) => length.parse().ok()?,
        None => 0,
    };
    Some(Head {
        status,
        tag,
        length,
    })
}

fn strange() -> std::io::Error {
    std::io::Error::other("no answer that can be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_status_tag_and_length() {
        let head = "HTTP/1.1 200 OK\r\nETag: \"77\"\r\ncontent-length: 5\r\n\r\n";
        let with_tag = Head {
            status: 200,
            tag: Some(77),
            length: 5,
        };
        assert_eq!(read_head(head), Some(with_tag));
        let empty = Head {
            status: 204,
            tag: None,
            length: 0,
        };
        assert_eq!(read_head("HTTP/1.1 204 No Content\r\n\r\n"), Some(empty));
        assert_eq!(read_head("nonsense"), None);
    }
}
