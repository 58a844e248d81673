//! Clients in a closed loop, all of them on one thread.

use std::cell::Cell as Flag;
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use quorate_load::latency::Latency;
use quorate_resp::reply_bytes;
use quorate_tooling::process::Usage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::workload::{Cell, DataShape, Requests};

/// A load, and whom it is put on.
#[derive(Debug)]
pub(super) struct Load<'a> {
    pub(super) cell: Cell,
    /// Where clients go, each to the next in turn.
    pub(super) servers: &'a [String],
    /// The processes whose CPU time is measured.
    pub(super) pids: &'a [u32],
    /// Replicas that each batch waits for.
    pub(super) wait_for: Option<u8>,
    pub(super) data: DataShape,
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
}

/// What a load came to, in its measured time.
#[derive(Debug)]
pub(super) struct Done {
    /// Commands that were answered; of one with many keys, each key counts.
    pub(super) commands: u64,
    /// From sending a batch to its last reply.
    pub(super) latency: Latency,
    /// What the servers used.
    pub(super) servers: Usage,
    /// What the clients used.
    pub(super) own: Usage,
}

/// What a client is to do with what it measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measured,
    Over,
}

impl Load<'_> {
    pub(super) fn run(&self) -> Result<Done, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        LocalSet::new().block_on(&runtime, self.run_clients())
    }

    async fn run_clients(&self) -> Result<Done, String> {
        let requests = Rc::new(Requests::new(self.cell, &self.data, self.wait_for));
        let mut first = Client::connect(&self.servers[0], Rc::clone(&requests), 0).await?;
        for (batch, replies) in requests.filling() {
            first.exchange(&batch, replies, None).await?;
        }
        drop(first);
        let phase = Rc::new(Flag::new(Phase::WarmUp));
        let mut tasks = Vec::new();
        for (index, server) in (0..self.cell.clients).zip(self.servers.iter().cycle()) {
            let client = Client::connect(server, Rc::clone(&requests), index as u64).await?;
            tasks.push(tokio::task::spawn_local(client.run(Rc::clone(&phase))));
        }
        let usages = || (Usage::of(self.pids), Usage::of(&[std::process::id()]));
        tokio::time::sleep(self.warmup).await;
        let before = usages();
        phase.set(Phase::Measured);
        tokio::time::sleep(self.duration).await;
        phase.set(Phase::Over);
        let after = usages();
        let mut done = Done {
            commands: 0,
            latency: Latency::new(),
            servers: after.0.since(before.0),
            own: after.1.since(before.1),
        };
        for task in tasks {
            let (commands, latency) = task.await.map_err(|error| error.to_string())??;
            done.commands += commands;
            done.latency.merge(&latency);
        }
        Ok(done)
    }
}

/// One client and its connection.
struct Client {
    stream: TcpStream,
    requests: Rc<Requests>,
    random: Rng,
    input: Vec<u8>,
}

impl Client {
    async fn connect(server: &str, requests: Rc<Requests>, seed: u64) -> Result<Client, String> {
        let connected = async {
            let stream = TcpStream::connect(server).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        };
        let stream = connected.await;
        Ok(Client {
            stream: stream.map_err(|error| format!("{server} cannot be reached: {error}"))?,
            requests,
            random: Rng::with_seed(seed),
            input: Vec::with_capacity(64 << 10),
        })
    }

    /// Asks until it is over; what ends in the measured time counts.
    async fn run(mut self, phase: Rc<Flag<Phase>>) -> Result<(u64, Latency), String> {
        let (mut commands, mut latency) = (0, Latency::new());
        let mut batch = Vec::new();
        let requests = Rc::clone(&self.requests);
        while phase.get() != Phase::Over {
            batch.clear();
            let replies = requests.batch(&mut self.random, &mut batch);
            let began = Instant::now();
            let exchanged = self.exchange(&batch, replies, requests.wait_for());
            let answered = tokio::time::timeout(PATIENCE, exchanged).await;
            answered.map_err(|_| "a batch was not answered in time".to_owned())??;
            if phase.get() == Phase::Measured {
                commands += replies as u64 * requests.operations_per_reply();
                latency.record(began.elapsed().as_nanos() as u64);
            }
        }
        Ok((commands, latency))
    }

    /// Sends a batch, and takes its replies; the one behind them says how many replicas have it, if that was asked.
    async fn exchange(
        &mut self,
        batch: &[u8],
        replies: usize,
        wait_for: Option<u8>,
    ) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("a connection failed: {error}");
        self.stream.write_all(batch).await.map_err(failed)?;
        let all = replies + usize::from(wait_for.is_some());
        let (mut taken, mut at) = (0, 0);
        self.input.clear();
        while taken < all {
            if self
                .stream
                .read_buf(&mut self.input)
                .await
                .map_err(failed)?
                == 0
            {
                return Err("a server closed a connection".to_owned());
            }
            while let Some(bytes) = reply_bytes(&self.input[at..]).map_err(|why| why.to_string())? {
                let reply = &self.input[at..at + bytes];
                let waited = wait_for.filter(|_| taken == replies);
                let is_short =
                    waited.is_some_and(|count| reply != format!(":{count}\r\n").as_bytes());
                if reply.starts_with(b"-") || is_short {
                    return Err(format!(
                        "a reply: {}",
                        String::from_utf8_lossy(reply).trim_end()
                    ));
                }
                (taken, at) = (taken + 1, at + bytes);
            }
        }
        Ok(())
    }
}

const PATIENCE: Duration = Duration::from_secs(30);
