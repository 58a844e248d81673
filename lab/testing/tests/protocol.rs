//! A protocol of one's own under faults: the library's example passes, and a broken one is found.

#[path = "../../../crates/quorate/examples/protocol/sequencer/mod.rs"]
mod sequencer;

use quorate::{Applied, StateMachine, decode, encode};
use quorate_core::{Epoch, Lsn, Output, Seat};
use quorate_protocols::{Protocol, Sabotage, Sabotaged, SabotagedConfig};
use quorate_testing::{Rng, Simulation, Testable};
use sequencer::{FixedSequencer, Sequencer};

#[derive(Default)]
struct Counter(u64);

impl StateMachine for Counter {
    type Command = u64;
    type Reply = u64;
    type Query = ();
    type Answer = u64;

    fn apply(&mut self, _: &Applied, add: u64) -> u64 {
        self.0 += add;
        self.0
    }

    fn query(&self, (): &()) -> u64 {
        self.0
    }

    fn save(&self) -> Vec<u8> {
        encode(&self.0).expect("a number always has a form")
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        decode(bytes).map(Counter).map_err(|why| why.to_string())
    }
}

impl Testable for Counter {
    type Model = u64;

    fn draw_command(rng: &mut Rng, _: u64) -> u64 {
        rng.u64(1..10)
    }

    fn draw_query(_: &mut Rng) {}

    fn expected_reply(model: &mut u64, _: &Applied, add: &u64) -> u64 {
        *model += add;
        *model
    }

    fn expected_answer(model: &u64, (): &()) -> u64 {
        *model
    }
}

/// The example, but for one thing: no message waits for the records it rests on.
struct Hasty;

impl Protocol for Hasty {
    const NAME: &'static str = "hasty";
    type Machine = Sabotaged<Sequencer>;

    fn config(seat: &Seat) -> Result<SabotagedConfig<Sequencer>, String> {
        Ok(SabotagedConfig {
            inner: FixedSequencer::config(seat)?,
            sabotage: Some(Sabotage::Output(hurry)),
        })
    }

    fn failures_survived(epoch: &Epoch) -> usize {
        FixedSequencer::failures_survived(epoch)
    }
}

fn hurry(output: &mut Output<Sequencer>) -> bool {
    if let Output::Send { after, .. } = output {
        *after = Lsn(0);
    }
    true
}

#[test]
fn the_protocol_of_the_example_passes_under_all_faults() {
    let passed = Simulation::default()
        .seeds(0..60)
        .run_by::<Counter, FixedSequencer>();
    assert_eq!(passed, Ok(()));
}

#[test]
fn five_members_pass_too() {
    let simulation = Simulation::default().replicas(5).seeds(100..130);
    assert_eq!(simulation.run_by::<Counter, FixedSequencer>(), Ok(()));
}

#[test]
fn messages_ahead_of_their_records_are_found() {
    let simulation = Simulation::default().seeds(0..400);
    let failure = simulation.run_by::<Counter, Hasty>().unwrap_err();
    println!("{failure}");
    let alone = simulation.seeds(failure.seed..failure.seed + 1);
    assert_eq!(alone.run_by::<Counter, Hasty>(), Err(failure));
}
