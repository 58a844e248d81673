//! Clients that write to a server while it is moved.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quorate_resp::encode_request;

use super::contents::name_of;
use super::server::{Connection, Server};

/// Requests of a client that are sent at once.
const BATCH: usize = 16;

/// How much later than due a writer may be before what it left out is forgotten: it is no burst then.
const LATE_MAX: Duration = Duration::from_secs(1);

/// How soon a writer sends its next requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The time between two batches of one writer; none without a bound.
    each: Option<Duration>,
}

impl Pace {
    /// Of so many writes a second for so many writers together; 0 for no bound.
    pub(super) fn new(rate: u64, writers: usize) -> Pace {
        let batches = (rate > 0).then(|| rate as f64 / BATCH as f64 / writers.max(1) as f64);
        Pace {
            each: batches.map(|batches| Duration::from_secs_f64(1.0 / batches)),
        }
    }

    /// When the batch behind one that was due then is due.
    fn after(self, due: Instant, now: Instant) -> Option<Instant> {
        let next = due + self.each?;
        let earliest = now.checked_sub(LATE_MAX).unwrap_or(now);
        Some(next.max(earliest))
    }
}

/// Clients that write until this is dropped, or nobody answers them.
pub(super) struct Writers {
    done: Arc<AtomicU64>,
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    pub(super) fn start(
        server: &Server,
        count: usize,
        (keys, kinds): (u64, u64),
        pace: Pace,
    ) -> Result<Writers, String> {
        let mut writers = Writers {
            done: Arc::default(),
            sockets: Vec::new(),
            threads: Vec::new(),
        };
        for seed in 0..count {
            let connection = server.connect()?;
            writers.sockets.push(connection.socket()?);
            let done = Arc::clone(&writers.done);
            let write = move || write(connection, (seed as u64, keys, kinds), pace, &done);
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
fn write(
    mut connection: Connection,
    (seed, keys, kinds): (u64, u64, u64),
    pace: Pace,
    done: &AtomicU64,
) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        std::thread::sleep(due.saturating_duration_since(now));
        due = pace.after(due, now.max(due)).unwrap_or(now);
        let mut text = Vec::new();
        for _ in 0..BATCH {
            let number = rng.u64(0..keys);
            let (name, value) = (name_of(number), rng.u32(..).to_string());
            let words: Vec<&str> = match number % kinds {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_keep_their_rate_together() {
        let pace = Pace::new(1600, 4);
        let begin = Instant::now();
        let mut due = begin;
        for _ in 0..25 {
            due = pace.after(due, due).unwrap();
        }
        assert_eq!(due - begin, Duration::from_secs(1), "25 batches of 16 each");
        let late = begin + Duration::from_secs(60);
        let next = pace.after(begin, late).unwrap();
        assert_eq!(late - next, LATE_MAX, "no burst for a minute");
        assert_eq!(Pace::new(0, 4).after(begin, begin), None);
    }
}
