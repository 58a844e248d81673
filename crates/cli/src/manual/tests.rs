//! Completions and pages know every command and option, as shells and `man` see them.

use super::*;
use crate::Cli;
use clap::CommandFactory;
use std::process::{Command as Process, Stdio};

fn built() -> Command {
    let mut root = Cli::command();
    root.build();
    root
}

#[test]
fn every_command_and_option_is_completed_and_has_a_page() {
    let root = built();
    let nodes = all(&root);
    let paths: Vec<String> = nodes.iter().map(|node| node.path.join(" ")).collect();
    for path in ["", "serve", "cluster switch", "status", "log export", "man"] {
        assert!(paths.iter().any(|found| found == path), "{path}: {paths:?}");
    }
    let scripts =
        [Shell::Bash, Shell::Zsh, Shell::Fish].map(|shell| completions::script(shell, &nodes));
    for node in &nodes {
        let page = man::page(node);
        for option in node.options() {
            let long = option.get_long().unwrap_or_default();
            let written = format!("\\-\\-{}", long.replace('-', "\\-"));
            assert!(page.contains(&written), "{written}:\n{page}");
            assert!(scripts.iter().all(|script| script.contains(long)), "{long}");
        }
    }
}

#[test]
fn nothing_is_an_order_to_the_typesetter_that_is_not_meant_to_be() {
    let root = built();
    for node in all(&root) {
        let page = man::page(&node);
        let orders = page.lines().filter(|line| line.starts_with(['.', '\'']));
        let known = [".TH ", ".SH ", ".TP", ".PP", ".nf", ".fi"];
        for order in orders {
            assert!(
                known.iter().any(|known| order.starts_with(known)),
                "{order}"
            );
        }
    }
}

/// What bash offers for a line, by the script itself.
fn offered(line: &str) -> Vec<String> {
    let root = built();
    let script = completions::script(Shell::Bash, &all(&root));
    let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
    let count = words.len() - 1;
    let run = format!(
        "{script}\nCOMP_WORDS=({}); COMP_CWORD={count}; _quorate; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" ")
    );
    let bash = Process::new("bash")
        .args(["--norc", "-c", &run])
        .stderr(Stdio::inherit())
        .output();
    let text = String::from_utf8(bash.unwrap().stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(offered("quorate clu"), ["cluster"]);
    assert_eq!(offered("quorate cluster sw"), ["switch"]);
    assert_eq!(
        offered("quorate serve --initial-cluster-t"),
        ["--initial-cluster-token"]
    );
    assert_eq!(offered("quorate serve --id 1 --durability m"), ["memory"]);
    assert_eq!(offered("quorate completions --no-such-flag"), [""]);
}
