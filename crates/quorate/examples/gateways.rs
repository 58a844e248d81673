//! Ways into a cluster, measured as processes: `gateways measure [PORT] [WRITES]` starts three nodes and a process that
//! is only a gateway, and writes through a node, through the gateway, and through a gateway that it links itself.
//!
//! `gateways node ID [PORT]` runs one node, and `gateways gateway [PORT]` one gateway. A line with a number, to either
//! of them, adds it to a counter, and the answer is a line with the sum.

#![allow(
    clippy::disallowed_methods,
    reason = "the program measures how long writes take"
)]

use quorate::{Applied, Clock, Error, Gateway, Node, Protocol, StateMachine, decode, encode};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

type Done = Result<(), Box<dyn std::error::Error>>;

/// All processes are on one machine, whose clock differs from itself by nothing; this allows for reading it.
const CLOCK: Clock = Clock::Within(Duration::from_micros(10));

#[derive(Default, Serialize, Deserialize)]
struct Counter(u64);

impl StateMachine for Counter {
    type Command = u64;
    type Reply = u64;
    type Query = ();
    type Answer = u64;

    fn apply(&mut self, _: &Applied, add: u64) -> u64 {
        self.0 = self.0.wrapping_add(add);
        self.0
    }

    fn query(&self, (): &()) -> u64 {
        self.0
    }

    fn save(&self) -> Vec<u8> {
        encode(self).expect("a number always has a form")
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        decode(bytes).map_err(|error| error.to_string())
    }
}

/// Where members reach each other.
fn members(port: u16) -> impl Iterator<Item = (u16, String)> {
    (1..=3).map(move |id| (id, format!("127.0.0.1:{}", port + id)))
}

/// Serves lines at a port; `submit` has a number added.
async fn serve<F>(port: u16, submit: impl Fn(u64) -> F + Clone + Send + 'static) -> Done
where
    F: Future<Output = Result<u64, Error>> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("port {port}");
    loop {
        let (stream, _) = listener.accept().await?;
        let submit = submit.clone();
        // A client that breaks off has no use for what went wrong.
        tokio::spawn(async move { converse(stream, submit).await });
    }
}

async fn converse<F>(stream: TcpStream, submit: impl Fn(u64) -> F) -> io::Result<()>
where
    F: Future<Output = Result<u64, Error>>,
{
    stream.set_nodelay(true)?;
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match line.parse() {
            Ok(add) => submit(add)
                .await
                .map_or_else(|error| error.to_string(), |sum| sum.to_string()),
            Err(error) => error.to_string(),
        };
        write.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    Ok(())
}

async fn node(id: u16, port: u16) -> Done {
    let node = Node::<Counter>::builder("gateways", id)
        .members(members(port))
        .folder(format!("node-{id}"))
        .protocol(Protocol::Nezha)
        .durability(quorate::Durability::Memory)
        .clock(CLOCK)
        .start()
        .await?;
    let node = Arc::new(node);
    serve(port + 10 + id, move |add| {
        let node = Arc::clone(&node);
        async move { node.submit(add).await }
    })
    .await
}

async fn linked(port: u16) -> Result<Gateway<Counter>, quorate::StartError> {
    let members = members(port).map(|(_, address)| address);
    let gateway = Gateway::<Counter>::builder("gateways");
    gateway.members(members).clock(CLOCK).start().await
}

async fn gateway(port: u16) -> Done {
    let gateway = Arc::new(linked(port).await?);
    serve(port + 20, move |add| {
        let gateway = Arc::clone(&gateway);
        async move { gateway.submit(add).await }
    })
    .await
}

/// Starts this program in another role, in a folder, and waits until it serves.
async fn start(folder: &Path, role: &[String]) -> Result<Child, Box<dyn std::error::Error>> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(role)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = child.stdout.as_mut().ok_or("a process has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).await?;
    match line.starts_with("port ") {
        true => Ok(child),
        false => Err(format!("{role:?} does not serve").into()),
    }
}

/// Has one added so many times, one after the other, and prints how long that took.
async fn measure(
    way: &str,
    writes: u64,
    mut add: impl AsyncFnMut() -> Result<u64, Box<dyn std::error::Error>>,
) -> Done {
    let mut took = Vec::new();
    let mut sum = 0;
    for _ in 0..writes {
        let began = Instant::now();
        sum = add().await?;
        took.push(began.elapsed().as_micros());
    }
    took.sort_unstable();
    let at = |per_cent: usize| took[(took.len() - 1) * per_cent / 100];
    println!("| {way} | {} us | {} us | {sum} |", at(50), at(99));
    Ok(())
}

/// The lines of a process that serves.
struct Lines(BufReader<TcpStream>);

impl Lines {
    async fn to(port: u16) -> io::Result<Lines> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Lines(BufReader::new(stream)))
    }

    async fn add(&mut self) -> Result<u64, Box<dyn std::error::Error>> {
        self.0.write_all(b"1\n").await?;
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        line.trim().parse().map_err(|_| line.into())
    }
}

async fn compare(port: u16, writes: u64) -> Done {
    let folder = std::env::temp_dir().join(format!("quorate-gateways-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let node = |id: u16| ["node".to_owned(), id.to_string(), port.to_string()];
    let nodes = [node(1), node(2), node(3)];
    let [first, second, third] = nodes.each_ref().map(|role| start(&folder, role));
    let _nodes = tokio::try_join!(first, second, third)?;
    let _gateway = start(&folder, &["gateway".to_owned(), port.to_string()]).await?;
    println!(
        "| {writes} writes, one after the other, through | p50 | p99 | sum |\n|---|--:|--:|--:|"
    );
    for (way, port) in [("a node", port + 11), ("a gateway", port + 20)] {
        let mut lines = Lines::to(port).await?;
        measure(way, writes, async || lines.add().await).await?;
    }
    let own = linked(port).await?;
    measure("a gateway of its own", writes, async || {
        Ok(own.submit(1).await?)
    })
    .await?;
    own.stop().await?;
    Ok(std::fs::remove_dir_all(&folder)?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: u64| -> Result<u64, std::num::ParseIntError> {
        args.get(at).map_or(Ok(otherwise), |word| word.parse())
    };
    let port = |at| Ok::<u16, Box<dyn std::error::Error>>(number(at, 7000)?.try_into()?);
    match args.first().map(String::as_str) {
        Some("node") => node(number(1, 1)?.try_into()?, port(2)?).await,
        Some("gateway") => gateway(port(1)?).await,
        Some("measure") => compare(port(1)?, number(2, 1000)?).await,
        _ => Err("usage: gateways measure|gateway [PORT] | node ID [PORT]".into()),
    }
}
