//! `ACL`: who may do what. Users come from a file, and change with it at a start.

use super::subcommand;
use crate::access::User;
use crate::session::Session;
use crate::table::{self, Found};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;

const HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "WHOAMI | USERS | LIST | GETUSER <name> | CAT [<category>]",
    "Users are those of the file --redis-acl-file, equal on all replicas.",
];

impl Session {
    pub(super) fn acl(&mut self, args: &[Bytes]) {
        match (&subcommand(args)[..], &args[2..]) {
            ("whoami", []) => self.out.bulk(&self.spoken.user),
            ("users", []) => {
                let names: Vec<Bytes> = self.server.users.all().map(|user| user.name.clone()).collect();
                self.out.array(names.len());
                names.iter().for_each(|name| self.out.bulk(name));
            }
            ("list", []) => {
                let lines: Vec<String> = self.server.users.all().map(|user| user.describe()).collect();
                self.out.array(lines.len());
                lines.iter().for_each(|line| self.out.bulk(line.as_bytes()));
            }
            ("getuser", [name]) => match self.server.users.get(name).cloned() {
                Some(user) => self.show_user(&user),
                None => self.out.null(),
            },
            ("cat", []) => {
                let all: BTreeSet<&str> = table::all().flat_map(Found::categories).collect();
                self.out.array(all.len());
                all.iter().for_each(|category| self.out.bulk(category.as_bytes()));
            }
            ("cat", [category]) => self.show_category(category),
            ("setuser" | "deluser" | "load" | "save" | "genpass" | "dryrun" | "log", _) => self.error(
                "ERR users are those of the file that all replicas are started with (--redis-acl-file): change it \
                 there, and start them again",
            ),
            ("help", []) => self.help(HELP),
            ("whoami" | "users" | "list" | "getuser" | "cat", _) => self.wrong_arguments(args),
            _ => self.unknown_subcommand(args),
        }
    }

    fn show_category(&mut self, category: &[u8]) {
        let category = String::from_utf8_lossy(category).to_ascii_lowercase();
        let of_it = |found: &Found| found.categories().contains(&category[..]);
        let names: Vec<&str> = table::all().filter(of_it).map(Found::name).collect();
        if names.is_empty() {
            return self.error(&format!("ERR Unknown category '{category}'"));
        }
        self.out.array(names.len());
        names.iter().for_each(|name| self.out.bulk(name.as_bytes()));
    }

    fn show_user(&mut self, user: &Arc<User>) {
        let line = user.describe();
        let rules: Vec<&str> = line.split(' ').skip(2).collect();
        let with = |sign: &str| {
            let rules = rules
                .iter()
                .filter(|rule| rule.starts_with(sign) || sign.is_empty());
            rules.copied().collect::<Vec<_>>()
        };
        let flags: Vec<&str> = rules
            .iter()
            .copied()
            .filter(|rule| matches!(*rule, "on" | "off" | "nopass"))
            .collect();
        let commands: Vec<&str> = rules
            .iter()
            .copied()
            .filter(|rule| rule.starts_with(['+', '-']))
            .collect();
        let passwords: Vec<&str> = with("#").iter().map(|rule| &rule[1..]).collect();
        self.out.map(5);
        for (name, list) in [("flags", flags), ("passwords", passwords)] {
            self.out.bulk(name.as_bytes());
            self.out.array(list.len());
            list.iter().for_each(|one| self.out.bulk(one.as_bytes()));
        }
        for (name, list) in [
            ("commands", commands),
            ("keys", with("~")),
            ("channels", with("&")),
        ] {
            self.out.bulk(name.as_bytes());
            self.out.bulk(list.join(" ").as_bytes());
        }
    }
}
