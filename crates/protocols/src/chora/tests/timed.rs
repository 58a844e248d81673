//! A cluster on virtual time: messages take as long as links are told to, timers fire when they are due,
//! clients ask evenly. What it shows is speed: who pulses, and what is committed meanwhile.

use super::net::Net;
use crate::chora::{Replica, Timer};
use fastrand::Rng;
use quorate_core::{MICROS, MILLIS};
use quorate_testkit::Packet;
use std::collections::BTreeMap;
use std::ops::Range;

struct Timed {
    net: Net,
    rng: Rng,
    /// By when they arrive, then in the order sent.
    flights: BTreeMap<(u64, u64), Packet<Replica>>,
    sent: u64,
    delay_ns: Range<u64>,
    /// Of one replica's messages, both ways, instead.
    slow: Option<(usize, Range<u64>)>,
    /// Takes nothing in before.
    paused_until_ns: Vec<u64>,
    /// Between two commands of a replica's clients, and when the next is due.
    every_ns: Option<u64>,
    next_ns: Vec<u64>,
    /// Replicas that have clients.
    asked: Vec<usize>,
}

/// What happens next.
enum Next {
    Arrives((u64, u64)),
    Fires(usize, Timer),
    Asked(usize),
}

impl Timed {
    fn new(n: usize, params: &[(&str, &str)]) -> Timed {
        let net = Net::new(n, params);
        let (start_ns, step_ns) = (net.now_ns, 7 * MICROS);
        Timed {
            net,
            rng: Rng::with_seed(1),
            flights: BTreeMap::new(),
            sent: 0,
            delay_ns: 400 * MICROS..440 * MICROS,
            slow: None,
            paused_until_ns: vec![0; n],
            every_ns: None,
            asked: (0..n).collect(),
            next_ns: (0..n as u64).map(|me| start_ns + me * step_ns).collect(),
        }
    }

    /// What is due first, and when; a replica that is stopped takes it in when it goes on.
    fn next(&self) -> Option<(u64, Next)> {
        let of = |me: usize, at_ns: u64| at_ns.max(self.paused_until_ns[me]);
        let flights = self.flights.iter();
        let flights = flights.map(|(key, packet)| (of(packet.to, key.0), Next::Arrives(*key)));
        // Later ones arrive later, unless their receivers are stopped.
        let arrivals = flights.take(1 + self.flights.len() * usize::from(self.is_any_paused()));
        let nodes = self.net.nodes.iter().enumerate();
        let timers = nodes.flat_map(|(me, node)| {
            let timers = node.timers.iter();
            timers.map(move |(timer, due)| (of(me, *due), Next::Fires(me, *timer)))
        });
        let asks = self.next_ns.iter().enumerate();
        let asks = asks.filter(|(me, _)| self.every_ns.is_some() && self.asked.contains(me));
        let asks = asks.map(|(me, at_ns)| (of(me, *at_ns), Next::Asked(me)));
        arrivals
            .chain(timers)
            .chain(asks)
            .min_by_key(|(at_ns, _)| *at_ns)
    }

    fn is_any_paused(&self) -> bool {
        self.paused_until_ns
            .iter()
            .any(|until| *until > self.net.now_ns)
    }

    /// Goes on for so long.
    fn run_ms(&mut self, ms: u64) {
        let end_ns = self.net.now_ns + ms * MILLIS;
        while let Some((at_ns, next)) = self.next().filter(|(at_ns, _)| *at_ns < end_ns) {
            self.net.now_ns = self.net.now_ns.max(at_ns);
            match next {
                Next::Arrives(key) => {
                    let packet = self.flights.remove(&key).unwrap();
                    self.net.receive(packet);
                }
                Next::Fires(me, timer) => drop(self.net.fire(me, timer)),
                Next::Asked(me) => {
                    self.next_ns[me] += self.every_ns.unwrap();
                    self.net.write(me);
                }
            }
            self.send_all();
        }
        self.net.now_ns = end_ns;
    }

    fn send_all(&mut self) {
        while let Some(packet) = self.net.wire.pop_front() {
            let is_slow =
                |slow: &&(usize, Range<u64>)| slow.0 == packet.from || slow.0 == packet.to;
            let slow = self.slow.as_ref().filter(is_slow);
            let delay_ns = slow.map_or(&self.delay_ns, |(_, delay_ns)| delay_ns);
            let at_ns = self.net.now_ns + self.rng.u64(delay_ns.clone());
            self.sent += 1;
            self.flights.insert((at_ns, self.sent), packet);
        }
    }

    /// Every replica's clients ask so often from now on.
    fn load(&mut self, every_ns: Option<u64>) {
        self.every_ns = every_ns;
        let now_ns = self.net.now_ns;
        self.next_ns
            .iter_mut()
            .for_each(|next| *next = now_ns.max(*next));
    }

    fn pulsing(&self) -> Vec<bool> {
        let nodes = 0..self.net.nodes.len();
        nodes
            .map(|me| self.net.machine(me).rounds.is_pulsing())
            .collect()
    }

    fn view(&self) -> u64 {
        self.net.machine(0).view
    }

    /// Slots that every replica has.
    fn decided(&self) -> usize {
        let logs = self.net.nodes.iter().map(|node| node.log.len());
        logs.min().unwrap_or(0)
    }

    /// Runs until it holds, so many ms at most.
    fn until(&mut self, ms: u64, what: &str, holds: impl Fn(&Timed) -> bool) {
        for _ in 0..ms {
            if holds(self) {
                return;
            }
            self.run_ms(1);
        }
        let states: Vec<String> = self
            .net
            .nodes
            .iter()
            .map(|node| format!("{:?}", node.machine))
            .collect();
        panic!(
            "not within {ms} ms: {what}: {:?}\n{}",
            self.pulsing(),
            states.join("\n")
        );
    }

    /// Every write was committed once, and nobody was refused.
    fn check_answers(&self, what: &str) {
        for node in &self.net.nodes {
            assert!(node.replies.is_empty(), "{what}: {:?}", node.replies);
        }
        let entries = self.net.nodes[0].log.iter().flatten();
        let commands: usize = entries.map(|entry| entry.count()).sum();
        assert_eq!(commands as u64, self.net.commands, "{what}");
    }

    fn all_pulse(&self) -> bool {
        self.pulsing() == vec![true; self.net.nodes.len()]
    }

    fn nobody_pulses(&self) -> bool {
        self.pulsing() == vec![false; self.net.nodes.len()]
    }
}

const BUSY_NS: Option<u64> = Some(50 * MICROS);

/// A cluster that pulses, for its clients ask for much.
fn pulsing() -> Timed {
    let mut timed = Timed::new(3, &[("mode", "auto")]);
    timed.load(Some(20 * MILLIS));
    timed.run_ms(300);
    assert!(timed.nobody_pulses(), "there is little to do");
    timed.load(BUSY_NS);
    timed.until(400, "load brings pulses", Timed::all_pulse);
    timed.run_ms(100);
    assert!(timed.all_pulse(), "and keeps them");
    timed
}

#[test]
fn load_brings_pulses_and_its_end_takes_them_away() {
    let mut timed = pulsing();
    timed.load(Some(20 * MILLIS));
    timed.until(300, "pulses end", Timed::nobody_pulses);
    assert_eq!(timed.view(), 0);
}

/// Longer than any round, and shorter than what a view change takes.
#[test]
fn a_pause_of_one_replica_ends_pulses_for_a_while() {
    let mut timed = pulsing();
    let before = timed.decided();
    timed.paused_until_ns[2] = timed.net.now_ns + 90 * MILLIS;
    timed.until(90, "the others fall back", |timed| {
        timed.pulsing()[..2] == [false, false]
    });
    timed.until(400, "and return", Timed::all_pulse);
    timed.until(20, "nothing is lost", |timed| {
        timed.decided() > before + 1_000
    });
    assert_eq!(timed.view(), 0, "no view change for that");
}

#[test]
fn a_slow_replica_ends_pulses_until_it_is_as_fast_as_the_others() {
    let mut timed = pulsing();
    timed.slow = Some((1, MILLIS..20 * MILLIS));
    timed.until(300, "all fall back", Timed::nobody_pulses);
    let before = timed.decided();
    timed.run_ms(100);
    assert!(timed.decided() > before + 50, "and go on meanwhile");
    assert!(timed.nobody_pulses());
    timed.slow = None;
    timed.until(1_000, "and return", Timed::all_pulse);
}

/// Delays between a tenth and all of half a millisecond: a round lasts as long as these differ.
#[test]
fn delays_that_vary_tenfold_make_longer_rounds() {
    let length = |delay_ns| {
        let mut timed = Timed::new(3, &[("mode", "auto")]);
        timed.delay_ns = delay_ns;
        timed.load(Some(MILLIS));
        timed.run_ms(200);
        timed.net.machine(0).rounds.load.needed_ns()
    };
    let (even, varied) = (
        length(400 * MICROS..440 * MICROS),
        length(50 * MICROS..500 * MICROS),
    );
    assert!((30 * MICROS..60 * MICROS).contains(&even), "{even}");
    assert!((200 * MICROS..320 * MICROS).contains(&varied), "{varied}");
}

/// Delays between 40 and 80 us: a tail of 16 us at x = 90, and a message is said to cost 4 us.
#[test]
fn replicas_measure_the_network_model() {
    let params = [
        ("mode", "pulsing"),
        ("round_us", "100"),
        ("batch_commands", "1"),
        ("message_ns", "4000"),
    ];
    let mut timed = Timed::new(3, &params);
    timed.delay_ns = 40 * MICROS..80 * MICROS;
    timed.load(BUSY_NS);
    timed.run_ms(200);
    let figures: BTreeMap<_, _> = timed.net.machine(0).all_figures().into_iter().collect();
    for (name, value) in [
        ("synchrony_90", 4.0 / 20.0),
        ("synchrony_99", 4.0 / 24.0),
        ("effectiveness", 1.0),
        ("multicasts_per_commit", 1.0),
        ("mode_ms", 200.0),
        ("efficiency", 2.0 * 4.0 / figures["round_mean_us"]),
        (
            "early_share",
            figures["rounds_early_total"] / figures["rounds_total"],
        ),
    ] {
        let is_near = (figures[name] / value - 1.0).abs() < 0.15;
        assert!(is_near, "{name}, and not {value}: {figures:?}");
    }
    assert!(figures["round_mean_us"] < 100.0, "{figures:?}");
    assert!(figures["kappa"] >= figures["efficiency"] * figures["effectiveness"]);
}

/// A command that comes while rounds have become long waits for none of them.
#[test]
fn what_is_asked_after_a_silence_starts_a_round() {
    let mut timed = Timed::new(3, &[("mode", "pulsing"), ("round_us", "1000")]);
    timed.net.write(0);
    timed.send_all();
    timed.run_ms(200);
    assert_eq!(timed.pulsing(), [true; 3]);
    let before = timed.decided();
    timed.net.write(0);
    timed.send_all();
    timed.run_ms(8);
    assert!(timed.decided() > before);
}

/// Each replica goes to and fro between the modes by itself.
#[test]
fn modes_may_change_at_random_and_be_mixed() {
    let mut timed = Timed::new(3, &[("mode", "random")]);
    timed.load(Some(300 * MICROS));
    let mut mixed = 0;
    for _ in 0..200 {
        timed.run_ms(1);
        mixed += u32::from(!timed.all_pulse() && !timed.nobody_pulses());
    }
    assert!(mixed > 50, "{mixed} of 200 ms");
    assert!(timed.decided() > 3 * 600, "{}", timed.decided());
}

fn pattern(timed: &Timed) -> Vec<usize> {
    timed.net.pattern(0).unwrap_or_default()
}

fn is_pattern(timed: &Timed, wanted: &[usize]) -> bool {
    let mut patterns = (0..timed.net.nodes.len()).map(|me| timed.net.pattern(me));
    patterns.all(|pattern| pattern.as_deref() == Some(wanted))
}

/// All proposers, then one, then all: as clients come and go, and nobody of them is refused.
#[test]
fn the_number_of_proposers_follows_the_clients() {
    for mode in ["responsive", "auto", "random"] {
        let mut timed = Timed::new(
            3,
            &[("proposers", "auto"), ("mode", mode), ("rejoin_ms", "20")],
        );
        timed.load(Some(500 * MICROS));
        timed.run_ms(200);
        assert_eq!(
            (timed.view(), pattern(&timed)),
            (0, vec![0, 1, 2]),
            "{mode}"
        );
        for alone in [2, 0, 1] {
            timed.asked = vec![alone];
            timed.load(Some(500 * MICROS));
            timed.until(500, "one proposes", |timed| is_pattern(timed, &[alone]));
            timed.run_ms(100);
            assert!(is_pattern(&timed, &[alone]), "{mode}");
        }
        timed.asked = vec![0, 1, 2];
        timed.load(Some(500 * MICROS));
        timed.until(500, "all propose", |timed| is_pattern(timed, &[0, 1, 2]));
        timed.load(None);
        timed.run_ms(50);
        timed.check_answers(mode);
    }
}
