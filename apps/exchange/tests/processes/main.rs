//! An exchange of processes: nothing is lost or doubled while replicas that lead are killed, and participants trade
//! over every door, as those that they prove to be.

mod browsers;
mod page;

use page::Page;
use quorate::Durability;
use quorate_exchange::book::{ParticipantId, Price, Pricing, SelfTrade, Side, TimeInForce};
use quorate_exchange::entry::{
    ClientMessage, OrderRequest, Report, ReportKind, ServerMessage, SessionEnd, Token,
};
use quorate_exchange::exchange::{Action, Outcome, SymbolId};
use quorate_exchange::fix;
use quorate_exchange::live::{BenchOptions, ExchangeOptions, Load, Places, bench};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_quorate-exchange");
/// How long nothing may come before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

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
        followed: 2,
        kills: 2,
    };
    let seen = bench(options).await.unwrap();
    assert_eq!(seen.kills, 2);
    assert!(seen.load.answered > 500 && seen.trades > 100, "{seen:?}");
    // On a busy machine what passes the relay together counts once.
    assert!(seen.relayed.total() > seen.load.answered / 4, "{seen:?}");
    // Two gateways and three replicas told every message; one of them was the first.
    let compared = seen.compared;
    assert!(compared.messages > seen.trades, "{seen:?}");
    let told_again = compared.of_gateways + compared.of_replicas;
    assert_eq!((told_again, compared.forgotten), (4 * compared.messages, 0));
}

/// A process that ends with the test.
struct Process(Child);

impl Process {
    fn start(command: &str, flags: &[&str], options: &[(&str, &str)]) -> Process {
        let mut process = Command::new(PROGRAM);
        process.arg(command).arg("--with-parent").args(flags);
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

/// A replica and a gateway; the options of the gateway are what starts it again.
struct Exchange {
    places: Places,
    options: Vec<(String, String)>,
    gateway: Process,
    _replica: Process,
}

impl Exchange {
    /// Starts an exchange of one symbol and four participants, with more options for both or for the gateway alone.
    fn start(folder: &Path, both: &[&str], of_gateway: &[(&str, &str)]) -> Exchange {
        let options = ExchangeOptions {
            replicas: 1,
            gateways: 1,
            ..ExchangeOptions::default()
        };
        let places = Places::free(&options).unwrap();
        let folder_of = |name: &str| folder.join(name).display().to_string();
        let replica = [
            ("--id", "1"),
            ("--members", &places.peers[0]),
            ("--gateways", &places.replicas[0]),
            ("--folder", &folder_of("replica")),
            ("--durability", "memory"),
            ("--symbols", "1"),
            ("--participants", "4"),
        ];
        let replica = Process::start("replica", both, &replica);
        let gateway_folder = folder_of("gateway");
        let gateway = [
            ("--id", "1"),
            ("--replicas", &*places.replicas[0]),
            ("--orders", &places.orders[0]),
            ("--feed", &places.feeds[0]),
            ("--web", &places.webs[0]),
            ("--listen-fix", &places.fixes[0]),
            ("--folder", &gateway_folder),
        ];
        let gateway = [&gateway, of_gateway].concat();
        let options = gateway
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let exchange = Exchange {
            options: options.collect(),
            gateway: Process::start("gateway", both, &gateway),
            places,
            _replica: replica,
        };
        Page::open(&exchange.places.webs[0]).hear(r#""symbols":1,"#);
        exchange
    }

    /// Kills the gateway as a crash does, and starts another one in its place.
    fn kill_gateway(&mut self, both: &[&str]) {
        self.gateway.0.kill().unwrap();
        self.gateway.0.wait().unwrap();
        let options = self.options.iter().map(|(name, value)| (&**name, &**value));
        let options: Vec<(&str, &str)> = options.collect();
        self.gateway = Process::start("gateway", both, &options);
    }
}

/// Connects to a process that is about to be there.
fn connect(address: &str) -> TcpStream {
    let stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(_) => thread::yield_now(),
        }
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A participant's end of a connection for orders.
struct Trader {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Trader {
    fn connect(address: &str) -> Trader {
        Trader {
            stream: connect(address),
            received: Vec::new(),
        }
    }

    fn say(&mut self, message: ClientMessage) {
        self.stream.write_all(&message.to_bytes()).unwrap();
    }

    /// The next message that is no heartbeat.
    fn hear(&mut self) -> ServerMessage {
        loop {
            match ServerMessage::take(&mut self.received).unwrap() {
                Some(ServerMessage::Heartbeat) => continue,
                Some(message) => return message,
                None => {}
            }
            let mut bytes = [0; 4096];
            let length = self.stream.read(&mut bytes).unwrap();
            assert!(length > 0, "the gateway ended the connection");
            self.received.extend_from_slice(&bytes[..length]);
        }
    }

    /// A connection on which a participant is logged in; a gateway that has just lost another one may take a moment.
    fn log_in(address: &str, participant: u16, token: &str) -> Trader {
        let participant = ParticipantId(participant);
        let login = ClientMessage::Login(participant, Token::of_text(token).unwrap());
        loop {
            let mut trader = Trader::connect(address);
            trader.say(login);
            match trader.hear() {
                ServerMessage::Ended(SessionEnd::Cancelling) => thread::yield_now(),
                ServerMessage::LoggedIn => return trader,
                other => panic!("{other:?}"),
            }
        }
    }

    fn enter(&mut self, number: u64, side: Side, quantity: u64, price: u32) {
        let action = Action::Enter {
            side,
            quantity,
            pricing: Pricing::Limit(Price(price)),
            time_in_force: TimeInForce::GoodTillCancel,
            post_only: false,
            self_trade: SelfTrade::CancelOldest,
        };
        let symbol = SymbolId(0);
        self.say(ClientMessage::Request(OrderRequest {
            symbol,
            number,
            action,
        }));
    }

    /// Waits for the answer to a request: an order that was entered, with so many lots open.
    fn has_open(&mut self, expected: u64) {
        loop {
            let ServerMessage::Report(Report { kind, .. }) = self.hear() else {
                panic!("no report");
            };
            if let ReportKind::Answered { outcome, .. } = kind {
                let open = match outcome {
                    Outcome::Entered(entered) => Ok(entered.open),
                    other => Err(other),
                };
                return assert_eq!(open, Ok(expected));
            }
        }
    }
}

/// An engine's end of a FIX connection.
struct Engine {
    stream: TcpStream,
    received: Vec<u8>,
    participant: u16,
    number: u64,
}

impl Engine {
    fn connect(address: &str, participant: u16, number: u64) -> Engine {
        Engine {
            stream: connect(address),
            received: Vec::new(),
            participant,
            number,
        }
    }

    fn say(&mut self, kind: &str, fields: &[(u32, &str)]) {
        let mut message = fix::Message::new(kind)
            .with(49, self.participant)
            .with(56, "EXCHANGE")
            .with(34, self.number)
            .with(52, "20260101-00:00:00.000");
        self.number += 1;
        for (tag, value) in fields {
            message.push(*tag, value);
        }
        self.stream.write_all(&message.to_bytes()).unwrap();
    }

    /// The next message of a type.
    fn hear(&mut self, kind: &str) -> fix::Message {
        loop {
            while let Some(message) = fix::Message::take(&mut self.received).unwrap() {
                if message.kind == kind {
                    return message;
                }
            }
            let mut bytes = [0; 4096];
            let length = self.stream.read(&mut bytes).unwrap();
            assert!(length > 0, "the gateway ended the connection before {kind}");
            self.received.extend_from_slice(&bytes[..length]);
        }
    }

    fn log_on(&mut self, password: &str) {
        let mut fields = vec![(98, "0"), (108, "30"), (554, password)];
        fields.retain(|(_, value)| !value.is_empty());
        self.say("A", &fields);
    }

    fn enter(&mut self, name: &str, side: &str, lots: &str) {
        let time = "20260101-00:00:00";
        let order = [
            (11, name),
            (54, side),
            (38, lots),
            (55, "0"),
            (40, "2"),
            (44, "100"),
            (60, time),
            (59, "1"),
        ];
        self.say("D", &order);
    }
}

fn write_tokens(folder: &Path) -> String {
    let path = folder.join("tokens");
    fs::write(&path, "0 token-of-zero\n1 token-of-one\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

#[test]
fn a_participant_needs_its_token_and_a_sign_of_life() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = write_tokens(folder.path());
    let options = [("--tokens", &*tokens), ("--idle", "2")];
    let exchange = Exchange::start(folder.path(), &[], &options);
    let (orders, fixes) = (&exchange.places.orders[0], &exchange.places.fixes[0]);
    for (participant, token) in [(0, "token-of-one"), (0, ""), (2, "token-of-one")] {
        let token = Token::of_text(token).unwrap();
        let mut trader = Trader::connect(orders);
        trader.say(ClientMessage::Login(ParticipantId(participant), token));
        assert_eq!(trader.hear(), ServerMessage::Ended(SessionEnd::Token));
    }
    let mut nobody = Trader::connect(orders);
    nobody.enter(1, Side::Buy, 1, 100);
    assert_eq!(nobody.hear(), ServerMessage::Ended(SessionEnd::Login));
    let mut trader = Trader::log_in(orders, 1, "token-of-one");
    // The gateway says that it is there, and hears nothing.
    assert_eq!(trader.hear(), ServerMessage::Ended(SessionEnd::Idle));
    let mut engine = Engine::connect(fixes, 0, 1);
    engine.log_on("token-of-one");
    let refused = engine.hear("5");
    assert_eq!(
        refused.get(58),
        Some("participant 0: the password (554) is wrong or missing")
    );
    let mut engine = Engine::connect(fixes, 0, 1);
    engine.log_on("token-of-zero");
    assert_eq!(engine.hear("A").number(34), Some(1));
}

#[test]
fn a_lost_connection_cancels_orders_and_a_log_out_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let both = ["--cancel-on-disconnect"];
    let mut exchange = Exchange::start(folder.path(), &both, &[]);
    let orders = exchange.places.orders[0].clone();
    let fixes = exchange.places.fixes[0].clone();
    // An order is cancelled with its connection.
    let mut page = Page::open(&exchange.places.webs[0]);
    let mut lost = Trader::log_in(&orders, 1, "");
    lost.enter(1, Side::Buy, 5, 50);
    lost.has_open(5);
    page.hear(r#""bids":[[50,5,1]]"#);
    // The gateway may hear of a new connection before it hears of the end of the old one, which then is not the last.
    drop(lost);
    page.hear(r#""bids":[]"#);
    let mut trader = Trader::log_in(&orders, 1, "");
    trader.enter(2, Side::Sell, 3, 50);
    trader.has_open(3);
    trader.say(ClientMessage::Logout);
    // An engine finds the order that was logged out of, and loses its own with its connection.
    let mut engine = Engine::connect(&fixes, 2, 1);
    engine.log_on("");
    engine.enter("1", "1", "4");
    assert_eq!(engine.hear("8").get(150), Some("0"));
    assert_eq!(engine.hear("8").get(32), Some("3"));
    page.hear(r#""bids":[[100,1,1]]"#);
    let number = engine.number;
    drop(engine);
    page.hear(r#""bids":[]"#);
    let cancelled = loop {
        let mut engine = Engine::connect(&fixes, 2, number);
        engine.log_on("");
        let mut bytes = [0; 4096];
        let length = engine.stream.read(&mut bytes).unwrap();
        engine.received.extend_from_slice(&bytes[..length]);
        if engine.received.windows(5).any(|part| part == b"35=A\x01") {
            engine.say("2", &[(7, "4"), (16, "0")]);
            break engine.hear("8");
        }
    };
    assert_eq!(
        (cancelled.get(39), cancelled.get(14)),
        (Some("4"), Some("3"))
    );
    // A gateway that dies takes its connections with it; the next one has the orders of its engines cancelled.
    let mut engine = Engine::connect(&fixes, 3, 1);
    engine.log_on("");
    engine.enter("1", "1", "2");
    assert_eq!(engine.hear("8").get(150), Some("0"));
    exchange.kill_gateway(&both);
    Trader::log_in(&orders, 3, "");
    let mut trader = Trader::log_in(&orders, 1, "");
    trader.enter(3, Side::Sell, 1, 100);
    trader.has_open(1);
}

/// Scenario: the gateway is killed with a filled order that its engine has not heard of, and the engine too.
#[test]
fn a_fix_session_goes_on_after_both_ends_were_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut exchange = Exchange::start(folder.path(), &[], &[]);
    let (orders, fixes) = (
        exchange.places.orders[0].clone(),
        exchange.places.fixes[0].clone(),
    );
    let mut engine = Engine::connect(&fixes, 2, 1);
    engine.log_on("");
    engine.enter("1", "1", "4");
    assert_eq!(engine.hear("8").get(150), Some("0"));
    drop(engine);
    exchange.kill_gateway(&[]);
    let mut trader = Trader::log_in(&orders, 1, "");
    trader.enter(1, Side::Sell, 3, 100);
    // The engine sent something that never came, and is asked for it.
    let mut engine = Engine::connect(&fixes, 2, 4);
    engine.log_on("");
    let asked = engine.hear("2");
    assert_eq!((asked.number(7), asked.number(16)), (Some(3), Some(0)));
    engine.number = 3;
    let time = "20260101-00:00:00";
    let again = [
        (43, "Y"),
        (122, time),
        (11, "2"),
        (54, "1"),
        (38, "1"),
        (55, "0"),
        (40, "2"),
        (44, "90"),
        (60, time),
    ];
    engine.say("D", &again);
    engine.say("4", &[(43, "Y"), (122, time), (123, "Y"), (36, "5")]);
    // And asks for what it missed.
    engine.number = 5;
    engine.say("2", &[(7, "3"), (16, "0")]);
    loop {
        let report = engine.hear("8");
        if report.get(11) == Some("1") {
            assert_eq!((report.get(32), report.get(151)), (Some("3"), Some("1")));
            break;
        }
        assert_eq!((report.get(11), report.get(150)), (Some("2"), Some("0")));
    }
}
