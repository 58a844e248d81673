//! Pages of the manual, for `man`.

use super::{Node, line, meaning, values};
use clap::Arg;
use std::fmt::Write;

/// The page of a command.
pub(super) fn page(node: &Node<'_>) -> String {
    let (name, called) = (node.name(), node.called());
    let about = node.command.get_about().map_or(String::new(), line);
    let mut text = format!(
        ".TH \"{}\" \"1\" \"\" \"quorate {}\" \"Quorate\"\n.SH NAME\n{} \\- {}\n",
        escaped(&name.to_uppercase()),
        env!("CARGO_PKG_VERSION"),
        escaped(&name),
        escaped(&about)
    );
    let _ = write!(text, ".SH SYNOPSIS\n\\fB{}\\fR", escaped(&called));
    if node.options().next().is_some() {
        text += " [\\fIOPTIONS\\fR]";
    }
    if node.shown().next().is_some() {
        text += " \\fICOMMAND\\fR";
    }
    for argument in node.command.get_positionals() {
        let _ = write!(text, " \\fI{}\\fR", escaped(&value_name(argument)));
    }
    text += "\n";
    if let Some(long) = node.command.get_long_about() {
        text += ".SH DESCRIPTION\n";
        text += &paragraphs(&long.to_string());
    }
    if node.shown().next().is_some() {
        text += ".SH COMMANDS\n";
        for command in node.shown() {
            let about = command.get_about().map_or(String::new(), line);
            let _ = writeln!(
                text,
                ".TP\n\\fB{} {}\\fR\n{}\nSee \\fB{}\\-{}\\fR(1).",
                escaped(&called),
                escaped(command.get_name()),
                ended(&about),
                escaped(&name),
                escaped(command.get_name())
            );
        }
    }
    for (title, options) in groups(node) {
        let _ = writeln!(text, ".SH {}", escaped(&title.to_uppercase()));
        for option in options {
            text += &entry(option);
        }
    }
    let help = node.command.get_after_long_help();
    if let Some(help) = help.or_else(|| node.command.get_after_help()) {
        text += ".SH NOTES\n.nf\n";
        text += &escaped(help.to_string().trim_end());
        text += "\n.fi\n";
    }
    text += ".SH SEE ALSO\n";
    text += match node.path.is_empty() {
        true => "The guides that come with the program, in docs/ of its sources.\n",
        false => "\\fBquorate\\fR(1)\n",
    };
    text
}

/// The options under their headings, arguments without dashes first.
fn groups<'a>(node: &'a Node<'_>) -> Vec<(String, Vec<&'a Arg>)> {
    let mut groups: Vec<(String, Vec<&Arg>)> = Vec::new();
    let arguments = node.command.get_positionals();
    for option in arguments.chain(node.options()) {
        let usual = match option.get_long() {
            Some(_) => "Options",
            None => "Arguments",
        };
        let title = option.get_help_heading().unwrap_or(usual);
        match groups.iter_mut().find(|(known, _)| known == title) {
            Some((_, options)) => options.push(option),
            None => groups.push((title.to_owned(), vec![option])),
        }
    }
    groups
}

fn entry(option: &Arg) -> String {
    let mut text = ".TP\n".to_owned();
    let value = value_name(option);
    let head = match (option.get_short(), option.get_long()) {
        (_, None) => format!("\\fI{}\\fR", escaped(&value)),
        (None, Some(long)) => format!("\\fB\\-\\-{}\\fR", escaped(long)),
        (Some(short), Some(long)) => format!("\\fB\\-{short}\\fR, \\fB\\-\\-{}\\fR", escaped(long)),
    };
    text += &head;
    if option.get_long().is_some() && option.get_action().takes_values() {
        let _ = write!(text, " \\fI{}\\fR", escaped(&value));
    }
    text += "\n";
    text += &ended(&meaning(option));
    text += "\n";
    let values = values(option);
    if !values.is_empty() && option.get_action().takes_values() {
        let _ = writeln!(text, "Values: {}.", escaped(&values.join(", ")));
    }
    let defaults: Vec<_> = (option.get_default_values().iter())
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    if !defaults.is_empty() && option.get_action().takes_values() {
        let _ = writeln!(text, "Default: {}.", escaped(&defaults.join(",")));
    }
    if let Some(variable) = option.get_env() {
        let _ = writeln!(text, "Variable: {}.", escaped(&variable.to_string_lossy()));
    }
    text
}

fn value_name(option: &Arg) -> String {
    let names = option.get_value_names().unwrap_or_default();
    match names.first() {
        Some(name) => name.to_string(),
        None => option.get_id().as_str().to_uppercase(),
    }
}

fn paragraphs(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(line);
    let paragraphs: Vec<String> = paragraphs.map(|text| escaped(&text)).collect();
    paragraphs.join("\n.PP\n") + "\n"
}

/// A sentence, with a full stop.
fn ended(text: &str) -> String {
    let stop = match text.is_empty() || text.ends_with(['.', ':', ']']) {
        true => "",
        false => ".",
    };
    escaped(text) + stop
}

/// A text of which the typesetter takes nothing for an order.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let line = |line: &str| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}
