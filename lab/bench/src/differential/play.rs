//! Runs one sequence against two systems, step by step.

use super::generate;
use super::side::Side;
use super::step::{Action, Outcome, Step};
use super::users::Caller;
use super::world::World;

/// What a system is compared with.
#[derive(Debug)]
pub(crate) enum ValueRef {
    /// A system that runs.
    Live(Side),
    /// What the side did when it was recorded.
    Recorded(std::vec::IntoIter<Outcome>),
}

impl ValueRef {
    /// How much the time that leases have left may differ: a recording was made by a machine that
    /// may have been faster.
    fn seconds(&self) -> u64 {
        match self {
            ValueRef::Live(_) => 1,
            ValueRef::Recorded(_) => 120,
        }
    }
}

/// A step that two systems answered differently.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// The number of the step in its sequence.
    pub(crate) number: u64,
    /// What was asked.
    pub(crate) step: Step,
    /// What the reference did.
    pub(crate) expected: Outcome,
    /// What the system under test did.
    pub(crate) got: Outcome,
}

/// What came of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Played {
    /// Requests made of each system.
    pub(crate) requests: u64,
    /// Events that watches told, on one side.
    pub(crate) events: u64,
    /// What the reference did.
    pub(crate) outcomes: Vec<Outcome>,
    /// The first difference; the sequence ends there.
    pub(crate) difference: Option<Difference>,
}

/// Plays the steps of a seed that have these numbers.
pub(crate) async fn play(
    seed: u64,
    numbers: &[u64],
    reference: &mut ValueRef,
    tested: &mut Side,
    mut passed: impl FnMut(),
) -> Result<Played, String> {
    let mut game = Game {
        world: World::default(),
        reference,
        tested,
        played: Played::default(),
    };
    let settle = Step {
        endpoint: 0,
        in_json: false,
        caller: Caller::Nobody,
        action: Action::Settle,
    };
    for &number in numbers {
        let step = generate::step(seed, number, &game.world);
        let quiet =
            !game.world.needs_quiet(&step.action) || game.ask(number, settle.clone()).await?;
        if !quiet || !game.ask(number, step).await? {
            return Ok(game.played);
        }
        passed();
    }
    // Twice: what is told once too often may come late.
    let last = numbers.last().map_or(0, |last| last + 1);
    let _ = game.ask(last, settle.clone()).await? && game.ask(last + 1, settle).await?;
    Ok(game.played)
}

struct Game<'a> {
    world: World,
    reference: &'a mut ValueRef,
    tested: &'a mut Side,
    played: Played,
}

impl Game<'_> {
    /// Performs a step on both sides. Whether they agree.
    async fn ask(&mut self, number: u64, step: Step) -> Result<bool, String> {
        let (world, reference) = (&self.world, &mut *self.reference);
        let expected = async {
            match reference {
                ValueRef::Live(side) => Ok(side.perform(&step, world).await),
                ValueRef::Recorded(outcomes) => {
                    outcomes.next().ok_or("the recording ends too early")
                }
            }
        };
        let (expected, got) = tokio::join!(expected, self.tested.perform(&step, world));
        let expected = expected?;
        self.played.requests += 1;
        self.played.events += got.events;
        if !expected.agrees(&got, self.reference.seconds()) {
            self.played.difference = Some(Difference {
                number,
                step,
                expected,
                got,
            });
            return Ok(false);
        }
        self.world.learn(&step.action, &expected);
        self.played.outcomes.push(expected);
        Ok(true)
    }
}
