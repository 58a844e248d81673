//! The leader: takes what has arrived as the batch, replicates it, syncs it, answers.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use clap::Args;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::disk::Log;
use super::{Counts, ReplicaArgs, wire};

/// What the hidden leader role is told.
#[derive(Debug, Clone, Args)]
pub struct LeaderArgs {
    #[command(flatten)]
    pub(crate) replica: ReplicaArgs,
    /// Port of a follower; repeated.
    #[arg(long)]
    pub(crate) follower: Vec<u16>,
}

/// Serves clients until the standard input closes.
pub(super) fn lead(args: &LeaderArgs) -> io::Result<Counts> {
    let log = Log::create(&args.replica)?;
    let mut leader = Leader::start(log, &args.follower)?;
    println!("{}", leader.listener.local_addr()?.port());
    let mut events = Vec::with_capacity(EVENTS_MAX);
    loop {
        events.clear();
        match epoll::wait(
            &leader.epoll,
            rustix::buffer::spare_capacity(&mut events),
            None,
        ) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                STDIN => {
                    return Ok(Counts {
                        commands: leader.commands,
                        syncs: leader.log.syncs,
                    });
                }
                LISTENER => leader.accept()?,
                tag if tag >= CLIENTS => leader.receive((tag - CLIENTS) as usize)?,
                tag => leader.acknowledged((tag - FOLLOWERS) as usize)?,
            }
        }
        leader.advance()?;
    }
}

struct Leader {
    epoll: OwnedFd,
    listener: TcpListener,
    log: Log,
    followers: Vec<Follower>,
    clients: Vec<Client>,
    /// The next batch, filling, behind room for its length.
    pending: Vec<u8>,
    /// For each command of the next batch, its client.
    pending_from: Vec<usize>,
    /// For each command of the batch in flight, its client.
    in_flight: Vec<usize>,
    /// The batch in flight, kept for its allocation.
    batch: Vec<u8>,
    batches: u64,
    commands: u64,
}

struct Follower {
    stream: TcpStream,
    acknowledged: u64,
    partial: usize,
}

struct Client {
    stream: TcpStream,
    frames: wire::Frames,
    answers: usize,
    open: bool,
}

impl Leader {
    fn start(log: Log, ports: &[u16]) -> io::Result<Leader> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        watch(&epoll, &listener, LISTENER)?;
        watch(&epoll, io::stdin(), STDIN)?;
        let mut followers = Vec::new();
        for (index, &port) in ports.iter().enumerate() {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.set_nodelay(true)?;
            watch(&epoll, &stream, FOLLOWERS + index as u64)?;
            followers.push(Follower {
                stream,
                acknowledged: 0,
                partial: 0,
            });
        }
        Ok(Leader {
            epoll,
            listener,
            log,
            followers,
            clients: Vec::new(),
            pending: vec![0; wire::HEADER_BYTES],
            pending_from: Vec::new(),
            in_flight: Vec::new(),
            batch: Vec::new(),
            batches: 0,
            commands: 0,
        })
    }

    fn accept(&mut self) -> io::Result<()> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nodelay(true)?;
        watch(&self.epoll, &stream, CLIENTS + self.clients.len() as u64)?;
        let frames = wire::Frames::default();
        self.clients.push(Client {
            stream,
            frames,
            answers: 0,
            open: true,
        });
        Ok(())
    }

    /// Adds what a client sent to the next batch. One read per readiness never blocks.
    fn receive(&mut self, index: usize) -> io::Result<()> {
        let client = &mut self.clients[index];
        if client.frames.fill(&mut client.stream).is_err() {
            client.open = false;
            return Ok(epoll::delete(&self.epoll, &client.stream)?);
        }
        let (bytes, count) = client.frames.whole();
        let consumed = bytes.len();
        self.pending.extend_from_slice(bytes);
        self.pending_from.extend(std::iter::repeat_n(index, count));
        client.frames.consume(consumed);
        Ok(())
    }

    fn acknowledged(&mut self, index: usize) -> io::Result<()> {
        let follower = &mut self.followers[index];
        let mut acks = [0; 64 * wire::ACK_BYTES];
        match follower.stream.read(&mut acks)? {
            0 => Err(io::Error::other("a follower ended")),
            read => {
                let bytes = follower.partial + read;
                follower.acknowledged += (bytes / wire::ACK_BYTES) as u64;
                follower.partial = bytes % wire::ACK_BYTES;
                Ok(())
            }
        }
    }

    /// Answers the batch in flight once a majority has it, and starts the next.
    fn advance(&mut self) -> io::Result<()> {
        loop {
            if !self.in_flight.is_empty() {
                if !self.majority_has_batch() {
                    return Ok(());
                }
                self.answer()?;
            }
            if self.pending_from.is_empty() {
                return Ok(());
            }
            self.replicate()?;
        }
    }

    /// The leader itself synced before it came here.
    fn majority_has_batch(&self) -> bool {
        let others = self
            .followers
            .iter()
            .filter(|f| f.acknowledged >= self.batches)
            .count();
        1 + others > self.followers.len().div_ceil(2)
    }

    fn replicate(&mut self) -> io::Result<()> {
        self.batches += 1;
        self.commands += self.pending_from.len() as u64;
        mem::swap(&mut self.in_flight, &mut self.pending_from);
        mem::swap(&mut self.batch, &mut self.pending);
        self.pending.clear();
        self.pending.resize(wire::HEADER_BYTES, 0);
        let length = (self.batch.len() - wire::HEADER_BYTES) as u32;
        self.batch[..wire::HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
        for follower in &mut self.followers {
            follower.stream.write_all(&self.batch)?;
        }
        self.log.append(&mut self.batch)
    }

    /// One write per client, however many of its commands the batch held.
    fn answer(&mut self) -> io::Result<()> {
        for &index in &self.in_flight {
            self.clients[index].answers += 1;
        }
        for index in self.in_flight.drain(..) {
            let client = &mut self.clients[index];
            let answers = mem::take(&mut client.answers);
            if answers > 0 && client.open {
                let acks = vec![0; answers * wire::ACK_BYTES];
                client.open = client.stream.write_all(&acks).is_ok();
            }
        }
        Ok(())
    }
}

fn watch(epoll: &OwnedFd, fd: impl AsFd, tag: u64) -> io::Result<()> {
    Ok(epoll::add(
        epoll,
        fd,
        EventData::new_u64(tag),
        EventFlags::IN,
    )?)
}

const EVENTS_MAX: usize = 1024;
const STDIN: u64 = 0;
const LISTENER: u64 = 1;
const FOLLOWERS: u64 = 2;
const CLIENTS: u64 = 1 << 32;
