//! Datagrams between two sets of links over real sockets, with a network in between that does as it is told.

use super::*;
use crate::peer::Arrival;
use crate::peer::handshake::Identity;
use crate::peer::handshake::tests::identity;
use crate::peer::tests::{Replica, frame, next, up};
use crate::security::{bind, bind_datagrams};
use quorate_core::Boot;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::Mutex;

/// What becomes of a datagram on its way: whatever is returned arrives.
type Rule = Box<dyn FnMut(Vec<u8>) -> Vec<Vec<u8>> + Send>;

/// A network on the way to one replica, for datagrams and for connections, which pass.
#[derive(Clone)]
struct Network {
    rule: Arc<Mutex<Rule>>,
    address: SocketAddr,
}

impl Network {
    fn before(receiver: SocketAddr, rule: Rule) -> Network {
        let port = bind("127.0.0.1:0").unwrap();
        let datagrams = bind_datagrams(&port).unwrap();
        port.set_nonblocking(true).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let network = Network {
            rule: Arc::new(Mutex::new(rule)),
            address: port.local_addr().unwrap(),
        };
        let port = tokio::net::TcpListener::from_std(port).unwrap();
        let socket = tokio::net::UdpSocket::from_std(datagrams).unwrap();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = port.accept().await {
                tokio::spawn(async move {
                    let mut far = tokio::net::TcpStream::connect(receiver).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        let rule = Arc::clone(&network.rule);
        tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length) = socket.recv(&mut buffer).await {
                let arriving = (rule.lock().unwrap())(buffer[..length].to_vec());
                for datagram in arriving {
                    let _ = socket.send_to(&datagram, receiver).await;
                }
            }
        });
        network
    }

    fn becomes(&self, rule: Rule) {
        *self.rule.lock().unwrap() = rule;
    }
}

fn whole() -> Rule {
    Box::new(|datagram| vec![datagram])
}

fn blocked() -> Rule {
    Box::new(|_| Vec::new())
}

struct Pair {
    one: Replica,
    two: Replica,
    /// On the way to replica 2.
    network: Network,
    /// Where replica 2 is.
    receiver: SocketAddr,
    /// Where replica 1 is, so that it can start there again.
    port: std::net::TcpListener,
}

/// Two replicas that know each other; both take datagrams.
async fn pair(rule: Rule) -> Pair {
    start(Some(rule)).await
}

/// Starts two replicas with a rule between them, or with nothing in between if there is none.
async fn start(rule: Option<Rule>) -> Pair {
    let ports = [bind("127.0.0.1:0").unwrap(), bind("127.0.0.1:0").unwrap()];
    let [first, receiver] = ports.each_ref().map(|port| port.local_addr().unwrap());
    let is_between = rule.is_some();
    let network = Network::before(receiver, rule.unwrap_or_else(blocked));
    let second = if is_between {
        network.address
    } else {
        receiver
    };
    let kept = ports[0].try_clone().unwrap();
    let [port, its_port] = ports.map(|port| {
        let datagrams = Datagrams::new(bind_datagrams(&port).unwrap(), 1);
        (port, Some(datagrams.unwrap()))
    });
    let mut two = Replica::start(its_port, identity(2), (1, &first.to_string()));
    let mut one = Replica::start(port, identity(1), (2, &second.to_string()));
    up(&mut one).await;
    up(&mut two).await;
    Pair {
        one,
        two,
        network,
        receiver,
        port: kept,
    }
}

/// Waits until a figure of replica 1 is what is expected.
async fn until(replica: &Replica, name: &str, expected: impl Fn(u64) -> bool) {
    let reached = async {
        while !expected(replica.figure(name)) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let reached = timeout(Duration::from_secs(10), reached).await;
    reached.unwrap_or_else(|_| panic!("{name} is still {}", replica.figure(name)));
}

const OPEN: &str = "quorate_peer_datagrams{peer=\"2\"}";
const SENT: &str = "quorate_peer_sent_datagrams_total{peer=\"2\"}";
const LONG: &str = "quorate_peer_frames_by_tcp_total{peer=\"2\",why=\"long\"}";
const FULL: &str = "quorate_peer_frames_by_tcp_total{peer=\"2\",why=\"full\"}";
const MISSED: &str = "quorate_peer_missed_datagrams_total{peer=\"1\"}";
const REFUSED: &str = "quorate_peer_refused_datagrams_total";

async fn next_frame(replica: &mut Replica) -> Bytes {
    loop {
        if let Arrival::Frame { payload, .. } = next(replica).await {
            return payload;
        }
    }
}

/// Sends a frame again and again until it arrives; what arrives beside it was sent before.
async fn until_arrived(pair: &mut Pair, payload: &[u8]) {
    let Pair { one, two, .. } = pair;
    let arrives = async {
        loop {
            one.links.send(vec![frame(payload)]);
            let arrived = timeout(Duration::from_millis(20), next_frame(two)).await;
            if arrived.is_ok_and(|arrived| arrived == payload) {
                return;
            }
        }
    };
    let arrived = timeout(Duration::from_secs(10), arrives).await;
    arrived.expect("it never arrives");
}

/// Scenario: frames of every length in one turn; what fits into datagrams goes by these, the rest by TCP.
#[tokio::test]
async fn short_frames_go_by_datagram_and_long_ones_beside_them() {
    let mut pair = start(None).await;
    until(&pair.one, OPEN, |open| open == 1).await;
    let lengths = [1, 3000, 3000, 3000, 2000, 12_000, 100_000, 5, 9 << 20];
    let payloads = lengths.map(|length| vec![length as u8; length]);
    let frames = payloads.iter().map(|payload| frame(payload));
    pair.one.links.send(frames.collect());
    let mut arrived = Vec::new();
    for _ in &payloads {
        arrived.push(next_frame(&mut pair.two).await.to_vec());
    }
    arrived.sort();
    let mut expected = payloads.to_vec();
    expected.sort();
    assert!(arrived == expected);
    let (long, sent) = (pair.one.figure(LONG), pair.one.figure(SENT));
    assert_eq!(long, 2, "frames by TCP");
    assert_eq!(sent, 2, "24 KB are two of the longest datagrams");
}

/// Scenario: the kernel is given many datagrams of one length at once, and a shorter one behind them.
#[tokio::test]
async fn a_turn_of_many_frames_arrives_whole() {
    let mut pair = start(None).await;
    until(&pair.one, OPEN, |open| open == 1).await;
    let payload = |n: usize| {
        let length = if n == 39 { 100 } else { 9000 };
        let mut payload = vec![7; length];
        payload[0] = n as u8;
        payload
    };
    let frames = (0..40).map(|n| frame(&payload(n)));
    pair.one.links.send(frames.collect());
    let mut arrived = BTreeSet::new();
    for _ in 0..40 {
        arrived.insert(next_frame(&mut pair.two).await.to_vec());
    }
    assert_eq!(arrived, (0..40).map(payload).collect());
    assert!(pair.one.figure(SENT) > 0);
}

/// Scenario: a network that loses every third datagram, doubles every fifth and lets every seventh be
/// overtaken. Who says everything again until it has arrived gets through, and nothing else arrives.
#[tokio::test]
async fn a_network_that_loses_doubles_and_reorders_is_borne() {
    let mut pair = pair(whole()).await;
    until(&pair.one, OPEN, |open| open == 1).await;
    let (mut count, mut late) = (0, Vec::new());
    pair.network.becomes(Box::new(move |datagram| {
        count += 1;
        match count {
            n if n % 3 == 0 => Vec::new(),
            n if n % 7 == 0 => {
                late.push(datagram);
                Vec::new()
            }
            n if n % 5 == 0 => [vec![datagram.clone(), datagram], late.split_off(0)].concat(),
            _ => vec![datagram],
        }
    }));
    let mut missing: BTreeSet<u32> = (0..200).collect();
    let arrive = async {
        while !missing.is_empty() {
            for number in &missing {
                pair.one.links.send(vec![frame(&number.to_le_bytes())]);
            }
            let pause = Duration::from_millis(20);
            while let Ok(arrived) = timeout(pause, next_frame(&mut pair.two)).await {
                let number = u32::from_le_bytes(arrived[..].try_into().expect("a number"));
                assert!(number < 200, "{number} was never sent");
                missing.remove(&number);
            }
        }
    };
    let arrived = timeout(Duration::from_secs(20), arrive).await;
    arrived.expect("not all numbers arrive");
    assert!(pair.two.figure(MISSED) > 0);
}

/// Scenario: datagrams never arrive, then they do, then they do not any more. Frames arrive throughout.
#[tokio::test]
async fn where_datagrams_do_not_arrive_frames_go_by_tcp() {
    let mut pair = pair(blocked()).await;
    until_arrived(&mut pair, b"by TCP").await;
    assert_eq!((pair.one.figure(OPEN), pair.one.figure(SENT)), (0, 0));
    pair.network.becomes(whole());
    until(&pair.one, OPEN, |open| open == 1).await;
    until_arrived(&mut pair, b"by UDP").await;
    assert!(pair.one.figure(SENT) > 0);
    pair.network.becomes(blocked());
    until_arrived(&mut pair, b"by TCP again").await;
    assert_eq!(pair.one.figure(OPEN), 0);
}

/// Scenario: the network comes to lose all datagrams beyond 1400 bytes.
#[tokio::test]
async fn a_way_that_becomes_one_for_shorter_datagrams_is_noticed() {
    let mut pair = pair(whole()).await;
    until(&pair.one, OPEN, |open| open == 1).await;
    pair.network.becomes(Box::new(|datagram| {
        let fits = datagram.len() <= 1400;
        fits.then_some(datagram).into_iter().collect()
    }));
    until_arrived(&mut pair, &[3; 3000]).await;
    until_arrived(&mut pair, &[4; 1000]).await;
    pair.network.becomes(whole());
    let again = async {
        loop {
            let long = pair.one.figure(LONG);
            until_arrived(&mut pair, &[5; 3000]).await;
            if pair.one.figure(LONG) == long {
                return;
            }
        }
    };
    let again = timeout(Duration::from_secs(10), again).await;
    again.expect("longer datagrams are not tried again");
}

/// Scenario: the receiver does not take what arrives. What its kernel has no room for goes by TCP and waits there:
/// everything is there once it looks.
#[tokio::test]
async fn a_receiver_that_is_slow_loses_nothing() {
    let mut pair = start(None).await;
    until(&pair.one, OPEN, |open| open == 1).await;
    let (rounds, frames) = (60_u32, 100);
    for round in 0..rounds {
        let numbered = |n: u32| {
            let mut payload = vec![0; 1000];
            payload[..4].copy_from_slice(&(round * frames + n).to_le_bytes());
            frame(&payload)
        };
        pair.one.links.send((0..frames).map(numbered).collect());
        tokio::task::yield_now().await;
    }
    let mut arrived = BTreeSet::new();
    for _ in 0..rounds * frames {
        let payload = next_frame(&mut pair.two).await;
        assert!(arrived.insert(payload[..4].to_vec()), "twice");
    }
    assert!(pair.one.figure(FULL) > 0, "nothing was too much");
    assert_eq!(pair.two.figure(MISSED), 0);
}

/// Scenario: just after a report so much is lost at once that there is no room for another datagram, which could ask
/// for the next one.
#[tokio::test]
async fn a_window_full_of_lost_datagrams_opens_again() {
    let mut pair = pair(whole()).await;
    until(&pair.one, OPEN, |open| open == 1).await;
    until_arrived(&mut pair, b"a report follows").await;
    pair.network.becomes(Box::new(|datagram| {
        let is_probe = packet::open(&datagram).is_ok_and(|(header, _)| header.is_probe);
        is_probe.then_some(datagram).into_iter().collect()
    }));
    for length in [9000, 1] {
        let full = pair.one.figure(FULL);
        while pair.one.figure(FULL) == full {
            pair.one.links.send(vec![frame(&vec![7; length])]);
        }
    }
    // The report of what went before makes room for one or two.
    let enough = pair.one.figure(SENT) + 20;
    let again = async {
        while pair.one.figure(SENT) < enough {
            pair.one.links.send(vec![frame(b"short")]);
            sleep(Duration::from_millis(20)).await;
        }
    };
    let again = timeout(Duration::from_secs(10), again).await;
    again.expect("no datagram is sent any more");
}

/// Scenario: a peer that takes no datagrams.
#[tokio::test]
async fn a_peer_without_datagrams_is_sent_none() {
    let ports = [bind("127.0.0.1:0").unwrap(), bind("127.0.0.1:0").unwrap()];
    let [first, second] = ports
        .each_ref()
        .map(|port| port.local_addr().unwrap().to_string());
    let [port, its_port] = ports;
    let datagrams = Datagrams::new(bind_datagrams(&port).unwrap(), 1).unwrap();
    let mut two = Replica::start((its_port, None), identity(2), (1, &first));
    let mut one = Replica::start((port, Some(datagrams)), identity(1), (2, &second));
    up(&mut one).await;
    let rejected = "quorate_peer_rejected_connections_total";
    until(&two, rejected, |rejected| rejected > 0).await;
    one.links.send(vec![frame(b"by TCP")]);
    assert_eq!(next_frame(&mut two).await, b"by TCP"[..]);
    assert_eq!((one.figure(OPEN), one.figure(SENT)), (0, 0));
}

/// Scenario: strangers send noise, datagrams in the right form, and what they have overheard, while the association
/// is good and after the peer was started again.
#[tokio::test]
async fn what_has_no_secret_of_today_is_refused() {
    let mut pair = pair(whole()).await;
    until(&pair.one, OPEN, |open| open == 1).await;
    let overheard = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&overheard);
    pair.network.becomes(Box::new(move |datagram| {
        noted.lock().unwrap().push(datagram.clone());
        vec![datagram]
    }));
    until_arrived(&mut pair, b"overheard").await;
    let overheard = overheard.lock().unwrap().clone();

    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut hostile: Vec<Vec<u8>> = Vec::new();
    for seed in 0..100 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let length = rng.usize(0..2000);
        hostile.push(std::iter::repeat_with(|| rng.u8(..)).take(length).collect());
    }
    hostile.push(packet::tests::datagram(packet::tests::HEADER, &[b"poison"]));
    let cut = |datagram: &Vec<u8>| datagram[..datagram.len() - 1].to_vec();
    hostile.extend(overheard.iter().map(cut));
    for datagram in &hostile {
        stranger.send_to(datagram, pair.receiver).unwrap();
    }
    let refused = hostile.len() as u64;
    until(&pair.two, REFUSED, |count| count == refused).await;

    // The peer starts again: its former datagrams are those of a stranger.
    let Pair { one, mut two, .. } = pair;
    drop(one);
    let free = async {
        loop {
            match bind_datagrams(&pair.port) {
                Ok(socket) => return socket,
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let socket = timeout(Duration::from_secs(10), free).await;
    let datagrams = Datagrams::new(socket.expect("the port stays taken"), 1).unwrap();
    let again = Identity {
        boot: Boot(7777),
        ..identity(1)
    };
    let peer = (2, &*pair.receiver.to_string());
    let mut one = Replica::start((pair.port, Some(datagrams)), again, peer);
    until(&one, OPEN, |open| open == 1).await;
    for datagram in &overheard {
        stranger.send_to(datagram, pair.receiver).unwrap();
    }
    let refused = refused + overheard.len() as u64;
    until(&two, REFUSED, |count| count == refused).await;
    one.links.send(vec![frame(b"of today")]);
    assert_eq!(next_frame(&mut two).await, b"of today"[..]);
}
