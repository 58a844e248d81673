//! Asking a server over its socket.

use crate::error::ProcessError;
use crate::settings::SOCKET;
use crate::users::OWN;
use bytes::BytesMut;
use quorate_resp::{Reply, encode_request};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Connects to the server of a folder, however long the path of that is.
///
/// # Errors
/// When nobody listens there.
pub async fn connect(folder: &Path) -> io::Result<UnixStream> {
    let folder = File::open(folder)?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
    UnixStream::connect(path).await
}

/// A connection on which requests are answered one after another.
#[derive(Debug)]
pub struct Control {
    stream: UnixStream,
    input: BytesMut,
}

impl Control {
    /// Connects to the server of a folder as Quorate's own user.
    pub(crate) async fn open(folder: &Path, password: &str) -> Result<Control, ProcessError> {
        let stream = connect(folder).await?;
        let input = BytesMut::new();
        let mut control = Control { stream, input };
        match control.ask(&["AUTH", OWN, password]).await? {
            Reply::Simple(_) => Ok(control),
            other => Err(not_an_answer("AUTH", &other)),
        }
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn ask(&mut self, words: &[&str]) -> Result<Reply, ProcessError> {
        let mut replies = self.ask_all(&[words]).await?;
        Ok(replies.pop().unwrap_or(Reply::Null))
    }

    /// The answers to requests that are sent at once.
    ///
    /// # Errors
    /// When one is missing after a while.
    pub async fn ask_all(&mut self, requests: &[&[&str]]) -> Result<Vec<Reply>, ProcessError> {
        let mut text = Vec::new();
        for request in requests {
            encode_request(request, &mut text);
        }
        let exchange = async {
            self.stream.write_all(&text).await?;
            let mut replies = Vec::with_capacity(requests.len());
            while replies.len() < requests.len() {
                replies.push(self.next().await?);
            }
            Ok::<_, io::Error>(replies)
        };
        let late = |_| Err(io::ErrorKind::TimedOut.into());
        let answered = timeout(ANSWER_WITHIN, exchange).await;
        Ok(answered.unwrap_or_else(late)?)
    }

    /// The text that a server tells of one of its sections.
    ///
    /// # Errors
    /// When it tells none.
    pub async fn info(&mut self, section: &str) -> Result<String, ProcessError> {
        let reply = self.ask(&["INFO", section]).await?;
        reply.text().ok_or_else(|| not_an_answer("INFO", &reply))
    }

    /// Whether the server saves its state at present.
    ///
    /// # Errors
    /// When it does not answer, or the last save failed.
    pub async fn is_saving(&mut self) -> Result<bool, ProcessError> {
        let info = self.info("persistence").await?;
        if field(&info, "rdb_bgsave_in_progress") == Some("1") {
            return Ok(true);
        }
        match field(&info, "rdb_last_bgsave_status") {
            Some("ok") => Ok(false),
            _ => Err(io::Error::other("its last save failed").into()),
        }
    }

    /// The connection itself, when no answer is under way.
    #[must_use]
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }

    async fn next(&mut self) -> io::Result<Reply> {
        loop {
            match Reply::take(&mut self.input) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) if self.input.len() < ANSWER_BYTES_MAX => {}
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// An answer that makes no sense to the question.
pub(crate) fn not_an_answer(question: &str, reply: &Reply) -> ProcessError {
    let said = match reply {
        Reply::Error(text) => text.clone(),
        _ => "something else".to_owned(),
    };
    let why = format!("it answered {question} with {said}");
    ProcessError::NotOurs { why }
}

/// The value of a name in the text of `INFO`.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = info.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let info = "# Server\r\nprocess_idx:1\r\nprocess_id:77\r\n";
        assert_eq!(field(info, "process_id"), Some("77"));
        assert_eq!(field(info, "process"), None);
    }
}
