//! Every command of this program in the README and in `docs/` is one that it takes.
//!
//! Both programs have this module, each with its own `Cli`. `scripts/readme-commands.sh` runs the commands of the
//! README.

use crate::{CALLED_AS, Cli};
use clap::Parser;
use clap::error::ErrorKind;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages whose commands readers type: README.md and all of `docs/` but the records of decisions.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("decisions") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Commands in blocks of `sh`, and commands between backticks, which may name no more than what they are about.
#[derive(Default)]
struct Commands {
    whole: Vec<String>,
    named: Vec<String>,
}

impl Commands {
    fn of(page: &str) -> Self {
        let mut commands = Commands::default();
        for (number, part) in page.split("```").enumerate() {
            if number % 2 == 0 {
                let spans = part.split('`').skip(1).step_by(2);
                let spans = spans.map(|span| span.replace('\n', " "));
                commands.named.extend(spans.filter_map(|span| ours(&span)));
            } else if let Some(script) = part.strip_prefix("sh\n") {
                let script = script.replace("\\\n", " ");
                commands.whole.extend(script.lines().filter_map(ours));
            }
        }
        commands
    }
}

/// The arguments in a line that calls this program.
fn ours(line: &str) -> Option<String> {
    let line = line.trim();
    let arguments = CALLED_AS.iter().find_map(|name| line.strip_prefix(name))?;
    let end = [" #", " >", " |", " &", "; "];
    let end = end.iter().filter_map(|end| arguments.find(end)).min();
    Some(unquoted(&arguments[..end.unwrap_or(arguments.len())]))
}

/// What stands for a space that ends no word.
const SPACE_WITHIN: char = '\u{1}';

/// The text without its quotes, and without the spaces between them.
fn unquoted(text: &str) -> String {
    let (mut quote, mut bare) = (None, String::new());
    for c in text.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', Some(_)) => bare.push(SPACE_WITHIN),
            _ => bare.push(c),
        }
    }
    bare
}

fn parse(arguments: &str) -> Result<(), clap::Error> {
    let words = arguments.split_whitespace();
    let words = words.map(|word| word.replace(SPACE_WITHIN, " "));
    let program = [CALLED_AS[0].trim().to_owned()];
    Cli::try_parse_from(program.into_iter().chain(words)).map(|_| ())
}

/// Whether a command is one as far as it goes.
fn is_known(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
    )
}

#[test]
fn commands_of_readme_and_docs_are_taken() {
    let mut wrong = Vec::new();
    for path in pages() {
        let commands = Commands::of(&fs::read_to_string(&path).unwrap());
        let failed = commands
            .whole
            .iter()
            .filter_map(|command| Some((command, parse(command).err()?)));
        let named = commands
            .named
            .iter()
            .filter(|command| !command.contains("..."));
        let unknown = named.filter_map(|command| Some((command, parse(command).err()?)));
        let unknown = unknown.filter(|(_, error)| !is_known(error));
        wrong.extend(
            failed
                .chain(unknown)
                .map(|(command, error)| format!("{}: {command}\n{error}", path.display())),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_are_found_wherever_they_are() {
    let page = "`NAME up\n--replicas 5`, and:\n```sh\nNAME status \\\n  --json   # all\netcdctl get a\n```\n`NAME`";
    let commands = Commands::of(&page.replace("NAME", CALLED_AS[0].trim()));
    assert_eq!(commands.named, ["up --replicas 5"]);
    assert_eq!(commands.whole, ["status    --json  "]);
}
