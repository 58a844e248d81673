//! `ACL`: who may do what. Users are part of the cluster's state, and change through the log.

use super::subcommand;
use crate::access::{User, check_rule, denies, prepared};
use crate::session::{Session, Step};
use crate::table::{self, Found};
use bytes::Bytes;
use quorate_core::Wire;
use quorate_redis_store::{Change, UserRules, UserTable, UsersChange};
use quorate_server::REDIS_USERS_LEVEL;
use std::collections::BTreeSet;
use std::sync::Arc;

const HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "WHOAMI | USERS | LIST | GETUSER <name> | CAT [<category>] | DRYRUN <name> <command> [<arg> ...]",
    "SETUSER <name> [<rule> ...] | DELUSER <name> [...] | LOAD | SAVE",
    "Users are those of the cluster. LOAD takes those of this replica's --redis-acl-file, SAVE has nothing to do.",
];

/// Why users are not loaded or saved.
const NO_FILE: &str = "ERR this replica has no file of users (--redis-acl-file): \
    ACL SETUSER changes the users of the cluster";

impl Session {
    pub(super) async fn acl(&mut self, args: &[Bytes]) -> Step {
        let subcommand = subcommand(args);
        match (&subcommand[..], &args[2..]) {
            ("setuser", [name, rules @ ..]) => return self.set_user(name, rules).await,
            ("deluser", names @ [_, ..]) => {
                let names = names.iter().map(|name| Bytes::copy_from_slice(name));
                return self.change_users(Change::Delete(names.collect())).await;
            }
            ("load", []) => return self.load_users().await,
            ("list" | "users" | "getuser" | "dryrun", _) => {
                // What was answered elsewhere is to be seen here.
                if let Err(failure) = self.server.versions(Vec::new()).await {
                    return self.failed(failure, 1);
                }
            }
            _ => {}
        }
        let (users, _) = self.server.known_users();
        match (&subcommand[..], &args[2..]) {
            ("whoami", []) => self.out.bulk(&self.spoken.user),
            ("users", []) => {
                self.out.array(users.len());
                users.iter().for_each(|user| self.out.bulk(&user.name));
            }
            ("list", []) => {
                self.out.array(users.len());
                let lines = users.iter().map(|user| user.describe());
                lines.for_each(|line| self.out.bulk(line.as_bytes()));
            }
            ("getuser", [name]) => match users.get(name) {
                Some(user) => self.show_user(user),
                None => self.out.null(),
            },
            ("dryrun", [name, call @ ..]) if !call.is_empty() => self.try_call(&users, name, call),
            ("cat", []) => {
                let all: BTreeSet<&str> = table::all().flat_map(Found::categories).collect();
                self.out.array(all.len());
                all.iter()
                    .for_each(|category| self.out.bulk(category.as_bytes()));
            }
            ("cat", [category]) => self.show_category(category),
            ("save", []) if self.server.users.has_file() => self.out.ok(),
            ("save", []) => self.error(NO_FILE),
            ("genpass" | "log", _) => {
                self.error("ERR ACL GENPASS and ACL LOG are not supported by the embedded store");
            }
            ("help", []) => self.help(HELP),
            (
                "whoami" | "users" | "list" | "getuser" | "cat" | "dryrun" | "setuser" | "deluser"
                | "load" | "save",
                _,
            ) => {
                self.wrong_arguments(args);
            }
            _ => self.unknown_subcommand(args),
        }
        Ok(())
    }

    async fn set_user(&mut self, name: &Bytes, rules: &[Bytes]) -> Step {
        if let Some((rule, _)) = rules
            .iter()
            .find_map(|rule| check_rule(rule).err().map(|why| (rule, why)))
        {
            let rule = String::from_utf8_lossy(rule);
            self.error(&format!(
                "ERR Error in ACL SETUSER modifier '{rule}': Unknown command or category name in ACL"
            ));
            return Ok(());
        }
        let change = Change::Set(UserRules {
            name: name.clone(),
            rules: rules.iter().map(|rule| prepared(rule)).collect(),
        });
        self.change_users(change).await
    }

    async fn load_users(&mut self) -> Step {
        if !self.server.users.has_file() {
            self.error(NO_FILE);
            return Ok(());
        }
        let users = self.server.users.clone();
        let read = tokio::task::spawn_blocking(move || users.again()).await;
        let why = match read {
            Ok(Ok(users)) => return self.change_users(Change::Replace(users.rules())).await,
            Ok(Err(why)) => why.to_string(),
            Err(why) => why.to_string(),
        };
        self.error(&format!("ERR {why}: no user was changed"));
        Ok(())
    }

    /// Orders a change of users, once all replicas know such changes.
    async fn change_users(&mut self, change: Change) -> Step {
        if self.server.fed.is_some() {
            self.error("ERR in command mode users are those of --redis-acl-file, at each replica");
            return Ok(());
        }
        let status = match self.server.handle.status().await {
            Ok(status) => status,
            Err(failure) => return self.failed(failure, 1),
        };
        if let Some(why) = status.lacks_level("changes of users", REDIS_USERS_LEVEL) {
            self.error(&format!("ERR {why}"));
            return Ok(());
        }
        let asker = self.asker();
        let change = UsersChange { asker, change };
        match self.server.order_body(change.to_bytes()).await {
            Ok(reply) => {
                self.out.raw(&reply);
                Ok(())
            }
            Err(failure) => self.failed(failure, 1),
        }
    }

    /// Tells whether a user may ask for a call.
    fn try_call(&mut self, users: &UserTable, name: &[u8], call: &[Bytes]) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let Some(user) = users.get(name) else {
            return self.error(&format!("ERR User '{}' not found", text(name)));
        };
        let Some(found) = table::find(&call[0]) else {
            return self.error(&format!("ERR Command '{}' not found", text(&call[0])));
        };
        if !found.takes(call.len()) {
            return self.error(&table::wrong_arguments(found.name()));
        }
        match denies(user, found, call) {
            None => self.out.ok(),
            Some(denied) => {
                let why = denied.to_string();
                let why = why.trim_start_matches("NOPERM this user");
                self.out
                    .bulk(format!("User {}{why}", text(name)).as_bytes());
            }
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
