//! What a committed byte costs, without failures: what is said, and the segments in it. Frames,
//! checksums and the alignment of logs are the host's.

use super::net::{Dice, Net};
use super::random::settle;
use bytes::Bytes;

/// Within so much of what the bytes of the values alone come to.
const SPARE: f64 = 0.03;

fn cluster((n, k): (usize, usize), merged: &str) -> Net {
    let params = [
        ("k", &*k.to_string()),
        ("merged", merged),
        ("vote_hold_us", "0"),
    ];
    Net::new(n, &params, None)
}

/// Bytes moved and written per byte of the values, by a member.
fn costs((n, k): (usize, usize), merged: &str, value_len: usize) -> (f64, f64) {
    let mut net = cluster((n, k), merged);
    let dice = &mut Dice::new(1);
    for me in 0..n {
        let value = Bytes::from(vec![me as u8; value_len]);
        net.submit_value(me, value, true);
        while !settle(&mut net, dice) {}
    }
    assert_eq!(net.chosen.values().flatten().count(), n, "all are decided");
    // Each came to its origin from a client first.
    let values = (n * value_len) as u64;
    let by_member = |bytes: u64| bytes as f64 / n as f64 / values as f64;
    (
        by_member(net.watch.moved + values),
        by_member(net.watch.written),
    )
}

#[test]
fn a_committed_byte_costs_what_its_segments_do() {
    let codes = [(5, 3), (7, 4)];
    let all = codes.map(|code| [(code, "false"), (code, "true")]);
    for ((n, k), merged) in all.into_iter().flatten() {
        let (nf, kf) = (n as f64, k as f64);
        let (moved, written) = ((1.0 + 2.0 * (nf - 1.0) / kf) / nf, 1.0 / kf);
        for value_len in [64 << 10, 1 << 20] {
            let found = costs((n, k), merged, value_len);
            println!(
                "{n},{k}, merged {merged}, {value_len} B: {found:?}, of segments alone {moved} and {written}"
            );
            for (found, segments) in [(found.0, moved), (found.1, written)] {
                let more = found / segments - 1.0;
                assert!((0.0..SPARE).contains(&more), "{n},{k} {value_len}: {more}");
            }
        }
    }
}

/// Exchanges of messages until the origin of a value has it decided, and flushes between them, while so many
/// members are down.
fn delays_and_flushes(code: (usize, usize), merged: &str, down: usize) -> (usize, usize) {
    let mut net = cluster(code, merged);
    (code.0 - down..code.0).for_each(|me| net.crash(me, &mut Dice::new(1)));
    net.submit(0, true);
    let (mut delays, mut flushes) = (0, 0);
    while net.delivered(0) == 0 {
        assert!(delays < 10, "{}", net.describe());
        // Segments leave before the own one is on the disk.
        if delays > 0 {
            flushes += usize::from(net.flush_all());
        }
        for one in net.hold_back(|_| true) {
            net.wire.push_back(one);
            net.take(net.wire.len() - 1, false);
        }
        delays += 1;
    }
    (delays, flushes)
}

#[test]
fn without_acknowledgements_a_value_is_decided_two_delays_and_two_flushes_sooner() {
    for code in [(5, 3), (7, 4), (7, 3)] {
        assert_eq!(delays_and_flushes(code, "false", 0), (4, 3), "{code:?}");
        assert_eq!(delays_and_flushes(code, "true", 0), (2, 1), "{code:?}");
    }
    // Of five with k = 3 all have to propose a value that is decided at once; of seven with k = 4 one may be down.
    assert_eq!(delays_and_flushes((5, 3), "true", 1), (3, 2), "by votes");
    assert_eq!(delays_and_flushes((7, 4), "true", 1), (2, 1));
}
