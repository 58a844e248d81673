use super::*;

#[test]
fn nothing_is_lost_doubled_or_shown_early_whatever_fails() {
    let mut all = Seen::default();
    for seed in 0..30 {
        let seen = Scenario::with_faults().run(seed);
        let seen = seen.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        assert_eq!(
            seen.executed,
            Scenario::with_faults().requests,
            "seed {seed}"
        );
        all.repeated += seen.repeated;
        all.trades += seen.trades;
        all.leaders_died += seen.leaders_died;
        all.lost_with_leader += seen.lost_with_leader;
        all.gateways_died += seen.gateways_died;
        all.sequencer.add(&seen.sequencer);
    }
    let sequencer = all.sequencer;
    let rare = [
        all.repeated,
        all.trades,
        all.leaders_died,
        all.lost_with_leader,
        all.gateways_died,
        sequencer.held,
        sequencer.overdue,
        sequencer.late,
        sequencer.future,
        sequencer.quarantined,
        sequencer.known,
        sequencer.forged,
    ];
    assert!(rare.iter().all(|count| *count > 0), "{all:?}");
}

#[test]
fn a_seed_is_run_twice_alike() {
    let scenario = Scenario::with_faults();
    assert_eq!(scenario.run(5), scenario.run(5));
}

#[test]
fn market_data_that_shows_what_is_not_committed_is_found() {
    let scenario = Scenario {
        publishes_early: true,
        ..Scenario::with_faults()
    };
    let found = (0..5).find_map(|seed| scenario.run(seed).err());
    let what = found.expect("nothing was found");
    assert!(what.contains("is shown"), "{what}");
}

/// Many requests at once, so that there is somebody to overtake.
fn busy() -> Scenario {
    Scenario {
        requests: 2000,
        between_ns: 20_000,
        ..Scenario::default()
    }
}

#[test]
fn with_a_delay_that_covers_the_network_nobody_overtakes() {
    let scenario = Scenario {
        way_ns: 30_000,
        jitter_ns: 2_000,
        ..busy()
    };
    let seen = scenario.run(1).unwrap();
    assert_eq!(seen.sequencer.late + seen.sequencer.overdue, 0);
    assert_eq!(seen.inbound_by_stamp.before_any, 0);
    // Clocks are within 10 us of the time, so that what is shown at one time is shown within 20 us.
    assert_eq!(seen.outbound.late, 0);
    assert!(seen.outbound.messages > 1000 && seen.outbound.spreads.per_mille(1000) <= 21_000);
}

#[test]
fn a_delay_that_is_too_short_is_unfair() {
    let unfair = |order_delay_ns| {
        let scenario = Scenario {
            order_delay_ns,
            jitter_ns: 50_000,
            ..busy()
        };
        scenario.run(1).unwrap().inbound_by_stamp.before_any
    };
    let (short, long) = (unfair(20_000), unfair(800_000));
    assert!(short > 100, "{short} of 2,000");
    assert!(long < short / 10, "{long} of 2,000");
}

/// A leader that chooses its delay lets about as many come late as wanted, wherever it begins.
#[test]
fn a_delay_that_is_chosen_is_as_long_as_the_network_makes_it() {
    let run = |order_delay_ns, late_per_million| {
        let scenario = Scenario {
            requests: 20_000,
            order_delay_ns,
            late_per_million,
            jitter_ns: 50_000,
            ..busy()
        };
        scenario.run(1).unwrap()
    };
    let late = |seen: &Seen| seen.sequencer.late + seen.sequencer.overdue;
    let short = run(40_000, None);
    assert!(late(&short) > 2_000, "{:?}", short.sequencer);
    for begun_ns in [40_000, 400_000] {
        let seen = run(begun_ns, Some(20_000));
        assert!((200..1_000).contains(&late(&seen)), "{:?}", seen.sequencer);
        let delay_ns = seen.order_delay_ns;
        assert!((100_000..400_000).contains(&delay_ns), "{delay_ns}");
    }
}

/// One clock that is wrong harms those at its gateway alone by their stamps, and is found.
#[test]
fn a_wrong_clock_is_found_and_its_gateway_is_as_fair_as_before() {
    let run = |clock_error_ns, watches_clocks| {
        let scenario = Scenario {
            clock_error_ns,
            watches_clocks,
            way_ns: 10_000,
            jitter_ns: 5_000,
            ..busy()
        };
        scenario.run(1).unwrap()
    };
    let right = run(0, true);
    assert_eq!(right.sequencer.quarantined, 0);
    for clock_error_ns in [-500_000, 500_000] {
        let (found, unseen) = (run(clock_error_ns, true), run(clock_error_ns, false));
        assert!(found.sequencer.quarantined > 300, "{:?}", found.sequencer);
        assert_eq!(unseen.sequencer.quarantined, 0);
        let of_others = unseen.inbound_by_stamp.before_any_of_symbol
            - unseen.inbound_by_stamp_of_first.before_any_of_symbol;
        assert!(of_others <= right.inbound_by_stamp.before_any_of_symbol + 20);
        let unfair = |seen: &Seen| seen.inbound.before_any_of_symbol;
        assert!(
            unfair(&found) * 2 < unfair(&unseen),
            "{} with a watch, {} without, {} with right clocks",
            unfair(&found),
            unfair(&unseen),
            unfair(&right)
        );
    }
}
