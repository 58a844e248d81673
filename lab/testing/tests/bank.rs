//! A bank whose money is never more or less, and what the simulator finds when it makes a mistake.

#![allow(
    clippy::disallowed_methods,
    reason = "one of the banks reads the clock"
)]

use quorate::{Applied, Protocol, StateMachine, decode, encode};
use quorate_testing::{Failure, Rng, Simulation, Testable};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const ACCOUNTS: u8 = 4;
const BEGINNING: u64 = 100;

/// What a bank does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    Nothing,
    ReadsClock,
    LosesUpdates,
    ForgetsInSnapshots,
}

thread_local! {
    /// The mistake of the banks of this test.
    static MISTAKE: Cell<Mistake> = const { Cell::new(Mistake::Nothing) };
}

struct Bank(BTreeMap<u8, u64>);

impl Default for Bank {
    fn default() -> Self {
        Bank((0..ACCOUNTS).map(|account| (account, BEGINNING)).collect())
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Transfer {
    from: u8,
    to: u8,
    amount: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Transferred {
    /// What is left.
    Done(u64),
    TooLittle,
}

fn transfer(accounts: &mut BTreeMap<u8, u64>, asked: &Transfer) -> Transferred {
    let left = accounts[&asked.from].checked_sub(asked.amount);
    let Some(left) = left else {
        return Transferred::TooLittle;
    };
    accounts.insert(asked.from, left);
    *accounts.entry(asked.to).or_default() += asked.amount;
    Transferred::Done(accounts[&asked.from])
}

impl StateMachine for Bank {
    type Command = Transfer;
    type Reply = Transferred;
    type Query = u8;
    type Answer = u64;

    fn apply(&mut self, _: &Applied, command: Transfer) -> Transferred {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let is_odd = now.is_ok_and(|now| now.subsec_nanos() % 2 == 1);
        let is_rejected = MISTAKE.get() == Mistake::ReadsClock && is_odd;
        if is_rejected || MISTAKE.get() == Mistake::LosesUpdates && command.amount == 13 {
            return Transferred::Done(self.0[&command.from]);
        }
        transfer(&mut self.0, &command)
    }

    fn query(&self, account: &u8) -> u64 {
        self.0[account]
    }

    fn save(&self) -> Vec<u8> {
        encode(&self.0).expect("accounts are numbers")
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        let accounts = decode(bytes).map_err(|error| error.to_string())?;
        Ok(match MISTAKE.get() {
            Mistake::ForgetsInSnapshots => Bank::default(),
            _ => Bank(accounts),
        })
    }
}

impl Testable for Bank {
    type Model = Bank;

    fn draw_command(rng: &mut Rng, _: u64) -> Transfer {
        Transfer {
            from: rng.u8(..ACCOUNTS),
            to: rng.u8(..ACCOUNTS),
            amount: rng.u64(1..40),
        }
    }

    fn draw_query(rng: &mut Rng) -> u8 {
        rng.u8(..ACCOUNTS)
    }

    fn expected_reply(bank: &mut Bank, _: &Applied, asked: &Transfer) -> Transferred {
        transfer(&mut bank.0, asked)
    }

    fn expected_answer(bank: &Bank, account: &u8) -> u64 {
        bank.0[account]
    }

    fn check(&self) -> Result<(), String> {
        let sum: u64 = self.0.values().sum();
        match sum == BEGINNING * u64::from(ACCOUNTS) {
            true => Ok(()),
            false => Err(format!("the accounts have {sum} together")),
        }
    }
}

#[test]
fn a_bank_keeps_its_money_under_all_faults() {
    for protocol in [Protocol::MultiPaxos, Protocol::Rabia, Protocol::Nezha] {
        let passed = Simulation::default().protocol(protocol).run::<Bank>();
        assert_eq!(passed, Ok(()), "{protocol:?}");
    }
}

/// The failure of a bank with a mistake, which has to fail alone in the same words.
fn found(mistake: Mistake) -> Failure {
    MISTAKE.set(mistake);
    let failure = Simulation::default().seeds(0..200).run::<Bank>();
    let failure = failure.expect_err("no seed finds the mistake");
    println!("{failure}");
    failure
}

#[test]
fn a_bank_that_reads_the_clock_is_found() {
    let what = found(Mistake::ReadsClock).what;
    assert!(what.contains("two replicas applied command"), "{what}");
}

#[test]
fn a_bank_that_loses_updates_is_found_by_a_seed_that_finds_it_again() {
    let failure = found(Mistake::LosesUpdates);
    assert!(
        failure.what.contains("and the model has"),
        "{}",
        failure.what
    );
    let alone = Simulation::default().seeds(failure.seed..failure.seed + 1);
    assert_eq!(alone.run::<Bank>(), Err(failure));
}

/// Scenario: a test runs in a process of its own, with one seed that is not the first to fail.
#[test]
fn the_variable_that_a_failure_names_chooses_the_seed() {
    let test = "a_bank_that_reads_the_clock_is_found";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("QUORATE_SEED", "150")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = "seed 150 fails, and again with QUORATE_SEED=150: ";
    assert!(output.status.success() && said.contains(expected), "{said}");
}

#[test]
fn a_bank_that_forgets_in_snapshots_is_found() {
    found(Mistake::ForgetsInSnapshots);
}
