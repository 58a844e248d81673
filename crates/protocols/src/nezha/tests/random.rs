//! Any schedule: messages are lost, come twice and in any order; clocks say anything; replicas crash,
//! with and without their disks. What is delivered and what clients are told must be one history.

use super::super::{Config, Message, Record, Replica, Timer};
use super::history::{BUCKETS, named};
use super::net::Net;
use fastrand::Rng;
use quorate_core::{Class, Input, Introspect, MILLIS};
use quorate_testkit::Packet;

#[derive(Clone)]
pub(super) struct Course {
    pub(super) n: usize,
    pub(super) has_disks: bool,
    /// Whether disks are lost.
    pub(super) loses: bool,
    /// Whether requests and their replies are ahead of everything else.
    pub(super) is_fast: bool,
    /// Whether commands touch one key or two, and most commute.
    pub(super) commutes: bool,
    pub(super) seeds: std::ops::Range<u64>,
}

/// How many may be without promises or machine at once.
fn is_fit(net: &Net) -> usize {
    let is_serving = |machine: &super::super::Replica| {
        use quorate_core::Machine as _;
        machine.is_serving()
    };
    let machines = net.nodes.iter().filter_map(|node| node.machine.as_ref());
    machines.filter(|machine| is_serving(machine)).count()
}

/// The message that arrives next.
fn pick(net: &mut Net, is_fast: bool) -> usize {
    let is_quick = |(_, packet): &(usize, &Packet<Replica>)| {
        let message = packet.message();
        matches!(
            message,
            Some(Message::Request { .. } | Message::FastReply(_))
        )
    };
    let quick = net.wire.iter().enumerate().filter(is_quick);
    let quick: Vec<usize> = quick.map(|(at, _)| at).collect();
    let any = net.rng.usize(0..net.wire.len());
    match net.rng.choice(quick) {
        Some(at) if is_fast && net.rng.u32(0..10) > 0 => at,
        _ => any,
    }
}

fn advance(net: &mut Net, course: &Course) {
    net.now_ns += net.rng.u64(0..12_000);
    // Some time passes between the first words of a view and its end.
    let is_restless = net.rng.u32(0..6) == 0;
    let me = net.rng.usize(0..course.n);
    match net.rng.u32(0..100) {
        0..50 if !net.wire.is_empty() => {
            let at = pick(net, course.is_fast);
            match net.rng.u32(0..20) {
                0 => drop(net.wire.swap_remove_back(at)),
                1 => {
                    let copy = net.wire[at].clone();
                    net.wire.push_back(copy);
                    net.deliver(at);
                }
                _ => net.deliver(at),
            }
        }
        50..72 => net.flush(me),
        72..80 if net.nodes[me].machine.is_some() => {
            let class = if net.rng.u32(0..4) == 0 {
                Class::Read
            } else {
                Class::Write
            };
            net.submit(me, class);
        }
        80..94 => {
            let timers: Vec<_> = net.nodes[me].timers.keys().copied().collect();
            let timer = net.rng.choice(timers);
            let ends_view = matches!(timer, Some(Timer::Suspect | Timer::GiveUp));
            if let Some(timer) = timer.filter(|_| is_restless || !ends_view) {
                net.nodes[me].timers.remove(&timer);
                net.step(me, Input::Timer(timer));
            }
        }
        94 => net.nodes[me].clock_ns = net.rng.i64(-3..4) * 50_000,
        95 if is_restless => net.nodes[me].clock_ns = net.rng.i64(-3..4) * 5_000_000,
        96 => {
            let from = net.rng.usize(0..course.n);
            if net.nodes[from].machine.is_some() {
                net.give_log(from, me);
            }
        }
        97 if net.rng.u32(0..3) == 0 => {
            // Nothing of what this one said arrives.
            net.wire.retain(|packet| packet.from != me);
        }
        97 if net.nodes[me].machine.is_none() => {
            let fit = is_fit(net);
            let is_lost = course.loses && fit > course.n / 2 && net.rng.bool();
            net.restart(me, is_lost);
        }
        98 if net.rng.u32(0..3) == 0 && is_fit(net) > course.n / 2 + 1 => {
            let unflushed = net.unflushed(me);
            let kept = net.rng.usize(..=unflushed);
            net.tear(me, kept);
        }
        _ => {}
    }
}

/// Everybody is up, everything arrives, and all comes to an end.
pub(super) fn settle(net: &mut Net) {
    for me in 0..net.nodes.len() {
        if net.nodes[me].machine.is_none() {
            net.restart(me, false);
        }
        net.nodes[me].clock_ns = 0;
    }
    for _ in 0..400 {
        for _ in 0..40 {
            (0..net.nodes.len()).for_each(|me| net.flush(me));
            let count = net.wire.len();
            (0..count).for_each(|_| net.deliver(0));
            net.now_ns += MILLIS / 10;
            if net.wire.is_empty() {
                break;
            }
        }
        net.now_ns += MILLIS;
        let mut is_idle = true;
        for me in 0..net.nodes.len() {
            let from = (me + 1) % net.nodes.len();
            net.give_log(from, me);
            for (timer, due_ns) in std::mem::take(&mut net.nodes[me].timers) {
                // Those who wait for a sign of life wait longer than the others.
                if matches!(timer, Timer::Suspect | Timer::GiveUp) && net.rng.u32(0..10) > 0 {
                    net.nodes[me].timers.insert(timer, due_ns);
                } else {
                    net.step(me, Input::Timer(timer));
                }
                is_idle = false;
            }
        }
        if is_idle && net.wire.is_empty() {
            return;
        }
    }
    let states = net
        .nodes
        .iter()
        .map(|node| node.machine.as_ref().map(|m| m.explain()));
    panic!(
        "it does not come to an end: {:#?}",
        states.collect::<Vec<_>>()
    );
}

/// All commands conflict, or those that share a key.
pub(super) fn commutativity(commutes: bool) -> fn(&mut Config) {
    match commutes {
        true => |config| config.touches = Some(named),
        false => |_| {},
    }
}

/// Followers of every other seed write with something else where the leader placed what they promised, and
/// gateways try how much deadlines should allow for.
fn laziness(seed: u64) -> fn(&mut Config) {
    match seed % 2 {
        0 => |_| {},
        _ => |config| (config.lazy_ns, config.hold) = (MILLIS, None),
    }
}

/// One key, or two, or all.
fn some_keys(rng: &mut Rng) -> Vec<u8> {
    let keys = BUCKETS as u8;
    match rng.u32(0..10) {
        0 => Vec::new(),
        1..5 => vec![rng.u8(0..keys), rng.u8(0..keys)],
        _ => vec![rng.u8(0..keys)],
    }
}

/// One schedule, of replicas that are as they should be or not.
pub(super) fn run_seed(
    course: &Course,
    seed: u64,
    change: fn(&mut Config),
    forgets: fn(&Record) -> bool,
) -> Net {
    let changes = [commutativity(course.commutes), laziness(seed), change];
    let mut net = Net::new(course.n, seed, course.has_disks, &changes);
    net.watch.forgets = forgets;
    if course.commutes {
        net.keys = some_keys;
    }
    for _ in 0..4_000 {
        advance(&mut net, course);
    }
    settle(&mut net);
    net.watch.history.check_all();
    net
}

fn run(course: &Course) -> (usize, Vec<Net>) {
    let seeds = course.seeds.clone();
    let nets = seeds.map(|seed| {
        eprintln!("seed {seed}");
        run_seed(course, seed, |_| {}, |_| false)
    });
    let nets: Vec<Net> = nets.collect();
    (
        nets.iter().map(|net| net.watch.history.decided.len()).sum(),
        nets,
    )
}

fn total(nets: &[Net], branch: &str) -> usize {
    nets.iter().filter_map(|net| net.branches.get(branch)).sum()
}

fn check(course: &Course) {
    let (delivered, nets) = run(course);
    let answered: usize = nets
        .iter()
        .map(|net| net.watch.history.answered.len())
        .sum();
    let reads: usize = nets.iter().map(|net| net.watch.history.reads_done).sum();
    let fast = total(&nets, "committed fast");
    let views = total(&nets, "view started");
    eprintln!(
        "{delivered} delivered, {answered} answered, {fast} fast, {reads} reads, {views} views"
    );
    assert!(delivered > 0 && answered > 0 && fast > 0 && reads > 0 && views > 0);
}

#[test]
fn three_with_disks() {
    check(&Course {
        n: 3,
        has_disks: true,
        loses: false,
        is_fast: false,
        commutes: false,
        seeds: 0..60,
    });
}

#[test]
fn five_with_disks() {
    check(&Course {
        n: 5,
        has_disks: true,
        loses: false,
        is_fast: false,
        commutes: false,
        seeds: 0..40,
    });
}

#[test]
fn three_that_lose_disks() {
    check(&Course {
        n: 3,
        has_disks: true,
        loses: true,
        is_fast: false,
        commutes: false,
        seeds: 0..60,
    });
}

#[test]
fn five_without_disks() {
    check(&Course {
        n: 5,
        has_disks: false,
        loses: true,
        is_fast: false,
        commutes: false,
        seeds: 0..40,
    });
}

#[test]
fn three_with_fast_links() {
    check(&Course {
        n: 3,
        has_disks: true,
        loses: false,
        is_fast: true,
        commutes: false,
        seeds: 0..60,
    });
}

#[test]
fn five_with_fast_links_that_lose_disks() {
    check(&Course {
        n: 5,
        has_disks: true,
        loses: true,
        is_fast: true,
        commutes: false,
        seeds: 0..40,
    });
}

#[test]
fn three_with_writes_of_two_keys() {
    check(&Course {
        n: 3,
        has_disks: true,
        loses: false,
        is_fast: true,
        commutes: true,
        seeds: 0..60,
    });
}

#[test]
fn five_with_writes_of_two_keys_that_lose_disks() {
    check(&Course {
        n: 5,
        has_disks: true,
        loses: true,
        is_fast: true,
        commutes: true,
        seeds: 0..40,
    });
}
