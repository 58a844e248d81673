//! `CLIENT`: the connections of this replica.

use super::connection::checked_name;
use super::{is_word, number, subcommand};
use crate::clients::{Client, Unblocked};
use crate::session::{Closing, ReplyMode, Session, Step};
use bytes::Bytes;
use std::sync::Arc;

const HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME | SETNAME <name> | SETINFO <option> <value>",
    "ID | INFO | LIST [TYPE normal|pubsub] [ID <id> ...]",
    "KILL <ip:port> | KILL <option> <value> ...",
    "UNBLOCK <id> [TIMEOUT|ERROR]",
    "REPLY ON|OFF|SKIP | NO-EVICT ON|OFF | NO-TOUCH ON|OFF",
    "HELP",
];

impl Session {
    pub(super) fn client_command(&mut self, args: &[Bytes]) -> Step {
        match (&subcommand(args)[..], &args[2..]) {
            ("id", []) => self.out.integer(self.client.id as i64),
            ("getname", []) if self.spoken.name.is_empty() => self.out.null(),
            ("getname", []) => self.out.bulk(&self.spoken.name),
            ("setname", [name]) => match checked_name(name) {
                Ok(name) => {
                    self.spoken.name = name;
                    self.out.ok();
                }
                Err(why) => self.error(&why),
            },
            ("setinfo", [option, value]) => self.set_info(option, value),
            ("info", []) => {
                self.show();
                let line = self.client.line() + "\n";
                self.out.verbatim(&line);
            }
            ("list", rest) => self.list_clients(rest),
            ("kill", rest) if !rest.is_empty() => return self.kill(rest),
            ("reply", [mode]) => self.set_replies(mode),
            ("no-evict" | "no-touch", [mode]) if is_word(mode, "on") || is_word(mode, "off") => {
                self.out.ok();
            }
            ("getredir", []) => self.out.integer(-1),
            ("unpause", []) => self.out.ok(),
            ("unblock", [id, how @ ..]) if how.len() <= 1 => self.unblock(id, how.first()),
            ("pause" | "tracking" | "caching" | "trackinginfo", _) => {
                let name = subcommand(args);
                self.error(&format!(
                    "ERR CLIENT {} is not supported by Quorate",
                    name.to_ascii_uppercase()
                ));
            }
            ("help", []) => self.help(HELP),
            (
                "id" | "getname" | "setname" | "setinfo" | "info" | "kill" | "reply" | "no-evict"
                | "no-touch" | "getredir" | "unpause" | "unblock",
                _,
            ) => self.wrong_arguments(args),
            _ => self.unknown_subcommand(args),
        }
        Ok(())
    }

    fn set_info(&mut self, option: &[u8], value: &[u8]) {
        let value = match checked_name(value) {
            Ok(value) => value,
            Err(_) => return self.error(
                "ERR lib-name and lib-ver cannot contain spaces, newlines or special characters.",
            ),
        };
        let place = match option {
            option if is_word(option, "lib-name") => &mut self.spoken.library,
            option if is_word(option, "lib-ver") => &mut self.spoken.version,
            option => {
                let option = String::from_utf8_lossy(&option[..option.len().min(128)]);
                return self.error(&format!("ERR Unrecognized option '{option}'"));
            }
        };
        *place = value;
        self.out.ok();
    }

    fn set_replies(&mut self, mode: &[u8]) {
        match mode {
            mode if is_word(mode, "on") => {
                self.replies = ReplyMode::On;
                self.out.ok();
            }
            mode if is_word(mode, "off") => self.replies = ReplyMode::Off,
            mode if is_word(mode, "skip") => {
                if self.replies == ReplyMode::On {
                    self.replies = ReplyMode::SkipNext;
                }
            }
            _ => self.error("ERR syntax error"),
        }
    }

    /// Ends the waiting of another connection.
    fn unblock(&mut self, id: &[u8], how: Option<&Bytes>) {
        let how = match how {
            None => Unblocked::TimedOut,
            Some(word) if is_word(word, "timeout") => Unblocked::TimedOut,
            Some(word) if is_word(word, "error") => Unblocked::Error,
            Some(_) => {
                return self.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
            }
        };
        match number(id) {
            Ok(id) => {
                let all = self.server.clients.all();
                let found = all.iter().find(|client| client.id as i64 == id);
                let was_blocked = found.is_some_and(|client| client.unblock(how));
                self.out.integer(i64::from(was_blocked));
            }
            Err(why) => self.error(why),
        }
    }

    fn list_clients(&mut self, rest: &[Bytes]) {
        self.show();
        let all = self.server.clients.all();
        let chosen: Result<Vec<Arc<Client>>, &str> = match rest {
            [] => Ok(all),
            [word, kind] if is_word(word, "type") => match kind {
                kind if is_word(kind, "normal") => Ok(of_kind(all, false)),
                kind if is_word(kind, "pubsub") => Ok(of_kind(all, true)),
                kind if is_word(kind, "master") || is_word(kind, "replica") => Ok(Vec::new()),
                _ => Err("ERR Unknown client type"),
            },
            [word, ids @ ..] if is_word(word, "id") && !ids.is_empty() => {
                let ids: Result<Vec<i64>, _> = ids.iter().map(|id| number(id)).collect();
                let ids = ids.map_err(|_| "ERR Invalid client ID");
                ids.map(|ids| {
                    all.into_iter()
                        .filter(|one| ids.contains(&(one.id as i64)))
                        .collect()
                })
            }
            _ => Err("ERR syntax error"),
        };
        match chosen {
            Ok(clients) => {
                let lines: String = clients.iter().map(|client| client.line() + "\n").collect();
                self.out.verbatim(&lines);
            }
            Err(why) => self.error(why),
        }
    }

    /// Closes connections: one by its address, or all that some options describe.
    fn kill(&mut self, rest: &[Bytes]) -> Step {
        let (is_old, filter) = match rest {
            [address] => (true, Ok(Filter::address(address))),
            rest => (false, Filter::read(rest)),
        };
        let filter = match filter {
            Ok(filter) => filter,
            Err(why) => {
                self.error(why);
                return Ok(());
            }
        };
        let all = self.server.clients.all();
        let chosen: Vec<_> = all
            .iter()
            .filter(|client| filter.takes(client, self.client.id))
            .collect();
        for client in chosen.iter().filter(|client| client.id != self.client.id) {
            client.close();
        }
        match (is_old, chosen.len()) {
            (true, 0) => self.error("ERR No such client"),
            (true, _) => self.out.ok(),
            (false, count) => self.out.integer(count as i64),
        }
        match chosen.iter().any(|client| client.id == self.client.id) {
            true => Err(Closing::AfterReplies),
            false => Ok(()),
        }
    }
}

fn of_kind(all: Vec<Arc<Client>>, is_subscriber: bool) -> Vec<Arc<Client>> {
    all.into_iter()
        .filter(|client| client.is_subscriber() == is_subscriber)
        .collect()
}

/// The connections that `CLIENT KILL` closes: those that all options describe.
#[derive(Debug, Default)]
struct Filter {
    id: Option<i64>,
    from: Option<String>,
    to: Option<String>,
    user: Option<Bytes>,
    is_subscriber: Option<bool>,
    takes_self: bool,
}

impl Filter {
    fn address(from: &[u8]) -> Filter {
        Filter {
            from: Some(String::from_utf8_lossy(from).into_owned()),
            takes_self: true,
            ..Filter::default()
        }
    }

    fn read(options: &[Bytes]) -> Result<Filter, &'static str> {
        let mut filter = Filter::default();
        for pair in options.chunks(2) {
            let [option, value] = pair else {
                return Err("ERR syntax error");
            };
            let text = || Some(String::from_utf8_lossy(value).into_owned());
            match &String::from_utf8_lossy(option).to_ascii_lowercase()[..] {
                "id" => {
                    filter.id =
                        Some(number(value).map_err(|_| "ERR client-id should be greater than 0")?)
                }
                "addr" => filter.from = text(),
                "laddr" => filter.to = text(),
                "user" => filter.user = Some(value.clone()),
                "skipme" if is_word(value, "yes") => filter.takes_self = false,
                "skipme" if is_word(value, "no") => filter.takes_self = true,
                "type" if is_word(value, "normal") => filter.is_subscriber = Some(false),
                "type" if is_word(value, "pubsub") => filter.is_subscriber = Some(true),
                "type" => return Err("ERR Unknown client type"),
                _ => return Err("ERR syntax error"),
            }
        }
        Ok(filter)
    }

    fn takes(&self, client: &Client, own_id: u64) -> bool {
        let to = client.to.map(|to| to.to_string());
        self.id.is_none_or(|id| id == client.id as i64)
            && self
                .from
                .as_ref()
                .is_none_or(|from| *from == client.from.to_string())
            && self
                .to
                .as_ref()
                .is_none_or(|wanted| Some(wanted) == to.as_ref())
            && self.user.as_ref().is_none_or(|user| *user == client.user())
            && self
                .is_subscriber
                .is_none_or(|wanted| wanted == client.is_subscriber())
            && (self.takes_self || client.id != own_id)
    }
}
