//! `COMMAND`: what commands there are.

use super::{is_word, subcommand};
use crate::session::Session;
use crate::table::{self, Found, wrong_arguments};
use bytes::Bytes;
use quorate_redis_store::matches;

const HELP: &[&str] = &[
    "COMMAND | COMMAND INFO [<name> ...] | COMMAND DOCS [<name> ...]",
    "COMMAND COUNT | COMMAND LIST [FILTERBY ACLCAT <category>|PATTERN <pattern>]",
    "COMMAND GETKEYS <full-command>",
];

impl Session {
    pub(super) fn command(&mut self, args: &[Bytes]) {
        if args.len() == 1 {
            let all: Vec<_> = table::all().map(Some).collect();
            return self.describe_all(&all);
        }
        match (&subcommand(args)[..], &args[2..]) {
            ("count", []) => self.out.integer(table::all().count() as i64),
            ("info", []) => {
                let all: Vec<_> = table::all().map(Some).collect();
                self.describe_all(&all);
            }
            ("info", names) => {
                let found: Vec<_> = names.iter().map(|name| table::find(name)).collect();
                self.describe_all(&found);
            }
            ("docs", []) => self.document(&table::all().collect::<Vec<_>>()),
            ("docs", names) => {
                let found: Vec<_> = names.iter().filter_map(|name| table::find(name)).collect();
                self.document(&found);
            }
            ("list", rest) => self.list_commands(rest),
            ("getkeys", [_, ..]) => self.get_keys(&args[2..]),
            ("help", []) => self.help(HELP),
            ("count" | "getkeys", _) => self.wrong_arguments(args),
            _ => self.unknown_subcommand(args),
        }
    }

    fn describe_all(&mut self, commands: &[Option<Found>]) {
        self.out.array(commands.len());
        for command in commands {
            match command {
                Some(command) => self.describe(*command),
                None => self.out.null_array(),
            }
        }
    }

    fn describe(&mut self, command: Found) {
        let out = &mut self.out;
        out.array(10);
        out.bulk(command.name().as_bytes());
        out.integer(i64::from(command.arity()));
        let flags = command.flags();
        out.set(flags.len());
        for flag in flags {
            out.simple(flag);
        }
        for number in command.key_range() {
            out.integer(i64::from(number));
        }
        let categories = command.categories();
        out.set(categories.len());
        for category in categories {
            out.simple(&format!("@{category}"));
        }
        // Tips, specifications of keys, and subcommands: none are told.
        for _ in 0..3 {
            out.array(0);
        }
    }

    fn document(&mut self, commands: &[Found]) {
        let out = &mut self.out;
        out.map(commands.len());
        for command in commands {
            out.bulk(command.name().as_bytes());
            let texts = [
                ("summary", command.summary()),
                ("since", command.since()),
                ("group", command.group()),
            ];
            out.map(texts.len());
            for (name, text) in texts {
                out.bulk(name.as_bytes());
                out.bulk(text.as_bytes());
            }
        }
    }

    fn list_commands(&mut self, rest: &[Bytes]) {
        let wanted = |found: &Found| match rest {
            [_, kind, name] if is_word(kind, "aclcat") => {
                let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                found.categories().contains(&name[..])
            }
            [_, _, pattern] => matches(&pattern.to_ascii_lowercase(), found.name().as_bytes()),
            _ => true,
        };
        let is_filter = |rest: &[Bytes]| {
            let [word, kind, _] = rest else {
                return false;
            };
            is_word(word, "filterby") && (is_word(kind, "aclcat") || is_word(kind, "pattern"))
        };
        if !rest.is_empty() && !is_filter(rest) {
            return self.error("ERR syntax error");
        }
        let names: Vec<&str> = table::all().filter(wanted).map(Found::name).collect();
        self.out.array(names.len());
        for name in names {
            self.out.bulk(name.as_bytes());
        }
    }

    fn get_keys(&mut self, call: &[Bytes]) {
        let Some(command) = table::find(&call[0]) else {
            return self.error("ERR Invalid command specified");
        };
        if !command.takes(call.len()) {
            return self.error("ERR Invalid number of arguments specified for command");
        }
        let keys = command.keys(call);
        if keys.is_empty() {
            return self.error("ERR The command has no key arguments");
        }
        self.out.array(keys.len());
        for key in keys.iter().filter_map(|at| call.get(*at)) {
            self.out.bulk(key);
        }
    }

    /// `LATENCY`: nothing is measured under these names.
    pub(super) fn latency(&mut self, args: &[Bytes]) {
        match (&subcommand(args)[..], &args[2..]) {
            ("latest", []) | ("history", [_]) => self.out.array(0),
            ("reset", _) => self.out.integer(0),
            ("doctor", []) => self
                .out
                .verbatim("Quorate's latencies are at /metrics of its admin address.\n"),
            ("history", _) => self.error(&wrong_arguments("latency|history")),
            _ => self.unknown_subcommand(args),
        }
    }

    /// `SLOWLOG`: no slow commands are noted.
    pub(super) fn slowlog(&mut self, args: &[Bytes]) {
        match (&subcommand(args)[..], &args[2..]) {
            ("get", [] | [_]) => self.out.array(0),
            ("len", []) => self.out.integer(0),
            ("reset", []) => self.out.ok(),
            ("get" | "len" | "reset", _) => self.wrong_arguments(args),
            _ => self.unknown_subcommand(args),
        }
    }
}
