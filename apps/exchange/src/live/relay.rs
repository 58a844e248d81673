//! A relay that delays what passes, for a machine whose own network is quick and even.

use super::clock;
use super::timer::Timer;
use crate::histogram::Histogram;
use crate::simulated::exponential;
use fastrand::Rng;
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

/// How many pieces are under way in one direction of a connection.
const PIECES_MAX: usize = 4096;
/// The most bytes of a piece.
const PIECE_BYTES: usize = 16 << 10;

/// How long things are under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// The shortest time, in ns.
    pub(super) least_ns: u64,
    /// The mean of what is added to it for each piece, in ns: an exponential time.
    pub(super) jitter_ns: u64,
}

/// The times that pieces were under way.
type Delays = Arc<Mutex<Histogram>>;

/// A relay that runs until it is dropped, in a thread of its own.
#[derive(Debug)]
pub(super) struct Relay {
    /// The addresses that are relayed, in the order of those that they lead to.
    pub(super) addresses: Vec<String>,
    /// The times of what has passed so far.
    delays: Delays,
    /// The thread ends when this is dropped.
    running: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// The times that pieces were under way since they were forgotten last.
    pub(super) fn seen(&self) -> Histogram {
        let delays = self.delays.lock();
        delays.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins to count anew.
    pub(super) fn forget(&self) {
        let delays = self.delays.lock();
        *delays.unwrap_or_else(PoisonError::into_inner) = Histogram::default();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.running = None;
        if let Some(thread) = self.thread.take() {
            // It has panicked otherwise, and whoever measured saw no more of what passed.
            let _ = thread.join();
        }
    }
}

/// Relays connections to each address over a port of its own.
pub(super) fn start(to: Vec<String>, way: Way, seed: u64) -> io::Result<Relay> {
    let mut addresses = Vec::new();
    let mut listeners = Vec::new();
    for address in to {
        let listener = StdListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        addresses.push(listener.local_addr()?.to_string());
        listeners.push((listener, address));
    }
    let delays = Delays::default();
    let counted = Arc::clone(&delays);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (running, stopped) = oneshot::channel::<()>();
    let thread = thread::spawn(move || {
        runtime.block_on(async {
            let mut rng = Rng::with_seed(seed);
            for (listener, to) in listeners {
                let counted = Arc::clone(&counted);
                tokio::spawn(accept(listener, to, way, counted, rng.fork()));
            }
            // An error says that the relay is dropped.
            let _ = stopped.await;
        });
    });
    Ok(Relay {
        addresses,
        delays,
        running: Some(running),
        thread: Some(thread),
    })
}

async fn accept(
    listener: StdListener,
    to: String,
    way: Way,
    delays: Delays,
    mut rng: Rng,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (near, _) = listener.accept().await?;
        let (to, delays, rng) = (to.clone(), Arc::clone(&delays), rng.fork());
        tokio::spawn(async move {
            // Whoever dialled sees the end of its connection, and dials again.
            let _ = relay(near, &to, way, delays, rng).await;
        });
    }
}

async fn relay(
    near: TcpStream,
    to: &str,
    way: Way,
    delays: Delays,
    mut rng: Rng,
) -> io::Result<()> {
    let far = TcpStream::connect(to).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let one = pass(near_read, far_write, way, Arc::clone(&delays), rng.fork());
    let other = pass(far_read, near_write, way, delays, rng);
    tokio::select! {
        passed = one => passed,
        passed = other => passed,
    }
}

/// A piece that is under way.
struct Piece {
    came_ns: u64,
    due_ns: u64,
    bytes: Vec<u8>,
}

async fn pass(
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    way: Way,
    delays: Delays,
    rng: Rng,
) -> io::Result<()> {
    let (pieces, under_way) = mpsc::channel(PIECES_MAX);
    tokio::select! {
        read = take(read, pieces, way, rng) => read,
        written = give(write, under_way, delays) => written,
    }
}

async fn take(
    mut read: OwnedReadHalf,
    pieces: mpsc::Sender<Piece>,
    way: Way,
    mut rng: Rng,
) -> io::Result<()> {
    let mut last_ns = 0;
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let length = read.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        // As long as it is, and no longer: thousands may be under way.
        let bytes = buffer[..length].to_vec();
        let came_ns = clock::now().steady_ns;
        let under_way_ns = way.least_ns + exponential(&mut rng, way.jitter_ns);
        // A connection keeps the order of its bytes.
        last_ns = (came_ns + under_way_ns).max(last_ns);
        let piece = Piece {
            came_ns,
            due_ns: last_ns,
            bytes,
        };
        if pieces.send(piece).await.is_err() {
            return Ok(());
        }
    }
}

async fn give(
    mut write: OwnedWriteHalf,
    mut under_way: mpsc::Receiver<Piece>,
    delays: Delays,
) -> io::Result<()> {
    let timer = Timer::new()?;
    while let Some(piece) = under_way.recv().await {
        let left_ns = piece.due_ns.saturating_sub(clock::now().steady_ns);
        if left_ns > 0 {
            timer.set(Some(left_ns))?;
            timer.wait().await?;
        }
        write.write_all(&piece.bytes).await?;
        let delay_ns = clock::now().steady_ns - piece.came_ns;
        if let Ok(mut delays) = delays.lock() {
            delays.record(delay_ns);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream as StdStream;

    #[test]
    fn what_passes_takes_its_time_and_nothing_is_left_of_a_relay_that_is_dropped() {
        let far = StdListener::bind("127.0.0.1:0").unwrap();
        let way = Way {
            least_ns: 2_000_000,
            jitter_ns: 0,
        };
        let relay = start(vec![far.local_addr().unwrap().to_string()], way, 1).unwrap();
        let mut near = StdStream::connect(&relay.addresses[0]).unwrap();
        let (mut far, _) = far.accept().unwrap();
        let begun_ns = clock::now().steady_ns;
        near.write_all(b"there").unwrap();
        let mut heard = [0; 5];
        far.read_exact(&mut heard).unwrap();
        assert!(heard == *b"there" && clock::now().steady_ns - begun_ns >= way.least_ns);
        far.write_all(&heard).unwrap();
        near.read_exact(&mut heard).unwrap();
        let address = relay.addresses[0].clone();
        drop(relay);
        assert_eq!(near.read(&mut heard).unwrap_or_default(), 0);
        assert!(StdStream::connect(address).is_err());
    }
}
