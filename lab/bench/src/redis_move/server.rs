//! A server on its own, and connections to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quorate_resp::{Reply, encode_request};
use quorate_tooling::launch::{Launch, Running, StandardOutput, last_lines};
use quorate_tooling::ports::free_ports;

/// A Redis or Valkey that nobody replicates.
pub(super) struct Server {
    port: u16,
    patience: Duration,
    /// Killed when this is dropped.
    _running: Running,
}

impl Server {
    /// Starts an empty one in a new folder.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        patience: Duration,
    ) -> Result<Server, String> {
        std::fs::create_dir(folder).map_err(|error| error.to_string())?;
        Server::start_in(program, folder, patience)
    }

    /// Starts one with what an RDB holds.
    pub(super) fn load(
        program: &Path,
        folder: &Path,
        rdb: &Path,
        patience: Duration,
    ) -> Result<Server, String> {
        std::fs::create_dir(folder).map_err(|error| error.to_string())?;
        std::fs::rename(rdb, folder.join("dump.rdb")).map_err(|error| error.to_string())?;
        Server::start_in(program, folder, patience)
    }

    fn start_in(program: &Path, folder: &Path, patience: Duration) -> Result<Server, String> {
        let port = free_ports(1)?;
        let arguments = [
            ("--port", port.to_string()),
            ("--bind", "127.0.0.1".to_owned()),
            ("--dir", folder.display().to_string()),
            ("--save", String::new()),
            ("--repl-diskless-sync-delay", "0".to_owned()),
            ("--enable-debug-command", "yes".to_owned()),
        ];
        let arguments = arguments.into_iter();
        let log = folder.with_extension("log");
        let launch = Launch {
            output: StandardOutput::Logged,
            ..Launch::new(
                program,
                arguments
                    .flat_map(|(name, value)| [name.to_owned(), value])
                    .collect(),
                log.clone(),
            )
        };
        let mut running = launch.start()?;
        let began = Instant::now();
        loop {
            let asked = Connection::open(port, PING_PATIENCE)
                .and_then(|mut connection| connection.ask(&["DBSIZE"]));
            if let Ok(Reply::Integer(_)) = asked {
                break;
            }
            if let Some(how) = running.ended() {
                let words = last_lines(&log, 3);
                return Err(format!("the server ended with {how}: {words}"));
            }
            if began.elapsed() > patience {
                return Err("the server does not serve in time".to_owned());
            }
            std::thread::sleep(POLL);
        }
        Ok(Server {
            port,
            patience,
            _running: running,
        })
    }

    /// The server's `host:port`.
    pub(super) fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A new connection.
    pub(super) fn connect(&self) -> Result<Connection, String> {
        Connection::open(self.port, self.patience)
    }
}

/// A connection whose requests are answered in order.
pub(super) struct Connection {
    stream: TcpStream,
    input: BytesMut,
}

impl Connection {
    fn open(port: u16, patience: Duration) -> Result<Connection, String> {
        let failed = |error: std::io::Error| error.to_string();
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
        stream.set_read_timeout(Some(patience)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Connection {
            stream,
            input: BytesMut::new(),
        })
    }

    /// The socket, to shut it down from elsewhere.
    pub(super) fn socket(&self) -> Result<TcpStream, String> {
        self.stream.try_clone().map_err(|error| error.to_string())
    }

    /// The reply to one request.
    pub(super) fn ask(&mut self, words: &[&str]) -> Result<Reply, String> {
        let mut text = Vec::new();
        encode_request(words, &mut text);
        let mut replies = self.ask_all(&text, 1)?;
        Ok(replies.pop().unwrap_or(Reply::Null))
    }

    /// The replies to so many requests that are sent at once.
    pub(super) fn ask_all(&mut self, text: &[u8], count: usize) -> Result<Vec<Reply>, String> {
        let failed = |error: std::io::Error| error.to_string();
        self.stream.write_all(text).map_err(failed)?;
        let (mut replies, mut space) = (Vec::with_capacity(count), vec![0; 64 << 10]);
        while replies.len() < count {
            match Reply::take(&mut self.input) {
                Ok(Some(Reply::Error(why))) => return Err(why),
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => match self.stream.read(&mut space).map_err(failed)? {
                    0 => return Err("the server closed the connection".to_owned()),
                    read => self.input.extend_from_slice(&space[..read]),
                },
                Err(_) => return Err("not a reply of Redis".to_owned()),
            }
        }
        Ok(replies)
    }
}

const POLL: Duration = Duration::from_millis(50);
/// How long a server that starts may take for an answer.
const PING_PATIENCE: Duration = Duration::from_secs(5);
