//! Conversations: scripts that drive the machines of a protocol message by message, and what they
//! say (`docs/guide/testing.md` describes the language).
//!
//! `QUORATE_RECORD=1 cargo test -p quorate-protocols --test conversations` records them anew.

mod diff;
mod script;
mod stage;

use quorate_protocols::{Catcher, Protocol, Visitor, names, visit};
use std::path::{Path, PathBuf};

/// Plays one script with the protocol it is for.
struct Play<'a>(&'a str);

impl Visitor for Play<'_> {
    type Output = Result<String, String>;

    fn visit<P: Protocol>(self) -> Self::Output {
        script::play::<P>(self.0)
    }
}

fn scripts_of(protocol: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("conversations")
        .join(protocol);
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = files.map(|file| file.path());
    let mut scripts: Vec<_> = files
        .filter(|f| f.extension().is_some_and(|e| e == "txt"))
        .collect();
    scripts.sort();
    scripts
}

#[test]
fn every_conversation_goes_as_recorded() {
    let is_recording = std::env::var_os("QUORATE_RECORD").is_some();
    let mut failures = Vec::new();
    for protocol in names() {
        let scripts = scripts_of(protocol);
        assert!(!scripts.is_empty(), "{protocol} has no conversation");
        for path in scripts {
            let recorded = std::fs::read_to_string(&path).expect("scripts are text");
            match visit(protocol, Play(&recorded)).expect("it is registered") {
                Err(why) => failures.push(format!("{}: {why}", path.display())),
                Ok(played) if is_recording => {
                    std::fs::write(&path, played).expect("scripts can be recorded");
                }
                Ok(played) if played != recorded => {
                    let diff = diff::lines(&recorded, &played);
                    failures.push(format!("{} went another way:\n{diff}", path.display()));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The conversations that are to find a mutant, and are not there or do not break it.
struct Unproved;

impl Visitor for Unproved {
    type Output = Vec<&'static str>;

    fn visit<P: Protocol>(self) -> Self::Output {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("conversations")
            .join(P::NAME);
        let mutants = P::mutants().into_iter();
        let unproved = mutants.filter(|mutant| match mutant.catcher {
            Catcher::Conversation(file) => {
                let script = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
                let is_broken = script.contains(&format!(" mutant={} ", mutant.name));
                !is_broken || !script.contains("\nexpect violation ")
            }
            Catcher::Seeds { .. } | Catcher::Test(_) => false,
        });
        unproved.map(|mutant| mutant.name).collect()
    }
}

#[test]
fn mutants_said_to_be_found_in_a_conversation_are() {
    for protocol in names() {
        assert_eq!(visit(protocol, Unproved), Some(vec![]), "{protocol}");
    }
}

#[test]
fn what_makes_no_sense_is_named() {
    let error = |script: &str| visit("rabia", Play(script)).expect("rabia").unwrap_err();
    assert!(error("submit 1").contains("the first command is cluster"));
    assert!(error("cluster 3\nshout 1").contains("there is no command shout"));
    assert!(error("cluster 3\nsubmit 4").contains("which replica?"));
    assert!(error("cluster 3\ndeliver 1 2").contains("nothing of that kind"));
    assert!(error("cluster 3\nexpect 1 delivered s0").contains("delivered nothing"));
    assert!(error("cluster 3\nexpect violation (I1)").contains("there was none such"));
    assert!(error("cluster 3 windw=4").contains("windw"));
}

#[test]
fn a_difference_is_shown_with_the_lines_around_it() {
    let diff = diff::lines("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nx\ne\nf\n");
    assert_eq!(diff, "  b\n  c\n- d\n+ x\n  e\n  f\n");
}
