//! A network between peers: every connection of one replica to another passes here and meets
//! whatever weather there is in either direction. Kernels may lack `netem`; this needs nothing of them.
//!
//! TCP loses nothing, so that lost packets show as what they come to: stalls, slow connections, and
//! connections that break off, also in the middle of a frame. Datagrams are lost (`datagrams.rs`).

mod datagrams;
mod local;

pub use local::Local;

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What bytes from one replica to another meet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Weather {
    /// Whether nothing passes.
    pub cut: bool,
    /// How long each byte takes at least.
    pub delay: Duration,
    /// How much longer it takes at most: by chance, and on a connection no less than what came before it.
    pub jitter: Duration,
    /// Most bytes in a second; 0 for no limit.
    pub bytes_per_second: u64,
    /// Share of reads that wait as for a packet sent again.
    pub stalls: f64,
    /// How often connections were broken off; those that are open when it grows end.
    pub broken: u64,
}

/// All connections between replicas.
#[derive(Debug)]
pub struct Network {
    /// Of replica `from` to replica `to`, at `from * replicas + to`.
    weather: Vec<watch::Sender<Weather>>,
    replicas: usize,
    _listening: JoinSet<()>,
}

/// Both directions of one replica's connections to another.
#[derive(Debug, Clone)]
struct Route {
    there: watch::Receiver<Weather>,
    back: watch::Receiver<Weather>,
    target: String,
}

impl Network {
    /// Listens at `proxy(from, to)`, if that is anywhere, for what `from` has to say to `to`, which is
    /// reached at `target(to)`.
    pub fn start(
        runtime: &Runtime,
        replicas: usize,
        proxy: impl Fn(usize, usize) -> Option<String>,
        target: impl Fn(usize) -> String,
    ) -> Result<Network, String> {
        let pairs = replicas * replicas;
        let weather: Vec<_> = (0..pairs)
            .map(|_| watch::Sender::new(Weather::default()))
            .collect();
        let mut listening = JoinSet::new();
        for (from, to) in (0..pairs).map(|pair| (pair / replicas, pair % replicas)) {
            let Some(address) = proxy(from, to).filter(|_| from != to) else {
                continue;
            };
            let listener = runtime
                .block_on(TcpListener::bind(&address))
                .map_err(|error| format!("cannot listen on {address}: {error}"))?;
            let route = Route {
                there: weather[from * replicas + to].subscribe(),
                back: weather[to * replicas + from].subscribe(),
                target: target(to),
            };
            let datagrams = runtime
                .block_on(UdpSocket::bind(&address))
                .map_err(|error| format!("cannot take datagrams on {address}: {error}"))?;
            let forward = datagrams::forward(datagrams, target(to), route.there.clone());
            listening.spawn_on(forward, runtime.handle());
            listening.spawn_on(listen(listener, route), runtime.handle());
        }
        Ok(Network {
            weather,
            replicas,
            _listening: listening,
        })
    }

    /// Changes the weather from one replica to another.
    pub fn change(&self, from: usize, to: usize, change: impl Fn(&mut Weather)) {
        self.weather[from * self.replicas + to].send_modify(change);
    }

    /// Changes the weather from one replica to all others, and from all others to it, as asked.
    pub fn around(
        &self,
        replica: usize,
        outwards: bool,
        inwards: bool,
        change: impl Fn(&mut Weather),
    ) {
        for other in (0..self.replicas).filter(|other| *other != replica) {
            if outwards {
                self.change(replica, other, &change);
            }
            if inwards {
                self.change(other, replica, &change);
            }
        }
    }
}

async fn listen(listener: TcpListener, route: Route) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connect(stream, route.clone()))),
                // Out of descriptors: the dialler tries again.
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(stream: TcpStream, mut route: Route) {
    let generations = (route.there.borrow().broken, route.back.borrow().broken);
    // A cut is silent: whoever dials hears neither yes nor no.
    let open = |weather: &Weather| !weather.cut;
    if route.there.wait_for(open).await.is_err() || route.back.wait_for(open).await.is_err() {
        return;
    }
    let dialled = tokio::time::timeout(DIAL_PATIENCE, TcpStream::connect(&route.target)).await;
    let Ok(Ok(target)) = dialled else { return };
    if stream.set_nodelay(true).is_err() || target.set_nodelay(true).is_err() {
        return;
    }
    let (read_near, write_near) = stream.into_split();
    let (read_far, write_far) = target.into_split();
    // A direction that ends in order leaves the other open; one that breaks takes it along, which
    // is all there is to say of it.
    let there = pump(read_near, write_far, route.there, generations.0);
    let back = pump(read_far, write_near, route.back, generations.1);
    let _ = tokio::try_join!(there, back);
}

/// A connection was broken off, by an end of it or by the weather.
#[derive(Debug)]
struct Broken;

/// Moves bytes until the sender has said all, and passes that on.
async fn pump(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    weather: watch::Receiver<Weather>,
    generation: u64,
) -> Result<(), Broken> {
    let (send, receive) = mpsc::channel(CHUNKS_UNDER_WAY);
    let moved = async {
        let reader = read(from, send, weather.clone());
        let writer = deliver(receive, to, weather.clone(), generation);
        tokio::try_join!(reader, writer).map(|_| ())
    };
    tokio::select! {
        moved = moved => moved,
        broken = breaks(weather.clone(), generation) => broken,
    }
}

/// Ends when the weather breaks the connection, once a chunk under way was cut in half.
async fn breaks(mut weather: watch::Receiver<Weather>, generation: u64) -> Result<(), Broken> {
    let is_over = |now: &Weather| now.broken != generation;
    let _ = weather.wait_for(is_over).await.is_ok();
    tokio::time::sleep(PAUSE).await;
    Err(Broken)
}

type Chunk = (Instant, Vec<u8>);

async fn read(
    mut from: OwnedReadHalf,
    chunks: mpsc::Sender<Chunk>,
    weather: watch::Receiver<Weather>,
) -> Result<(), Broken> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut due, mut random) = (Instant::now(), fastrand::Rng::new());
    loop {
        let count = from.read(&mut buffer).await.map_err(|_| Broken)?;
        if count == 0 {
            return Ok(());
        }
        let now = *weather.borrow();
        due = due.max(Instant::now() + now.delay + now.jitter.mul_f64(random.f64()));
        let chunk = (due, buffer[..count].to_vec());
        chunks.send(chunk).await.map_err(|_| Broken)?;
    }
}

async fn deliver(
    mut chunks: mpsc::Receiver<Chunk>,
    mut to: OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
    generation: u64,
) -> Result<(), Broken> {
    let mut random = fastrand::Rng::with_seed(generation);
    while let Some((due, chunk)) = chunks.recv().await {
        tokio::time::sleep_until(due).await;
        let may_pass = |now: &Weather| !now.cut || now.broken != generation;
        let passes = weather.wait_for(may_pass).await.map(|now| *now);
        let now = passes.map_err(|_| Broken)?;
        if now.broken != generation {
            let half = to.write_all(&chunk[..chunk.len() / 2]).await;
            return half.map_err(|_| Broken).and(Err(Broken));
        }
        if random.f64() < now.stalls {
            tokio::time::sleep(STALL).await;
        }
        to.write_all(&chunk).await.map_err(|_| Broken)?;
        if let Some(rate) = NonZeroU64::new(now.bytes_per_second) {
            let micros = chunk.len() as u64 * 1_000_000 / rate;
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
    }
    to.shutdown().await.map_err(|_| Broken)
}

const CHUNK_BYTES: usize = 16 << 10;
const CHUNKS_UNDER_WAY: usize = 4096;
const PAUSE: Duration = Duration::from_millis(50);
/// Linux waits this long before it sends a lost packet again.
const STALL: Duration = Duration::from_millis(200);
const DIAL_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime")
    }

    /// Two replicas: the second is a listener of ours, at `target`.
    fn network(runtime: &Runtime, base: u16, target: &str) -> Network {
        let proxy = |from, to| Some(format!("127.0.0.1:{}", base + 2 * from as u16 + to as u16));
        Network::start(runtime, 2, proxy, |_| target.to_owned()).expect("free ports")
    }

    /// Scenario: bytes pass; a cut holds them back until it heals; a break ends the connection with
    /// half of what was under way.
    #[test]
    fn a_cut_holds_bytes_back_and_a_break_cuts_them_in_half() {
        let runtime = runtime();
        let base = quorate_tooling::ports::free_ports(4).expect("free ports");
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let target = listener.local_addr().expect("an address").to_string();
        let network = network(&runtime, base, &target);
        runtime.block_on(async {
            let address = format!("127.0.0.1:{}", base + 1);
            let mut near = TcpStream::connect(&address).await.expect("a proxy");
            let (mut far, _) = listener.accept().await.expect("a connection");
            let mut four = [0; 4];
            near.write_all(b"calm").await.expect("written");
            far.read_exact(&mut four).await.expect("delivered");
            assert_eq!(&four, b"calm");

            network.change(0, 1, |weather| weather.cut = true);
            near.write_all(b"held").await.expect("written");
            let held = tokio::time::timeout(STALL, far.read_exact(&mut four)).await;
            assert!(held.is_err(), "{four:?} passed a cut");
            // The other direction is open, and stays so when this one has said all.
            far.write_all(b"back").await.expect("written");
            near.read_exact(&mut four).await.expect("delivered");
            assert_eq!(&four, b"back");

            network.change(0, 1, |weather| weather.broken += 1);
            let mut rest = Vec::new();
            // A reset is an end as well.
            let _ = far.read_to_end(&mut rest).await;
            assert_eq!(rest, b"he");
        });
    }

    /// Scenario: a question, the end of it, and only then the answer, which is all of it there.
    #[test]
    fn an_answer_to_one_who_has_said_all_arrives_whole() {
        let runtime = runtime();
        let base = quorate_tooling::ports::free_ports(4).expect("free ports");
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let target = listener.local_addr().expect("an address").to_string();
        let network = network(&runtime, base, &target);
        network.change(1, 0, |weather| weather.delay = STALL);
        runtime.block_on(async {
            let address = format!("127.0.0.1:{}", base + 1);
            let mut near = TcpStream::connect(&address).await.expect("a proxy");
            let (mut far, _) = listener.accept().await.expect("a connection");
            near.write_all(b"question").await.expect("written");
            near.shutdown().await.expect("shut");
            let mut asked = Vec::new();
            far.read_to_end(&mut asked).await.expect("an end");
            assert_eq!(asked, b"question");
            far.write_all(b"answer").await.expect("written");
            drop(far);
            let mut answer = Vec::new();
            near.read_to_end(&mut answer).await.expect("an end");
            assert_eq!(answer, b"answer");
        });
    }
}
