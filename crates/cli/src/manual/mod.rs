//! What is made of the command line itself: completions for shells, and pages of a manual. Both have the words of
//! `--help`, because they are made of the same commands.

mod completions;
mod man;

use crate::Failure;
use clap::{Arg, Args, Command, ValueEnum};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A shell that completes command lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Shell {
    /// Bash: for ~/.bash_completion, or the folder /usr/share/bash-completion/completions
    Bash,
    /// Zsh: for a file _quorate in a folder of $fpath
    Zsh,
    /// Fish: for ~/.config/fish/completions/quorate.fish
    Fish,
}

/// The options of `quorate completions`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionsOptions {
    /// The shell to complete for
    #[arg(value_enum)]
    shell: Shell,
}

/// The options of `quorate man`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ManOptions {
    /// The command whose page is wanted, as in `man cluster switch` [default: the page of quorate]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write the pages of all commands into this folder, each as quorate-COMMAND.1
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    into: Option<PathBuf>,
}

/// Writes completions of the whole command line to standard output.
pub(crate) fn complete(options: &CompletionsOptions, mut root: Command) -> Result<(), Failure> {
    root.build();
    print(&completions::script(options.shell, &all(&root)))
}

/// Writes a page to standard output, or all pages into a folder.
pub(crate) fn man(options: &ManOptions, mut root: Command) -> Result<(), Failure> {
    root.build();
    let nodes = all(&root);
    if let Some(folder) = &options.into {
        return write_all(folder, &nodes);
    }
    let node = nodes.iter().find(|node| node.path == options.command);
    match node {
        Some(node) => print(&man::page(node)),
        None => Err(Failure::Usage(format!(
            "there is no command {:?}",
            options.command.join(" ")
        ))),
    }
}

fn write_all(folder: &Path, nodes: &[Node<'_>]) -> Result<(), Failure> {
    let write = |path: &Path, text: &str| {
        fs::write(path, text)
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
    };
    fs::create_dir_all(folder)
        .map_err(|error| Failure::Failed(format!("cannot create {}: {error}", folder.display())))?;
    for node in nodes {
        write(&folder.join(format!("{}.1", node.name())), &man::page(node))?;
    }
    Ok(())
}

fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Nobody reads any more, as `| head` does.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}

/// A command, and the names that lead to it behind that of the program.
struct Node<'a> {
    path: Vec<String>,
    command: &'a Command,
}

impl Node<'_> {
    /// The name of its page.
    fn name(&self) -> String {
        let mut names = vec!["quorate"];
        names.extend(self.path.iter().map(String::as_str));
        names.join("-")
    }

    /// How it is called, without options.
    fn called(&self) -> String {
        self.name().replace('-', " ")
    }

    /// The commands below it that people are shown.
    fn shown(&self) -> impl Iterator<Item = &Command> {
        let below = self.command.get_subcommands();
        below.filter(|command| !command.is_hide_set() && command.get_name() != "help")
    }

    /// The options that people are shown.
    fn options(&self) -> impl Iterator<Item = &Arg> {
        let options = self.command.get_arguments();
        options.filter(|option| !option.is_hide_set() && option.get_long().is_some())
    }
}

/// All commands that people are shown, each before those below it.
fn all(root: &Command) -> Vec<Node<'_>> {
    let mut nodes = Vec::new();
    let mut to_visit = vec![Node {
        path: Vec::new(),
        command: root,
    }];
    while let Some(node) = to_visit.pop() {
        let below = node.command.get_subcommands();
        let below = below.filter(|command| !command.is_hide_set() && command.get_name() != "help");
        let below = below.map(|command| Node {
            path: [&node.path[..], &[command.get_name().to_owned()]].concat(),
            command,
        });
        let below: Vec<Node<'_>> = below.collect();
        to_visit.extend(below.into_iter().rev());
        nodes.push(node);
    }
    nodes
}

/// A text on one line.
fn line(text: impl ToString) -> String {
    let text = text.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What an option means, on one line.
fn meaning(option: &Arg) -> String {
    line(option.get_help().map_or(String::new(), ToString::to_string))
}

/// The words that an option's value may be, if it is one of few.
fn values(option: &Arg) -> Vec<String> {
    let values = option.get_possible_values().into_iter();
    let values = values.filter(|value| !value.is_hide_set());
    values.map(|value| value.get_name().to_owned()).collect()
}

/// Whether a word follows an option.
fn takes_value(option: &Arg) -> bool {
    let least = option.get_num_args().map_or(0, |count| count.min_values());
    option.get_action().takes_values() && least > 0
}

#[cfg(test)]
mod tests;
