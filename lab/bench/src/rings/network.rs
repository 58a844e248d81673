//! The network of Chora's paper (Figure 3) as threads of this process have it: each multicasts, and receives what the
//! others did, over UDP on loopback or over rings in memory, asleep until something arrives or looking all the time.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;
use std::{hint, thread};

use clap::ValueEnum;
use rtrb::{Consumer, Producer, RingBuffer};

/// Bytes of a message.
pub(super) const MESSAGE_BYTES: usize = 64;
/// A message between two threads.
pub(super) type Message = [u8; MESSAGE_BYTES];

/// What messages travel by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// UDP on loopback; threads sleep in the kernel until something arrives
    UdpWoken,
    /// UDP on loopback; threads ask the kernel all the time
    UdpPolled,
    /// Rings in memory; threads sleep until another wakes them
    RingsWoken,
    /// Rings in memory; threads look all the time
    RingsPolled,
}

impl Way {
    pub(super) const ALL: [Way; 4] = [
        Way::UdpWoken,
        Way::UdpPolled,
        Way::RingsWoken,
        Way::RingsPolled,
    ];

    pub(super) fn polls(self) -> bool {
        matches!(self, Way::UdpPolled | Way::RingsPolled)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::UdpWoken => "UDP, woken",
            Way::UdpPolled => "UDP, polled",
            Way::RingsWoken => "rings, woken",
            Way::RingsPolled => "rings, polled",
        }
    }
}

/// A network of so many ends, one for each thread.
pub(super) fn network(way: Way, ends: usize) -> io::Result<Vec<Box<dyn End>>> {
    match way {
        Way::UdpWoken | Way::UdpPolled => udp(ends, way.polls()),
        Way::RingsWoken | Way::RingsPolled => Ok(rings(ends, way.polls())),
    }
}

/// One end of a network.
pub(super) trait End: Send {
    /// Called first, by the thread that will use it.
    fn register(&mut self);
    /// To all others.
    fn multicast(&mut self, message: &Message) -> io::Result<()>;
    /// The next message of any other.
    fn receive(&mut self) -> io::Result<Message>;
}

struct Udp {
    socket: UdpSocket,
    others: Vec<SocketAddr>,
}

fn udp(ends: usize, polls: bool) -> io::Result<Vec<Box<dyn End>>> {
    let sockets: Vec<UdpSocket> = (0..ends)
        .map(|_| UdpSocket::bind("127.0.0.1:0"))
        .collect::<io::Result<_>>()?;
    let addresses: Vec<SocketAddr> = sockets
        .iter()
        .map(UdpSocket::local_addr)
        .collect::<io::Result<_>>()?;
    let mut all: Vec<Box<dyn End>> = Vec::new();
    for (at, socket) in sockets.into_iter().enumerate() {
        socket.set_nonblocking(polls)?;
        socket.set_read_timeout((!polls).then_some(PATIENCE))?;
        let others = addresses.iter().enumerate();
        let others = others.filter(|(other, _)| *other != at);
        all.push(Box::new(Udp {
            socket,
            others: others.map(|(_, address)| *address).collect(),
        }));
    }
    Ok(all)
}

impl End for Udp {
    fn register(&mut self) {}

    fn multicast(&mut self, message: &Message) -> io::Result<()> {
        for other in &self.others {
            self.socket.send_to(message, other)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Message> {
        let mut message = [0; MESSAGE_BYTES];
        // A socket that sleeps says the same when its patience ends.
        for _ in 0..GLANCES_MAX {
            match self.socket.recv(&mut message) {
                Ok(_) => return Ok(message),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => hint::spin_loop(),
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// How a thread that sleeps is woken.
#[derive(Default)]
struct Bed {
    thread: OnceLock<Thread>,
    is_asleep: AtomicBool,
}

struct Rings {
    to: Vec<(Producer<Message>, Arc<Bed>)>,
    from: Vec<Consumer<Message>>,
    bed: Arc<Bed>,
    polls: bool,
    turn: usize,
}

fn rings(ends: usize, polls: bool) -> Vec<Box<dyn End>> {
    let beds: Vec<Arc<Bed>> = (0..ends).map(|_| Arc::default()).collect();
    let mut all: Vec<Rings> = (beds.iter())
        .map(|bed| Rings {
            to: Vec::new(),
            from: Vec::new(),
            bed: bed.clone(),
            polls,
            turn: 0,
        })
        .collect();
    for from in 0..ends {
        for to in (0..ends).filter(|to| *to != from) {
            let (producer, consumer) = RingBuffer::new(SLOTS);
            all[from].to.push((producer, beds[to].clone()));
            all[to].from.push(consumer);
        }
    }
    let all = all.into_iter().map(|end| Box::new(end) as Box<dyn End>);
    all.collect()
}

impl Rings {
    fn look(&mut self) -> Option<Message> {
        let rings = self.from.len();
        for _ in 0..rings {
            self.turn = (self.turn + 1) % rings;
            if let Ok(message) = self.from[self.turn].pop() {
                return Some(message);
            }
        }
        None
    }
}

impl End for Rings {
    fn register(&mut self) {
        let _ = self.bed.thread.set(thread::current());
    }

    fn multicast(&mut self, message: &Message) -> io::Result<()> {
        for (ring, bed) in &mut self.to {
            let pushed = ring.push(*message);
            pushed.map_err(|_| io::Error::other("a ring is full"))?;
            // Whoever goes to sleep looks once more after it has said so.
            if bed.is_asleep.swap(false, Ordering::SeqCst)
                && let Some(thread) = bed.thread.get()
            {
                thread.unpark();
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Message> {
        for _ in 0..GLANCES_MAX {
            if let Some(message) = self.look() {
                return Ok(message);
            }
            if self.polls {
                hint::spin_loop();
                continue;
            }
            self.bed.is_asleep.store(true, Ordering::SeqCst);
            if let Some(message) = self.look() {
                self.bed.is_asleep.store(false, Ordering::SeqCst);
                return Ok(message);
            }
            thread::park_timeout(PATIENCE);
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Messages in a ring: none is ever more than a round ahead.
const SLOTS: usize = 64;
/// Something arrives within this time, or never.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a thread that polls looks before it gives up: no clock is read between two looks.
const GLANCES_MAX: u64 = 2_000_000_000;
