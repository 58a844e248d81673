//! Proposals by holders, and what the log makes void, told step by step.

use super::net::{Dice, Net};
use super::schedules::{Flying, is_spread};
use quorate_core::EntryId;

const MERGED: &[(&str, &str)] = &[("k", "3"), ("merged", "true"), ("vote_hold_us", "0")];
/// Whoever was not heard of since the last timer is taken for gone.
const HASTY: &[(&str, &str)] = &[
    ("k", "3"),
    ("merged", "true"),
    ("origin_gone_ms", "0"),
    ("vote_hold_us", "0"),
];

/// A value of the first member, of which these others have their segments. The other segments are on their way.
fn spread_to(net: &mut Net, holders: impl Fn(usize) -> bool) -> EntryId {
    net.submit(0, true);
    let id = net.value_on_its_way();
    net.bring(|one| is_spread(one) && holders(one.to));
    id
}

/// R13: of five with k = 3, so many get their segments, and the others have to propose NULL. Any one is down then.
/// What is decided can be read, and the value is decided when its origin has given it to enough.
#[test]
fn what_some_hold_is_decided_and_kept_or_is_not_decided() {
    for holders in 1..=5 {
        for down in 0..5 {
            let mut net = Net::new(5, MERGED, None);
            let id = spread_to(&mut net, |at| at < holders);
            (holders..5).for_each(|me| net.submit(me, false));
            net.go_on_without(is_spread);
            // Four are k + f, and a T; but who hears the fifth instead of one of them says NULL may win.
            let may_be = [holders == 5, holders >= 4];
            assert!(may_be.contains(&net.is_decided(id)), "{holders} hold it");
            net.crash(down, &mut Dice::new(1));
            net.go_on_without(|_| false);
            net.restart(down);
            // One more command has it notice that it fell behind.
            net.submit(0, false);
            net.come_to_an_end();
            assert!(net.is_decided(id) || down == 0, "its origin goes on");
        }
    }
}

/// S6, the zombie lane: an origin stops with one segment of its value given away. It comes back, and the entry that
/// makes the value void has not left when it stops again.
#[test]
fn what_nobody_completes_is_made_void_however_often_its_origin_starts() {
    for is_own_written in [false, true] {
        let mut net = Net::new(5, MERGED, None);
        let id = spread_to(&mut net, |at| at == 1);
        drop(net.hold_back(|_| true));
        if is_own_written {
            net.flush(0);
        }
        net.flush(1);
        drop(net.hold_back(|_| true));
        for _ in 0..2 {
            net.crash(0, &mut Dice::new(1));
            net.restart(0);
            net.flush(0);
            drop(net.hold_back(|one| one.from == 0));
        }
        net.submit(0, true);
        net.come_to_an_end();
        assert!(!net.is_decided(id));
        assert!(net.branches.contains_key("value made void"));
        let values = net.chosen.values().flatten().filter(|e| e.bulk_len() > 0);
        assert_eq!(values.count(), 1, "its next value is decided");
    }
}

/// A segment comes when its origin has started again and its value is void: it is refused.
#[test]
fn a_segment_of_what_is_void_is_refused() {
    let mut net = Net::new(5, MERGED, None);
    let id = spread_to(&mut net, |at| at == 1);
    let late = net.hold_back(is_spread);
    net.start_again(0);
    net.come_to_an_end();
    net.wire = late.into();
    net.bring(is_spread);
    net.come_to_an_end();
    assert!(!net.is_decided(id));
}

/// S12, the false funeral: others take an origin for gone that is spreading a value. It spreads it under another
/// name, and the command is decided once.
#[test]
fn who_is_taken_for_gone_loses_nothing() {
    let mut net = Net::new(5, HASTY, None);
    let id = spread_to(&mut net, |at| at < 3);
    let is_from_origin = |one: &Flying| one.from == 0;
    net.go_on_without(is_from_origin);
    assert!(net.branches.contains_key("void ordered"));
    net.come_to_an_end();
    assert!(!net.is_decided(id), "it has another name");
    let values = net.chosen.values().flatten().filter(|e| e.bulk_len() > 0);
    assert_eq!(values.count(), 1, "neither lost nor doubled");
}

/// Whoever loses its disk with a segment that it had proposed votes again when all slots are over in which it may
/// have done so.
#[test]
fn a_lost_disk_takes_no_vote_with_it() {
    let mut net = Net::new(5, MERGED, None);
    let id = spread_to(&mut net, |at| at < 3);
    (0..3).for_each(|me| net.flush(me));
    let said = net.hold_back(|one| one.from == 2);
    net.start_without_disk(2);
    net.wire.extend(said);
    net.come_to_an_end();
    assert!(net.is_decided(id) && !net.nodes[2].is_lost);
}
