//! Scripts that complete command lines of this program in shells.
//!
//! All three shells do the same: they follow the words so far from command to command, and offer what that command has.
//! A place among the commands is written as its names, each behind a space.

use super::{Node, Shell, line, meaning, takes_value, values};
use clap::{Arg, ValueHint};
use std::fmt::Write;

/// The script for a shell.
pub(super) fn script(shell: Shell, nodes: &[Node<'_>]) -> String {
    match shell {
        Shell::Bash => bash(nodes),
        Shell::Zsh => zsh(nodes),
        Shell::Fish => fish(nodes),
    }
}

fn place(node: &Node<'_>) -> String {
    node.path.iter().map(|name| format!(" {name}")).collect()
}

/// Lines that follow one word, for a `case` of bash and zsh.
fn follow(nodes: &[Node<'_>]) -> String {
    let below = nodes.iter().filter(|node| !node.path.is_empty());
    let places: Vec<String> = below.map(|node| format!("\"{}\"", place(node))).collect();
    places.join(" | ")
}

fn long(option: &Arg) -> String {
    format!("--{}", option.get_long().unwrap_or_default())
}

/// Whether an option's value is a path, by what the help calls it.
fn is_path(option: &Arg) -> bool {
    let names = option.get_value_names().unwrap_or_default();
    let is_named = |name: &str| ["FILE", "DIR", "PATH"].contains(&name);
    names.iter().any(|name| is_named(name)) || option.get_value_hint() != ValueHint::Unknown
}

fn bash(nodes: &[Node<'_>]) -> String {
    let mut text = format!(
        "# Completions of quorate for bash; made by: quorate completions bash\n\
         _quorate() {{\n  \
         local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} at= word offered=\n  \
         for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n    \
         case \"$at $word\" in {}) at=\"$at $word\" ;; esac\n  \
         done\n  case \"$at $previous\" in\n",
        follow(nodes)
    );
    for node in nodes {
        for option in node.options().filter(|option| takes_value(option)) {
            let (at, name, values) = (place(node), long(option), values(option));
            let reply = match is_path(option) {
                true => "compgen -f -- \"$current\"".to_owned(),
                false => format!("compgen -W \"{}\" -- \"$current\"", values.join(" ")),
            };
            let _ = writeln!(
                text,
                "    \"{at} {name}\") mapfile -t COMPREPLY < <({reply}); return ;;"
            );
        }
    }
    text += "  esac\n  case \"$at\" in\n";
    for node in nodes {
        let names = node.shown().map(|command| command.get_name().to_owned());
        let words: Vec<String> = names.chain(node.options().map(long)).collect();
        let _ = writeln!(
            text,
            "    \"{}\") offered=\"{}\" ;;",
            place(node),
            words.join(" ")
        );
    }
    text += "  esac\n  mapfile -t COMPREPLY < <(compgen -W \"$offered\" -- \"$current\")\n}\n\
             complete -o default -F _quorate quorate\n";
    text
}

fn zsh(nodes: &[Node<'_>]) -> String {
    let quoted = |name: &str, meaning: &str| {
        let escaped = |text: &str| text.replace('\'', "'\\''");
        format!("'{}:{}'", escaped(name), escaped(meaning))
    };
    let mut text = format!(
        "#compdef quorate\n# Completions of quorate for zsh; made by: quorate completions zsh\n\
         _quorate() {{\n  local at= word\n  local -a offered\n  \
         for word in \"${{words[@]:1:$((CURRENT-2))}}\"; do\n    \
         case \"$at $word\" in {}) at=\"$at $word\" ;; esac\n  done\n  \
         case \"$at ${{words[CURRENT-1]}}\" in\n",
        follow(nodes)
    );
    for node in nodes {
        for option in node.options().filter(|option| takes_value(option)) {
            let (at, name, values) = (place(node), long(option), values(option));
            let act = match values.is_empty() {
                true => "_files".to_owned(),
                false => format!("compadd -- {}", values.join(" ")),
            };
            let _ = writeln!(text, "    \"{at} {name}\") {act}; return ;;");
        }
    }
    text += "  esac\n  case \"$at\" in\n";
    for node in nodes {
        let commands = node.shown().map(|command| {
            let about = command.get_about().map_or(String::new(), line);
            quoted(command.get_name(), &about)
        });
        let options = node.options();
        let options = options.map(|option| quoted(&long(option), &meaning(option)));
        let words: Vec<String> = commands.chain(options).collect();
        let _ = writeln!(
            text,
            "    \"{}\") offered=({}) ;;",
            place(node),
            words.join(" ")
        );
    }
    text += "  esac\n  _describe -o quorate offered || _files\n}\n_quorate \"$@\"\n";
    text
}

fn fish(nodes: &[Node<'_>]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let below = nodes.iter().filter(|node| !node.path.is_empty());
    let places: Vec<String> = below.map(|node| quoted(&place(node))).collect();
    let mut text = format!(
        "# Completions of quorate for fish; made by: quorate completions fish\n\
         function __quorate_at\n    set -l at ''\n    set -l words (commandline -opc)\n    \
         for word in $words[2..]\n        switch \"$at $word\"\n            case {}\n                \
         set at \"$at $word\"\n        end\n    end\n    test \"$at\" = \"$argv[1]\"\nend\n",
        places.join(" ")
    );
    for node in nodes {
        let condition = format!("-n \"__quorate_at '{}'\"", place(node));
        for command in node.shown() {
            let about = command.get_about().map_or(String::new(), line);
            let _ = writeln!(
                text,
                "complete -c quorate {condition} -f -a {} -d {}",
                command.get_name(),
                quoted(&about)
            );
        }
        for option in node.options() {
            let values = values(option);
            let value = match (takes_value(option), values.is_empty(), is_path(option)) {
                (false, ..) => String::new(),
                (true, false, _) => format!(" -x -a {}", quoted(&values.join(" "))),
                (true, true, true) => " -r -F".to_owned(),
                (true, true, false) => " -x".to_owned(),
            };
            let _ = writeln!(
                text,
                "complete -c quorate {condition} -l {}{value} -d {}",
                option.get_long().unwrap_or_default(),
                quoted(&meaning(option))
            );
        }
    }
    text
}
