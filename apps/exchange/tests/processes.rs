//! An exchange of processes: nothing is lost or doubled while replicas that lead are killed, and a browser trades.

use quorate::Durability;
use quorate_exchange::live::{BenchOptions, ExchangeOptions, Load, Places, bench};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_quorate-exchange");

#[tokio::test]
async fn nothing_is_lost_or_doubled_while_leaders_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let exchange = ExchangeOptions {
        folder: folder.path().to_owned(),
        durability: Durability::Disk,
        ..ExchangeOptions::default()
    };
    let options = BenchOptions {
        program: PROGRAM.into(),
        load: Load {
            participants: exchange.participants,
            symbols: exchange.symbols,
            rate: 400,
            time_ns: 6_000_000_000,
            seed: 1,
        },
        exchange,
        way_ns: 50_000,
        jitter_ns: 50_000,
        kills: 2,
    };
    let seen = bench(options).await.unwrap();
    assert_eq!(seen.kills, 2);
    assert!(seen.load.answered > 500 && seen.trades > 100, "{seen:?}");
    assert!(seen.relayed.total() > seen.load.answered, "{seen:?}");
}

/// A process that ends with the test.
struct Process(Child);

impl Process {
    fn start(command: &str, options: &[(&str, &str)]) -> Process {
        let mut process = Command::new(PROGRAM);
        process.arg(command).arg("--with-parent");
        for (name, value) in options {
            process.arg(name).arg(value);
        }
        Process(process.stdin(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn start(folder: &Path) -> (Places, [Process; 2]) {
    let options = ExchangeOptions {
        replicas: 1,
        gateways: 1,
        ..ExchangeOptions::default()
    };
    let places = Places::free(&options).unwrap();
    let replica = [
        ("--id", "1"),
        ("--members", &places.peers[0]),
        ("--gateways", &places.replicas[0]),
        ("--folder", folder.to_str().unwrap()),
        ("--durability", "memory"),
        ("--symbols", "1"),
        ("--participants", "2"),
    ];
    let gateway = [
        ("--id", "1"),
        ("--replicas", &*places.replicas[0]),
        ("--orders", &places.orders[0]),
        ("--feed", &places.feeds[0]),
        ("--web", &places.webs[0]),
    ];
    let processes = [
        Process::start("replica", &replica),
        Process::start("gateway", &gateway),
    ];
    (places, processes)
}

/// A browser's end of a WebSocket.
struct Page {
    stream: TcpStream,
    heard: String,
}

impl Page {
    fn open(address: &str) -> Page {
        let mut stream = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(_) => thread::yield_now(),
            }
        };
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).unwrap();
        let request = format!(
            "GET /feed HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let heard = String::new();
        let mut page = Page { stream, heard };
        page.hear("HTTP/1.1 101 ");
        page
    }

    /// Says some words, in a frame that is masked with zeros.
    fn say(&mut self, words: &str) {
        let length = 0x80 | u8::try_from(words.len()).unwrap();
        let mut frame = vec![0x81, length, 0, 0, 0, 0];
        frame.extend_from_slice(words.as_bytes());
        self.stream.write_all(&frame).unwrap();
    }

    /// Waits until these words came, and forgets what came up to them.
    fn hear(&mut self, words: &str) {
        let mut bytes = [0; 4096];
        let end = loop {
            if let Some(at) = self.heard.find(words) {
                break at + words.len();
            }
            let length = self.stream.read(&mut bytes).unwrap();
            assert!(length > 0, "the gateway said {}", self.heard);
            self.heard += &String::from_utf8_lossy(&bytes[..length]);
        };
        self.heard.drain(..end);
    }
}

#[test]
fn browsers_see_the_book_and_trade() {
    let folder = tempfile::tempdir().unwrap();
    let (places, _processes) = start(&folder.path().join("replica"));
    let mut buyer = Page::open(&places.webs[0]);
    buyer.hear(r#""symbols":1,"#);
    buyer.say("login 0");
    buyer.say("buy 5 100");
    buyer.hear("accepted: 0 traded, 5 wait, 0 cancelled");
    buyer.hear(r#""buy",100,5]]}}"#);
    let mut seller = Page::open(&places.webs[0]);
    seller.hear(r#""bids":[[100,5,1]]"#);
    seller.say("login 1");
    seller.say("sell 3 99");
    seller.hear("accepted: 3 traded, 0 wait, 0 cancelled");
    buyer.hear("3 traded at 100");
    buyer.hear(r#""bids":[[100,2,1]]"#);
    let mut page = TcpStream::connect(&places.webs[0]).unwrap();
    page.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut html = String::new();
    page.read_to_string(&mut html).unwrap();
    assert!(html.starts_with("HTTP/1.1 200 OK\r\n") && html.ends_with("</html>\n"));
}
