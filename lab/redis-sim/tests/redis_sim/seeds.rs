//! Seeds of whole groups, and drivers that break a rule.

use quorate_redis_effects::Mutant;
use quorate_redis_sim::{Options, Report, World};

/// The seeds of the run: `QUORATE_FIRST_SEED` and `QUORATE_SEEDS` say where it begins and how many there are.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse().ok())
    };
    let first = number("QUORATE_FIRST_SEED").unwrap_or(0);
    first..first + number("QUORATE_SEEDS").unwrap_or(usual)
}

#[test]
fn groups_answer_as_one_server_whatever_breaks() {
    let mut sum = Report::default();
    for seed in seeds(60) {
        if std::env::var_os("QUORATE_SEEDS").is_some() {
            println!("seed {seed}");
        }
        let options = Options {
            has_races: true,
            ..Options::new(seed)
        };
        match World::new(options).run() {
            Ok(report) => {
                sum.answered += report.answered;
                sum.unknown += report.unknown;
                sum.epochs += report.epochs;
                sum.continued += report.continued;
                sum.tails += report.tails;
                sum.saved += report.saved;
                sum.installed += report.installed;
            }
            Err(why) => panic!("seed {seed}: {why}"),
        }
    }
    println!("{sum:?}");
    let happened = [
        sum.answered,
        sum.continued,
        sum.tails,
        sum.saved,
        sum.installed,
    ];
    assert!(happened.iter().all(|count| *count > 0), "{sum:?}");
}

/// Mutants that only races show.
const RACED: [Mutant; 2] = [Mutant::ReadsUnproven, Mutant::RdbAhead];

/// What a run ends with that does not come to rest: no judge has seen anything wrong in it.
const RESTLESS: &str = "no calm";

/// The first seed at which a mutant is caught.
fn caught(mutant: Mutant) -> (u64, String) {
    for seed in 0..200 {
        let options = Options {
            has_races: RACED.contains(&mutant),
            mutant: Some(mutant),
            ..Options::new(seed)
        };
        if let Err(why) = World::new(options).run() {
            return (seed, why);
        }
    }
    panic!("{mutant:?} is not caught");
}

macro_rules! mutants {
    ($($name:ident: $mutant:ident,)*) => {
        $(#[test]
        fn $name() {
            let (seed, why) = caught(Mutant::$mutant);
            println!("seed {seed}: {why}");
            assert!(!why.starts_with(RESTLESS), "a judge is to see it, at seed {seed}");
        })*
    };
}

mutants! {
    answers_that_are_not_held_are_caught: AnswersNotHeld,
    a_server_that_goes_on_with_a_tail_is_caught: ContinueAlways,
    answers_without_a_barrier_are_caught: NoBarrier,
    reads_without_a_proof_are_caught: ReadsUnproven,
    answers_out_of_order_are_caught: OutOfOrder,
    an_rdb_ahead_of_the_stream_is_caught: RdbAhead,
    units_cut_in_transactions_are_caught: CutUnits,
    pieces_of_any_offset_are_caught: OffsetUnchecked,
}

#[test]
#[ignore = "prints what happened at QUORATE_SEED"]
fn trace() {
    let seed = std::env::var("QUORATE_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let (result, trace) = World::new(Options::new(seed)).traced();
    for line in trace {
        println!("{line}");
    }
    println!("{result:?}");
}
