//! A replica that lost its promises.

use super::net::{A, B, C, Net};
use crate::domino::Record;
use quorate_core::{Outcome, Refusal};

#[test]
fn it_learns_and_says_nothing_whatever_it_finds_at_later_starts() {
    for params in [&[][..], &[("way", "dm")]] {
        let mut net = Net::new(3, params);
        let first = net.write(A);
        net.come_to_rest(&[first]);
        net.crash(C);
        net.lose_disk(C);
        let second = net.write(B);
        net.come_to_rest(&[first, second]);
        // The log that begins there says what was lost, which a host that replays it cannot know.
        net.crash(C);
        net.return_of(C);
        assert!(!net.nodes[C].is_serving());
        let third = net.write(A);
        net.come_to_rest(&[first, second, third]);
        let mut written = net.nodes[C].disk.iter();
        assert!(
            written.all(|(_, record)| *record == Record::Lost),
            "it promises nothing"
        );
        let refused = net.write(C);
        let refusal = Outcome::Refused(Refusal::NotServing);
        assert_eq!(net.answer(C, refused), Some(&refusal));
        let read = net.read(C);
        net.pass(1_000_000_000);
        assert!(matches!(net.answer(C, read), Some(Outcome::ReadAt(_))));
        // It is one of those that may fail: with it alone nothing is decided.
        net.crash(B);
        let waits = net.write(A);
        net.pass(3_000_000_000);
        assert_eq!(net.times(A, waits), 0);
        net.return_of(B);
        net.come_to_rest(&[first, second, third, waits]);
    }
}
