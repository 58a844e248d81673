//! The floor's clients: one thread, any number of connections, closed loop.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::{FloorArgs, since, wire};
use quorate_load::latency::Latency;
use quorate_tooling::process::Usage;

/// What the clients saw.
pub(super) struct Run {
    /// Latency of every operation begun after the warm-up.
    pub(super) latency: Latency,
    /// From the end of the warm-up to the last answer.
    pub(super) elapsed: Duration,
    /// What the replicas had used at the end of the warm-up.
    pub(super) usage_before: Usage,
    /// What this process used from then on.
    pub(super) generator: Usage,
}

/// Drives the leader at `port` for as long as `args` says.
pub(super) fn run(args: &FloorArgs, port: u16, usage: impl Fn() -> Usage) -> io::Result<Run> {
    let mut clients = Clients::connect(args, port)?;
    clients.drive(args.warmup, u64::MAX)?;
    clients.latency = Latency::new();
    let me = [std::process::id()];
    let (usage_before, generator_before, start) = (usage(), Usage::of(&me), Instant::now());
    match args.total {
        Some(total) => clients.drive(Duration::MAX, total)?,
        None => clients.drive(args.duration.unwrap_or(DURATION), u64::MAX)?,
    }
    let elapsed = start.elapsed();
    let generator = Usage::of(&me).since(generator_before);
    Ok(Run {
        latency: clients.latency,
        elapsed,
        usage_before,
        generator,
    })
}

struct Clients {
    epoll: std::os::fd::OwnedFd,
    connections: Vec<Connection>,
    /// As many commands end to end as the busiest connection has clients.
    commands: Vec<u8>,
    command_bytes: usize,
    latency: Latency,
    start: Instant,
}

struct Connection {
    stream: TcpStream,
    clients: usize,
    /// When each outstanding command was sent; answers come in order.
    sent: VecDeque<u64>,
    partial: usize,
}

impl Clients {
    fn connect(args: &FloorArgs, port: u16) -> io::Result<Clients> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let (clients, count) = (
            args.clients as usize,
            args.conns.unwrap_or(args.clients) as usize,
        );
        let mut connections = Vec::new();
        for index in 0..count {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.set_nodelay(true)?;
            epoll::add(
                &epoll,
                &stream,
                EventData::new_u64(index as u64),
                EventFlags::IN,
            )?;
            let clients = clients / count + usize::from(index < clients % count);
            connections.push(Connection {
                stream,
                clients,
                sent: VecDeque::new(),
                partial: 0,
            });
        }
        let frame = wire::frame(args.val_size);
        Ok(Clients {
            epoll,
            commands: frame.repeat(clients.div_ceil(count)),
            command_bytes: frame.len(),
            connections,
            latency: Latency::new(),
            start: Instant::now(),
        })
    }

    /// Every client sends one command after the other until `duration` has passed or `total` were
    /// sent; returns when all are answered.
    fn drive(&mut self, duration: Duration, total: u64) -> io::Result<()> {
        let begun = Instant::now();
        let mut left = total;
        let mut outstanding = 0;
        for index in 0..self.connections.len() {
            outstanding += self.send(index, self.connections[index].clients, &mut left)?;
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while outstanding > 0 {
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                None,
            ) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if begun.elapsed() >= duration {
                left = 0;
            }
            for event in &events {
                let index = event.data.u64() as usize;
                let answers = self.receive(index)?;
                outstanding -= answers;
                outstanding += self.send(index, answers, &mut left)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, index: usize, wanted: usize, left: &mut u64) -> io::Result<usize> {
        let count = wanted.min(usize::try_from(*left).unwrap_or(usize::MAX));
        if count == 0 {
            return Ok(0);
        }
        *left -= count as u64;
        let connection = &mut self.connections[index];
        connection
            .sent
            .extend(std::iter::repeat_n(since(self.start), count));
        connection
            .stream
            .write_all(&self.commands[..count * self.command_bytes])?;
        Ok(count)
    }

    fn receive(&mut self, index: usize) -> io::Result<usize> {
        let connection = &mut self.connections[index];
        let mut acks = [0; 1024 * wire::ACK_BYTES];
        let read = connection.stream.read(&mut acks)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let now = since(self.start);
        let bytes = connection.partial + read;
        connection.partial = bytes % wire::ACK_BYTES;
        let answers = bytes / wire::ACK_BYTES;
        for sent in connection.sent.drain(..answers) {
            self.latency.record(now - sent);
        }
        Ok(answers)
    }
}

const DURATION: Duration = Duration::from_secs(10);
const EVENTS_MAX: usize = 1024;
