//! Smaller codes while members are away, told step by step.

use super::net::{Dice, Net};
use super::schedules::is_ack;

const ADAPTIVE: &[(&str, &str)] = &[
    ("k", "3"),
    ("f", "2"),
    ("adaptive", "true"),
    ("spread_timeout_ms", "0"),
    ("vote_hold_us", "0"),
];

/// Two of five are away: five would have to hold a value of three segments, and three hold one of one. The
/// next value is not cut in vain. When all are back, values are cut into three again (R15, S11).
#[test]
fn values_are_cut_anew_while_two_of_five_are_away() {
    let mut net = Net::new(5, ADAPTIVE, None);
    let code = |net: &Net| net.code_of(net.value_on_its_way());
    (3..5).for_each(|me| net.crash(me, &mut Dice::new(1)));
    net.submit(0, true);
    let first = net.value_on_its_way();
    assert_eq!(code(&net), 3);
    // Acknowledgements of what was given up come late, and count for nothing.
    let late = net.hold_back(is_ack);
    net.go_on_without(|_| false);
    net.wire.extend(late);
    net.go_on_without(|_| false);
    assert!(!net.is_decided(first), "it has another name");
    assert_eq!(net.chosen.values().flatten().count(), 1);
    net.submit(0, true);
    assert_eq!(code(&net), 1);
    net.go_on_without(|_| false);
    assert_eq!(net.chosen.values().flatten().count(), 2);
    (3..5).for_each(|me| net.restart(me));
    net.submit(0, true);
    net.come_to_an_end();
    net.submit(0, true);
    assert_eq!(code(&net), 3);
    net.come_to_an_end();
    assert!(net.branches.contains_key("value cut anew"));
    assert!(net.branches.contains_key("value in fewer segments"));
}
