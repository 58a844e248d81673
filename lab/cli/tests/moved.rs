//! What was a command of `quorate` and is in the laboratory now.

mod support;

use clap::{Command as Clap, Subcommand};
use support::program::{output, program};

/// The names of all subcommands that people see.
fn names<S: Subcommand>() -> Vec<String> {
    let command = S::augment_subcommands(Clap::new("bench"));
    let shown = command
        .get_subcommands()
        .filter(|shown| !shown.is_hide_set());
    shown.map(|shown| shown.get_name().to_owned()).collect()
}

/// What `quorate` says on standard error, which must be a failure of usage.
fn refusal(words: &[&str]) -> String {
    let mut command = program(quorate_tooling::program::Place::default().binary().unwrap());
    let output = output(command.args(words));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
    said
}

/// Scenario: someone types a command as it was once; the answer is the command as it is now.
#[test]
fn a_moved_command_says_where_it_went() {
    let own = names::<quorate_load::BenchCommand>();
    for name in names::<quorate_bench::BenchCommand>() {
        if !own.contains(&name) {
            let said = refusal(&["bench", &name, "--rounds", "2"]);
            let new = format!("quorate-lab bench {name} --rounds 2 ");
            assert!(said.contains(&new), "{said}");
        }
    }
    for name in ["sim", "model"] {
        let said = refusal(&[name, "--protocol", "rabia", "--help"]);
        let new = format!("quorate-lab {name} --protocol rabia --help ");
        assert!(said.contains(&new), "{said}");
    }
}

/// Scenario: a name that no bench ever had.
#[test]
fn an_unknown_bench_is_refused() {
    let said = refusal(&["bench", "puts"]);
    assert!(said.contains("there is no bench puts"), "{said}");
}
