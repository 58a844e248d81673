//! What a committed byte costs (section 12), without failures: what is said, and the segments in it. Frames,
//! checksums and the alignment of logs are the host's.

use super::net::{Dice, Net};
use super::random::settle;
use bytes::Bytes;

/// Within so much of what the bytes of the values alone come to.
const SPARE: f64 = 0.03;

/// Bytes moved and written per byte of the values, by a member.
fn costs((n, k): (usize, usize), value_len: usize) -> (f64, f64) {
    let code = k.to_string();
    let mut net = Net::new(n, &[("k", &code), ("vote_hold_us", "0")], None);
    let dice = &mut Dice::new(1);
    for me in 0..n {
        let value = Bytes::from(vec![me as u8; value_len]);
        net.submit_value(me, value, true);
        while !settle(&mut net, dice) {}
    }
    assert_eq!(net.decided.iter().flatten().count(), n, "all are decided");
    // Each came to its origin from a client first.
    let values = (n * value_len) as u64;
    let by_member = |bytes: u64| bytes as f64 / n as f64 / values as f64;
    (by_member(net.moved + values), by_member(net.written))
}

#[test]
fn a_committed_byte_costs_what_its_segments_do() {
    for (n, k) in [(5, 3), (7, 4)] {
        let (nf, kf) = (n as f64, k as f64);
        let (moved, written) = ((1.0 + 2.0 * (nf - 1.0) / kf) / nf, 1.0 / kf);
        for value_len in [64 << 10, 1 << 20] {
            let found = costs((n, k), value_len);
            println!("{n},{k}, {value_len} B: {found:?}, of segments alone {moved} and {written}");
            for (found, segments) in [(found.0, moved), (found.1, written)] {
                let more = found / segments - 1.0;
                assert!((0.0..SPARE).contains(&more), "{n},{k} {value_len}: {more}");
            }
        }
    }
}
