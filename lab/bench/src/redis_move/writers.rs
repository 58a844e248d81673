//! Clients that write to a server while it is moved.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use quorate_resp::encode_request;

use super::contents::{KINDS, name_of};
use super::server::{Connection, Server};

/// Requests of a client that are sent at once.
const BATCH: usize = 16;

/// Clients that write until this is dropped, or nobody answers them.
pub(super) struct Writers {
    done: Arc<AtomicU64>,
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    pub(super) fn start(server: &Server, count: usize, keys: u64) -> Result<Writers, String> {
        let mut writers = Writers {
            done: Arc::default(),
            sockets: Vec::new(),
            threads: Vec::new(),
        };
        for seed in 0..count {
            let connection = server.connect()?;
            writers.sockets.push(connection.socket()?);
            let done = Arc::clone(&writers.done);
            let write = move || write(connection, seed as u64, keys, &done);
            writers.threads.push(std::thread::spawn(write));
        }
        Ok(writers)
    }

    /// Writes that were acknowledged so far.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            // A writer that ended in a panic has said so.
            let _ = thread.join();
        }
    }
}

/// Changes keys of every kind, and counts what was acknowledged, until there is no answer.
fn write(mut connection: Connection, seed: u64, keys: u64, done: &AtomicU64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    loop {
        let mut text = Vec::new();
        for _ in 0..BATCH {
            let number = rng.u64(0..keys);
            let (name, value) = (name_of(number), rng.u32(..).to_string());
            let words: Vec<&str> = match number % KINDS {
                5 => vec!["HINCRBY", &name, "count", "1"],
                6 => vec!["LPUSH", &name, &value],
                7 => vec!["SPOP", &name],
                8 => vec!["ZINCRBY", &name, "1", "m1"],
                9 => vec!["XADD", &name, "*", "f", &value],
                0 => vec!["EXPIRE", &name, "86400"],
                _ => vec!["SET", &name, &value],
            };
            encode_request(&words, &mut text);
        }
        match connection.ask_all(&text, BATCH) {
            Ok(replies) => done.fetch_add(replies.len() as u64, Ordering::Relaxed),
            Err(_) => return,
        };
    }
}
