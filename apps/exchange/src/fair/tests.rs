use super::*;
use crate::book::ParticipantId;
use crate::exchange::{Action, GatewayId, Request, Stamp, SymbolId};
use crate::feed::{MarketKind, MarketMessage, Packet};
use fastrand::Rng;

/// The delay of requests in these tests, in ns.
const DELAY_NS: u64 = 1000;

/// All clocks of a machine that are right.
fn at(ns: u64) -> Now {
    Now {
        clock_ns: ns,
        steady_ns: ns,
    }
}

fn request(symbol: u16, number: u64) -> Request {
    Request {
        symbol: SymbolId(symbol),
        participant: ParticipantId(7),
        number,
        action: Action::CancelAll,
    }
}

fn stamped(time_ns: u64, gateway: u16, request: Request) -> StampedRequest {
    let gateway = GatewayId(gateway);
    let stamp = Stamp { time_ns, gateway };
    StampedRequest { stamp, request }
}

fn sequencer() -> Sequencer {
    Sequencer::new(SequencerOptions {
        delay_ns: DELAY_NS,
        far_bound_ns: 5000,
        most: 100,
    })
}

/// Hands a request to a sequencer over the link of its gateway.
fn hand(sequencer: &mut Sequencer, now_ns: u64, request: StampedRequest) -> Arrival {
    sequencer.handle_request(at(now_ns), request.stamp.gateway, request)
}

fn limits(all: usize, each: usize) -> GatewayLimits {
    GatewayLimits { all, each }
}

#[test]
fn who_sends_more_than_is_answered_leaves_room_for_others() {
    let mut gateway = Gateway::new(GatewayId(3), 50, limits(4, 2));
    for number in [1, 2] {
        gateway.handle_request(at(100), request(0, number)).unwrap();
    }
    let third = gateway.handle_request(at(101), request(0, 3));
    assert_eq!(third, Err(GatewayRefusal::Share));
    // What is under way already may come again.
    assert!(gateway.handle_request(at(102), request(0, 2)).is_ok());
    let of_another = Request {
        participant: ParticipantId(9),
        ..request(0, 1)
    };
    assert!(gateway.handle_request(at(103), of_another).is_ok());
    let answered = request(0, 1);
    for is_first in [true, false] {
        let said = gateway.handle_answer(answered.symbol, answered.participant, answered.number);
        assert_eq!(said, is_first);
    }
    assert!(gateway.handle_request(at(104), request(0, 3)).is_ok());
    let fourth = gateway.handle_request(at(105), request(0, 4));
    assert_eq!(fourth, Err(GatewayRefusal::Share));
}

#[test]
fn a_request_keeps_its_stamp_until_it_is_answered() {
    let mut gateway = Gateway::new(GatewayId(3), 50, limits(2, 2));
    let first = gateway.handle_request(at(100), request(0, 1)).unwrap();
    assert_eq!(first, stamped(100, 3, request(0, 1)));
    assert_eq!(gateway.handle_request(at(120), request(0, 1)), Ok(first));
    assert_eq!(gateway.poll_resend(at(169)), None);
    assert_eq!(gateway.next_resend_ns(), Some(170));
    assert_eq!(gateway.poll_resend(at(170)), Some(first));
    assert_eq!(gateway.poll_resend(at(170)), None);
    gateway.handle_request(at(171), request(0, 2)).unwrap();
    let full = gateway.handle_request(at(172), request(0, 3));
    assert_eq!(full, Err(GatewayRefusal::Full));
    let answer = |gateway: &mut Gateway| {
        let request = request(0, 1);
        gateway.handle_answer(request.symbol, request.participant, request.number)
    };
    assert!(answer(&mut gateway) && !answer(&mut gateway));
    assert_eq!(
        (gateway.pending(), gateway.next_resend_ns()),
        (1, Some(221))
    );
    // A clock that goes back makes no earlier stamps.
    let back = Now {
        clock_ns: 10,
        steady_ns: 180,
    };
    let later = gateway.handle_request(back, request(0, 3)).unwrap();
    assert_eq!(later.stamp.time_ns, 172);
}

#[test]
fn a_stamp_of_the_future_is_refused_at_the_gateway() {
    let mut gateway = Gateway::new(GatewayId(3), 50, limits(10, 10));
    let brought = stamped(100 + FUTURE_MAX_NS, 2, request(0, 1));
    let refused = gateway.handle_stamped(at(99), brought);
    assert_eq!(refused, Err(GatewayRefusal::FutureStamp));
    let taken = gateway.handle_stamped(at(100), brought);
    assert_eq!(taken, Ok(stamped(brought.stamp.time_ns, 3, request(0, 1))));
}

/// Whatever the network does within the delay, requests go in the order of their stamps, and equal ones by gateway.
#[test]
fn requests_that_come_in_time_go_in_the_order_of_their_stamps() {
    for seed in 0..50 {
        let mut rng = Rng::with_seed(seed);
        let mut sequencer = sequencer();
        let mut arrivals: Vec<(u64, StampedRequest)> = (1..80)
            .map(|number| {
                let time_ns = 10_000 + rng.u64(0..2000);
                let of = request(rng.u16(0..3), number);
                let sent = stamped(time_ns, rng.u16(0..4), of);
                (time_ns + rng.u64(0..DELAY_NS), sent)
            })
            .collect();
        arrivals.sort_by_key(|(at_ns, _)| *at_ns);
        let mut released = Vec::new();
        let mut arrivals = arrivals.into_iter().peekable();
        for now_ns in 10_000..14_000 {
            while let Some((_, sent)) = arrivals.next_if(|(at_ns, _)| *at_ns == now_ns) {
                assert_eq!(hand(&mut sequencer, now_ns, sent), Arrival::Held);
            }
            while let Some(one) = sequencer.poll(at(now_ns)) {
                assert_eq!(one.stamp.time_ns + DELAY_NS, now_ns, "not early, not late");
                released.push(one);
            }
            let next = sequencer.next_release_in_ns(at(now_ns));
            assert!(next.is_none_or(|pause| pause > 0));
        }
        assert_eq!(released.len(), 79);
        assert!(released.is_sorted_by_key(|one| (one.stamp, one.request.symbol)));
    }
}

#[test]
fn a_late_request_goes_at_once_and_no_other_one_waits_for_it() {
    let mut sequencer = sequencer();
    assert_eq!(
        hand(&mut sequencer, 100, stamped(100, 1, request(0, 1))),
        Arrival::Held
    );
    assert!(sequencer.poll(at(1100)).is_some());
    // Nothing of the symbol that was stamped later is gone.
    let overdue = stamped(101, 1, request(0, 2));
    assert_eq!(hand(&mut sequencer, 1200, overdue), Arrival::Overdue);
    assert_eq!(sequencer.poll(at(1200)), Some(overdue));
    let late = stamped(90, 2, request(0, 3));
    assert_eq!(hand(&mut sequencer, 1300, late), Arrival::Late);
    // In another symbol it is in order.
    let other = stamped(80, 2, request(1, 1));
    assert_eq!(hand(&mut sequencer, 1300, other), Arrival::Overdue);
    let held = stamped(500, 1, request(0, 4));
    assert_eq!(hand(&mut sequencer, 1300, held), Arrival::Held);
    let gone = [sequencer.poll(at(1300)), sequencer.poll(at(1300))];
    assert_eq!(gone, [Some(other), Some(late)]);
    assert_eq!(sequencer.poll(at(1499)), None);
    assert_eq!(sequencer.poll(at(1500)), Some(held));
    let stats = sequencer.stats();
    assert_eq!((stats.held, stats.overdue, stats.late), (2, 2, 1));
}

#[test]
fn forged_stamps_and_wrong_clocks_win_nothing() {
    let mut sequencer = sequencer();
    let honest = stamped(10_000, 1, request(0, 1));
    assert_eq!(hand(&mut sequencer, 10_010, honest), Arrival::Held);
    let forged = sequencer.handle_request(at(10_010), GatewayId(2), honest);
    assert_eq!(forged, Arrival::Forged);
    let future = stamped(15_011, 2, request(0, 2));
    assert_eq!(hand(&mut sequencer, 10_010, future), Arrival::Future);
    sequencer.set_quarantined(GatewayId(3), true);
    let early = stamped(9_000, 3, request(0, 3));
    assert_eq!(hand(&mut sequencer, 10_020, early), Arrival::Quarantined);
    sequencer.set_quarantined(GatewayId(3), false);
    let copy = stamped(10_025, 3, request(0, 1));
    assert_eq!(hand(&mut sequencer, 10_030, copy), Arrival::Known);
    let released: Vec<_> = std::iter::from_fn(|| sequencer.poll(at(11_020))).collect();
    let expected = [
        honest,
        stamped(10_010, 2, request(0, 2)),
        stamped(10_020, 3, request(0, 3)),
    ];
    assert_eq!(released, expected);
}

#[test]
fn a_clock_that_goes_back_holds_nothing_for_ever() {
    let mut sequencer = sequencer();
    let sent = stamped(10_000, 1, request(0, 1));
    assert_eq!(hand(&mut sequencer, 10_000, sent), Arrival::Held);
    let back = |steady_ns| Now {
        clock_ns: 1,
        steady_ns,
    };
    assert_eq!(sequencer.next_release_in_ns(back(12_000)), Some(3000));
    assert_eq!(sequencer.poll(back(14_999)), None);
    assert_eq!(sequencer.poll(back(15_000)), Some(sent));
}

#[test]
fn a_new_leader_knows_from_the_log_what_was_released() {
    let mut sequencer = sequencer();
    let applied = Stamp {
        time_ns: 700,
        gateway: GatewayId(1),
    };
    sequencer.handle_applied(SymbolId(0), applied);
    let resent = stamped(600, 2, request(0, 1));
    assert_eq!(hand(&mut sequencer, 700, resent), Arrival::Late);
    for number in 2..=101 {
        hand(&mut sequencer, 700, stamped(700, 1, request(1, number)));
    }
    assert_eq!((sequencer.held(), sequencer.stats().full), (100, 1));
}

fn message(sequence: u64) -> MarketMessage {
    MarketMessage {
        symbol: SymbolId(4),
        sequence,
        time_ns: 1,
        kind: MarketKind::Phase(crate::book::Phase::Halted),
    }
}

fn packet(release_ns: u64, sequences: &[u64]) -> Packet {
    Packet {
        release_ns,
        messages: sequences.iter().copied().map(message).collect(),
        latest: Vec::new(),
    }
}

#[test]
fn messages_are_shown_in_order_at_their_time() {
    let mut hold = ReleaseHold::new(10_000);
    hold.handle_packet(at(100), &packet(500, &[2]));
    hold.handle_packet(at(110), &packet(400, &[1]));
    hold.handle_packet(at(120), &packet(450, &[1, 2]));
    assert_eq!(
        (hold.poll(at(399)), hold.next_release_ns()),
        (None, Some(400))
    );
    let shown = |hold: &mut ReleaseHold, now| {
        let released = hold.poll(now)?;
        Some((released.message.sequence, released.is_late))
    };
    assert_eq!(shown(&mut hold, at(400)), Some((1, false)));
    assert_eq!(shown(&mut hold, at(499)), None);
    assert_eq!(shown(&mut hold, at(500)), Some((2, false)));
    // What comes after its time is late, and so is what waited for it.
    hold.handle_packet(at(510), &packet(600, &[4]));
    assert_eq!(hold.missing(), Some((SymbolId(4), 3..4)));
    assert_eq!(shown(&mut hold, at(700)), None);
    hold.handle_packet(at(700), &packet(600, &[3]));
    let both = [shown(&mut hold, at(700)), shown(&mut hold, at(700))];
    assert_eq!(both, [Some((3, true)), Some((4, true))]);
    hold.handle_packet(
        at(800),
        &Packet {
            latest: vec![(SymbolId(4), 9)],
            ..Packet::default()
        },
    );
    assert_eq!(hold.missing(), Some((SymbolId(4), 5..10)));
    hold.handle_forgotten(SymbolId(4), 9);
    assert_eq!(hold.missing(), None);
}

#[test]
fn a_clock_that_goes_back_or_a_packet_of_the_far_future_holds_no_message_for_long() {
    let mut hold = ReleaseHold::new(10_000);
    hold.handle_packet(at(100), &packet(500, &[1]));
    hold.handle_packet(at(100), &packet(u64::MAX, &[2]));
    let back = |steady_ns| Now {
        clock_ns: 1,
        steady_ns,
    };
    assert!(hold.poll(back(500)).is_some());
    assert_eq!(hold.poll(back(10_099)), None);
    assert!(hold.poll(back(10_100)).is_some());
}

/// A probe of a gateway whose clock is ahead by so much, with delays in both directions.
fn probe(asked_ns: u64, ahead_ns: i64, there_ns: u64, back_ns: u64) -> ClockProbe {
    let there = (asked_ns + there_ns).saturating_add_signed(ahead_ns);
    ClockProbe {
        asked_ns,
        received_ns: there,
        answered_ns: there + 10,
        heard_ns: asked_ns + there_ns + 10 + back_ns,
    }
}

#[test]
fn a_clock_that_is_wrong_is_found_and_one_that_is_right_again_too() {
    let mut rng = Rng::with_seed(1);
    let mut watch = ClockWatch::default();
    let mut now_ns = 1 << 50;
    let mut run = |watch: &mut ClockWatch, ahead_ns: i64| {
        for _ in 0..PROBES {
            now_ns += 20_000_000;
            let mut way = || 30_000 + rng.u64(0..100_000) * rng.u64(0..5);
            watch.handle_probe(probe(now_ns, ahead_ns, way(), way()));
        }
        watch.is_wrong()
    };
    const PROBES: usize = 60;
    for ahead_ns in [-500_000, 500_000, 300_000] {
        assert!(!run(&mut watch, 20_000));
        assert!(run(&mut watch, ahead_ns), "{ahead_ns}");
        let offset_ns = watch.offset_ns().unwrap();
        assert!(offset_ns.abs_diff(ahead_ns) < 100_000, "{offset_ns}");
    }
    assert!(!run(&mut watch, 0));
    let mut impossible = ClockWatch::default();
    impossible.handle_probe(ClockProbe {
        asked_ns: 5,
        received_ns: 0,
        answered_ns: u64::MAX,
        heard_ns: 6,
    });
    assert_eq!(impossible.offset_ns(), None);
}

#[test]
fn a_delay_settles_where_the_wanted_share_is_late() {
    let bounds = DelayBounds {
        least_ns: 10_000,
        most_ns: 500_000,
        late_per_million: 20_000,
        step_ns: 500,
    };
    let mut rng = Rng::with_seed(3);
    for start_ns in [0, 1_000_000] {
        let mut control = DelayControl::new(start_ns, bounds);
        let late = |control: &mut DelayControl, rng: &mut Rng| {
            let is_late = rng.u64(0..100_000) > control.delay_ns();
            control.handle_arrival(is_late);
            is_late
        };
        for _ in 0..100_000 {
            late(&mut control, &mut rng);
        }
        let count = (0..100_000)
            .filter(|_| late(&mut control, &mut rng))
            .count();
        assert!((1500..2500).contains(&count), "{count} of 100,000");
        assert!((95_000..100_000).contains(&control.delay_ns()));
    }
}

#[test]
fn overtaken_requests_are_counted_by_symbol_and_in_all() {
    let mut meter = InboundMeter::default();
    // Symbol, gateway, time.
    for (symbol, gateway, time_ns) in [(0, 1, 10), (1, 1, 30), (0, 2, 20), (0, 1, 15), (1, 2, 29)] {
        meter.handle_executed(SymbolId(symbol), GatewayId(gateway), time_ns);
    }
    let expected = InboundUnfairness {
        requests: 5,
        // 20 after 30, and 15 after 20.
        before_previous: 2,
        // These, and 29 after 30.
        before_any: 3,
        // 15 after 20, and 29 after 30.
        before_previous_of_symbol: 2,
        before_any_of_symbol: 2,
    };
    assert_eq!(meter.counted(), expected);
    assert_eq!(meter.of_gateway(GatewayId(2)).before_any_of_symbol, 1);
    assert_eq!(meter.of_gateway(GatewayId(9)), InboundUnfairness::default());
}

#[test]
fn a_message_is_unfair_if_one_gateway_shows_it_late() {
    let mut meter = OutboundMeter::new(2);
    let released = |sequence, is_late| Released {
        message: message(sequence),
        release_ns: 1,
        is_late,
    };
    meter.handle_released(&released(1, false), 100);
    meter.handle_released(&released(2, false), 110);
    assert_eq!(meter.counted().messages, 0);
    meter.handle_released(&released(1, false), 104);
    meter.handle_released(&released(2, true), 131);
    let counted = meter.counted();
    assert_eq!((counted.messages, counted.late), (2, 1));
    let spreads = &counted.spreads;
    assert_eq!((spreads.per_mille(500), spreads.per_mille(1000)), (4, 21));
}
