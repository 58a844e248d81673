//! A replica that follows: its server that takes nothing of the stream or ends the driver's connection, its patience
//! with executors, and offices that change hands.

use bytes::Bytes;
use quorate_core::{Application, At, ReplicaId, Wire};
use quorate_redis_effects::{
    Command, Config, Conn, Driver, Flavour, GENESIS_OFFSET, Input, Life, MemoryFiles, Note,
    Outcome, Output, Role, ServerVersion, Shared, Stream,
};
use std::sync::Arc;

const LIFE: Life = Life(1);
const STEP_NS: u64 = 100_000_000;
const MS: u64 = 1_000_000;

const VERSION: ServerVersion = ServerVersion {
    flavour: Flavour::Valkey,
    number: (8, 1, 0),
};

/// The claim of another replica; no two that follow each other are of one.
fn claim(over: u64) -> Command {
    Command::Claim {
        over,
        by: ReplicaId(2 + (over % 2) as u16),
        boot: 1,
        version: VERSION,
    }
}

/// A driver, a stream that another replica makes longer, and a server that is at this offset.
struct Group {
    driver: Driver,
    stream: Stream,
    len: u64,
    now_ns: u64,
    offset: u64,
    /// Why servers were replaced.
    reloads: Vec<String>,
    claims: u64,
    /// Whether the executor answers probes.
    answers: bool,
    /// Connections for commands that the driver wants.
    connects: u64,
    is_master: bool,
    /// The replicas that the driver has offered its office.
    offers: Vec<ReplicaId>,
    /// The token of the newest claim.
    claim_token: u64,
    is_paused: bool,
    /// What the server replies to every `ROLE`, in the place of what is right; nothing if that is empty.
    role_reply: Option<&'static str>,
    /// Processes that were started, and why the driver has given up.
    starts: Vec<Life>,
    failure: Option<String>,
}

impl Group {
    fn new() -> Group {
        let shared = Shared::new(Arc::new(MemoryFiles), Box::new(|| {}));
        let mut stream = Stream::new(Arc::clone(&shared));
        stream.apply(At::default(), &claim(0).to_bytes(), &[]);
        let mut group = Group {
            driver: Driver::new(Config::new(ReplicaId(1), 1, VERSION), shared),
            stream,
            len: GENESIS_OFFSET,
            now_ns: 0,
            offset: GENESIS_OFFSET,
            reloads: Vec::new(),
            claims: 0,
            answers: false,
            connects: 0,
            is_master: false,
            offers: Vec::new(),
            claim_token: 0,
            is_paused: false,
            role_reply: None,
            starts: Vec::new(),
            failure: None,
        };
        let (life, conn) = (LIFE, Conn::Control);
        group.tell(Input::Started { life });
        group.tell(Input::Opened { life, conn });
        group.say(Conn::Control, "+OK\r\n");
        group.follow();
        group.reloads.clear();
        group.connects = 0;
        group
    }

    /// The server asks for the stream.
    fn follow(&mut self) {
        let (life, conn) = (LIFE, Conn::Link);
        self.tell(Input::Opened { life, conn });
        self.say(conn, "PING\r\n");
        self.say(conn, &format!("PSYNC ? {}\r\n", self.offset + 1));
    }

    /// The replica claims, and takes office.
    fn execute(&mut self) {
        let claim = Command::Claim {
            over: 1,
            by: ReplicaId(1),
            boot: 1,
            version: VERSION,
        };
        self.stream.apply(At::default(), &claim.to_bytes(), &[]);
        self.tell(Input::Shared);
        assert_eq!(self.driver.status().role, Role::Executing);
    }

    /// What the server replies to a request on the connection for commands or the tap.
    fn reply(&mut self, conn: Conn, request: &[u8]) -> Option<String> {
        let has = |word: &str| {
            request
                .windows(word.len())
                .any(|part| part == word.as_bytes())
        };
        let offset = self.offset;
        match conn {
            Conn::Control if has("ROLE") && self.role_reply.is_some() => {
                let reply = self.role_reply.filter(|reply| !reply.is_empty());
                reply.map(str::to_owned)
            }
            Conn::Control if has("ROLE") && self.is_master => {
                Some(format!("*3\r\n$6\r\nmaster\r\n:{offset}\r\n*0\r\n"))
            }
            Conn::Control if has("ROLE") => {
                let parts = "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$9\r\nconnected\r\n";
                Some(format!("{parts}:{offset}\r\n"))
            }
            Conn::Control if has("REPLICAOF") => {
                self.is_master = true;
                Some("+OK\r\n".to_owned())
            }
            Conn::Tap if has("PSYNC") => Some("+CONTINUE\r\n".to_owned()),
            Conn::Tap if !has("ACK") => Some("+OK\r\n".to_owned()),
            _ => None,
        }
    }

    /// The connection for commands ends, and what the server says on the next one, if the driver wants that.
    fn cut(&mut self, greeting: Option<&str>) {
        let (life, conn) = (LIFE, Conn::Control);
        let connects = self.connects;
        self.tell(Input::Closed { life, conn });
        while self.connects == connects && self.reloads.is_empty() {
            self.pass(1);
        }
        if let Some(greeting) = greeting {
            self.tell(Input::Opened { life, conn });
            self.say(Conn::Control, greeting);
        }
    }

    fn say(&mut self, conn: Conn, text: &str) {
        let (life, bytes) = (LIFE, Bytes::copy_from_slice(text.as_bytes()));
        self.tell(Input::Bytes { life, conn, bytes });
    }

    fn tell(&mut self, input: Input) {
        self.driver.input(self.now_ns, input);
        while let Some(output) = self.driver.output() {
            match output {
                Output::Write { conn, bytes, .. } => {
                    if let Some(reply) = self.reply(conn, &bytes) {
                        self.say(conn, &reply);
                    }
                }
                Output::Connect {
                    conn: Conn::Control,
                    ..
                } => self.connects += 1,
                Output::Connect {
                    life,
                    conn: Conn::Tap,
                } => self.tell(Input::Opened {
                    life,
                    conn: Conn::Tap,
                }),
                Output::Offer { peer, .. } => self.offers.push(peer),
                Output::Pause(is_paused) => self.is_paused = is_paused,
                Output::Start { life, .. } => self.starts.push(life),
                Output::Fail(why) => self.failure = Some(why),
                Output::Note(Note::Reload { why, .. }) => self.reloads.push(why),
                Output::Submit { token, .. } => {
                    self.claims += 1;
                    self.claim_token = token;
                }
                Output::Probe { peer, .. } if self.answers => self.tell(Input::PeerAlive { peer }),
                _ => {}
            }
        }
    }

    /// How long the driver waits, in milliseconds, before it claims over an epoch; another replica does so first.
    fn waits_before_claim(&mut self, over: u64) -> u64 {
        let began_ns = self.now_ns;
        while self.claims == 0 {
            self.now_ns += STEP_NS;
            self.tell(Input::Tick);
        }
        self.claims = 0;
        self.stream
            .apply(At::default(), &claim(over).to_bytes(), &[]);
        self.tell(Input::Shared);
        (self.now_ns - began_ns) / 1_000_000
    }

    /// The stream gets longer by one unit.
    fn grow(&mut self) {
        let bytes = Bytes::from_static(b"*1\r\n$4\r\nPING\r\n");
        let start = self.len;
        self.len += bytes.len() as u64;
        let piece = Command::Effects {
            epoch: 1,
            start,
            bytes,
            last: true,
        };
        self.stream.apply(At::default(), &piece.to_bytes(), &[]);
        self.tell(Input::Shared);
    }

    /// Seconds in which the driver is told the time when it wants to be.
    fn pass(&mut self, seconds: u64) {
        self.pass_by(STEP_NS, seconds * 1_000 * MS);
    }

    /// A time in which the driver is told what time it is after each step, if it wants to be.
    fn pass_by(&mut self, step_ns: u64, all_ns: u64) {
        let end_ns = self.now_ns + all_ns;
        while self.now_ns < end_ns {
            self.now_ns += step_ns;
            if self.driver.deadline().is_some() {
                self.tell(Input::Tick);
            }
        }
    }
}

#[test]
fn a_server_that_answers_and_takes_nothing_is_replaced() {
    let mut group = Group::new();
    group.grow();
    group.pass(29);
    assert_eq!(group.reloads, Vec::<String>::new());
    group.pass(3);
    assert_eq!(group.reloads, ["it takes nothing of the stream"]);
}

#[test]
fn a_server_that_stops_after_it_had_all_is_replaced() {
    let mut group = Group::new();
    group.pass(60);
    assert_eq!(group.driver.deadline(), None, "nothing is to be done");
    group.grow();
    group.offset = group.len;
    group.pass(60);
    assert_eq!(group.driver.deadline(), None, "it has all again");
    group.grow();
    group.pass(29);
    assert_eq!(group.reloads, Vec::<String>::new());
    group.pass(3);
    assert_eq!(group.reloads, ["it takes nothing of the stream"]);
}

#[test]
fn a_server_that_takes_the_stream_slowly_stays() {
    let mut group = Group::new();
    for _ in 0..10 {
        group.grow();
        group.grow();
        group.pass(20);
        group.offset += 14;
    }
    assert_eq!(group.reloads, Vec::<String>::new());
}

#[test]
fn where_executors_change_often_each_is_given_longer() {
    let mut group = Group::new();
    group.tell(Input::Waiting(true));
    let waits: Vec<u64> = (1..7).map(|over| group.waits_before_claim(over)).collect();
    assert_eq!(waits, [800, 1600, 3200, 6400, 6400, 6400]);
    group.tell(Input::Waiting(false));
    group.pass(60);
    group.tell(Input::Waiting(true));
    let waits: Vec<u64> = (7..10).map(|over| group.waits_before_claim(over)).collect();
    assert_eq!(waits, [6400, 800, 1600], "it has served for a minute");
}

#[test]
fn an_executor_that_is_cut_off_is_given_no_longer() {
    let mut group = Group::new();
    for over in 1..6 {
        group.pass(4);
        group.tell(Input::Waiting(true));
        let peer = ReplicaId(2 + (over + 1) as u16 % 2);
        let down = true;
        group.tell(Input::PeerDown { peer, down });
        assert_eq!(group.waits_before_claim(over), 200);
        let down = false;
        group.tell(Input::PeerDown { peer, down });
        group.tell(Input::Waiting(false));
    }
}

/// Clients wait half a second, and come again after a while.
fn wait_and_give_up(group: &mut Group, times: u32, pause_steps: u64) {
    for _ in 0..times {
        group.tell(Input::Waiting(true));
        for _ in 0..5 {
            group.now_ns += STEP_NS;
            group.tell(Input::Tick);
        }
        group.tell(Input::Waiting(false));
        group.now_ns += pause_steps * STEP_NS;
    }
}

#[test]
fn an_executor_is_given_up_though_no_client_waits_that_long() {
    let mut group = Group::new();
    wait_and_give_up(&mut group, 2, 1);
    assert_eq!(group.claims, 1, "it was silent for 1100 ms");
}

#[test]
fn an_executor_that_answers_is_not_given_up_whenever_clients_come() {
    let mut group = Group::new();
    group.answers = true;
    wait_and_give_up(&mut group, 20, 1);
    wait_and_give_up(&mut group, 20, 20);
    group.answers = false;
    wait_and_give_up(&mut group, 20, 31);
    assert_eq!(group.claims, 0);
}

#[test]
fn a_connection_that_somebody_ended_is_opened_again() {
    let mut group = Group::new();
    for _ in 0..100 {
        group.cut(Some("+OK\r\n"));
        group.grow();
        group.offset = group.len;
        group.pass(2);
    }
    assert_eq!(group.reloads, Vec::<String>::new());
    assert_eq!(group.driver.status().server_offset, group.len);
}

#[test]
fn a_server_that_takes_no_connection_is_replaced() {
    let mut group = Group::new();
    while group.reloads.is_empty() {
        group.cut(None);
    }
    assert_eq!(group.reloads, ["the server closed the driver's connection"]);
    assert!(group.connects > 1, "{}", group.connects);
}

/// A server may follow a moment later, and a first claim may be lost.
#[test]
fn an_office_that_is_offered_too_early_is_taken() {
    let mut group = Group::new();
    let (life, conn) = (LIFE, Conn::Link);
    group.tell(Input::Closed { life, conn });
    group.tell(Input::Offered { epoch: 1 });
    group.pass_by(MS, 100 * MS);
    assert_eq!(group.claims, 0, "its server does not follow");
    group.follow();
    assert_eq!(group.claims, 1);
    let token = group.claim_token;
    group.tell(Input::Result {
        token,
        result: None,
    });
    for _ in 0..9 {
        group.tell(Input::Offered { epoch: 1 });
        group.pass_by(MS, 100 * MS);
    }
    assert_eq!(group.claims, 2, "a claim that came to nothing is repeated");
    assert_eq!(group.driver.status().role, Role::Following);
}

/// Clients of an executor that has given up the move are not driven out.
#[test]
fn an_offer_that_is_not_repeated_lapses() {
    let mut group = Group::new();
    let (life, conn) = (LIFE, Conn::Link);
    group.tell(Input::Closed { life, conn });
    group.tell(Input::Offered { epoch: 1 });
    group.pass_by(MS, 400 * MS);
    group.follow();
    group.pass(10);
    assert_eq!(group.claims, 0);
    assert_eq!(group.driver.deadline(), None, "nothing is to be done");
}

#[test]
fn an_executor_offers_its_office_until_it_is_taken() {
    let mut group = Group::new();
    group.execute();
    group.tell(Input::MoveTo(ReplicaId(2)));
    group.pass_by(5 * MS, 1_000 * MS);
    assert!((8..=11).contains(&group.offers.len()), "{:?}", group.offers);
    assert!(group.offers.iter().all(|peer| *peer == ReplicaId(2)));
    assert!(group.is_paused, "nothing new is begun here");
    group.offers.clear();
    group.tell(Input::MoveTo(ReplicaId(3)));
    group.pass_by(5 * MS, 1_000 * MS);
    assert!(group.offers.len() > 5, "another one is to execute");
    assert!(group.offers.iter().all(|peer| *peer == ReplicaId(3)));
    group.pass_by(5 * MS, 4_100 * MS);
    assert!(!group.is_paused, "nobody took it");
    group.offers.clear();
    group.pass(5);
    assert_eq!((group.offers.len(), group.claims), (0, 0));
    group.tell(Input::MoveTo(ReplicaId(2)));
    group.stream.apply(At::default(), &claim(2).to_bytes(), &[]);
    group.tell(Input::Shared);
    assert_eq!(group.driver.status().role, Role::Leaving);
}

/// Executes, and a client waits for the answer to what it asked.
fn executing_for_a_client() -> Group {
    let mut group = Group::new();
    group.execute();
    (group.is_master, group.role_reply) = (true, Some(""));
    let (total, held) = (1, 10);
    group.tell(Input::Answers { total, held });
    group
}

#[test]
fn a_server_that_is_busy_for_a_minute_keeps_its_office() {
    let mut group = executing_for_a_client();
    group.role_reply = Some("-BUSY Redis is busy running a script.\r\n");
    // The barrier that was asked for.
    group.say(Conn::Control, "-BUSY Redis is busy running a script.\r\n");
    group.pass_by(5 * MS, 60_000 * MS);
    assert_eq!(group.reloads, Vec::<String>::new());
    assert_eq!(group.driver.status().role, Role::Executing);
}

#[test]
fn a_server_that_says_nothing_is_replaced() {
    let mut group = executing_for_a_client();
    group.pass(29);
    assert_eq!(group.driver.status().role, Role::Executing);
    group.pass(3);
    assert_eq!(group.reloads, ["it does not answer"]);
    assert_eq!(group.driver.status().role, Role::Loading);
}

#[test]
fn a_copy_of_the_data_that_no_server_survives_is_told() {
    let mut group = Group::new();
    for deaths in 1..=3 {
        assert_eq!(group.failure, None, "{deaths} deaths");
        let (life, why) = (*group.starts.last().unwrap(), "exit status: 1".to_owned());
        group.tell(Input::Died { life, why });
        group.pass(1);
    }
    let why = group.failure.unwrap();
    assert!(
        why.contains("the RDB at offset 1, which may be damaged; the last time: exit status: 1"),
        "{why}"
    );
    assert_eq!(group.driver.status().role, Role::Failed);
}

#[test]
fn a_server_that_is_older_than_the_data_is_told() {
    let mut group = Group::new();
    group.tell(Input::Offered { epoch: 1 });
    let needed = ServerVersion {
        number: (9, 1, 0),
        ..VERSION
    };
    let result = Some(Outcome::Unfit { needed }.to_bytes());
    let token = group.claim_token;
    group.tell(Input::Result { token, result });
    let why = group.failure.unwrap();
    assert!(
        why.contains("the data was written by Valkey 9.1.0, and this server is Valkey 8.1.0"),
        "{why}"
    );
}
