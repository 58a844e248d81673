//! Commands that the face answers by itself.

mod acl;
mod client;
mod command;
mod config;
mod connection;
mod info;
mod pop;
mod replica;
mod subscribe;
mod transaction;

pub(crate) use connection::REDIS_VERSION;

use crate::pubsub::Topic;
use crate::session::{Closing, Session, Step};
use crate::table::Kind;
use bytes::Bytes;
use quorate_resp::parse_integer;

impl Session {
    /// Answers a command of the face's own. All calls before it have been answered.
    pub(crate) async fn answer_own(&mut self, kind: Kind, args: &[Bytes]) -> Step {
        match kind {
            Kind::Acl => return self.acl(args).await,
            Kind::Auth => return self.auth(args).await,
            Kind::Hello => return self.hello(args).await,
            Kind::Watch => return self.watch(args).await,
            Kind::Exec => return self.exec().await,
            Kind::Info => return self.info(args).await,
            Kind::Wait => return self.wait().await,
            kind if kind.is_pop() => return self.pop(kind, args).await,
            Kind::Subscribe => return self.subscribe(Topic::Channel, args).await,
            Kind::Psubscribe => return self.subscribe(Topic::Pattern, args).await,
            Kind::Quit => {
                self.out.ok();
                return Err(Closing::AfterReplies);
            }
            Kind::Client => return self.client_command(args),
            Kind::Cluster => self.error("ERR This instance has cluster support disabled"),
            Kind::Command => self.command(args),
            Kind::Config => self.config(args),
            Kind::Discard => self.discard(),
            Kind::Echo => self.out.bulk(&args[1]),
            Kind::Latency => self.latency(args),
            Kind::Lolwut => {
                self.out
                    .verbatim(concat!("Quorate ver. ", env!("CARGO_PKG_VERSION"), "\n"))
            }
            Kind::Multi => self.multi(),
            Kind::Ping => self.ping(args),
            Kind::Pubsub => self.pubsub(args),
            Kind::Punsubscribe => self.unsubscribe(Topic::Pattern, args),
            Kind::Readonly => self.set_stale(true),
            Kind::Readwrite => self.set_stale(false),
            Kind::Reset => self.reset(),
            Kind::Role => self.role(),
            Kind::Select => self.select(&args[1]),
            Kind::Slowlog => self.slowlog(args),
            Kind::Time => self.time(),
            Kind::Unsubscribe => self.unsubscribe(Topic::Channel, args),
            Kind::Unwatch => {
                self.watched.clear();
                self.out.ok();
            }
            // Those that take elements, above.
            _ => {}
        }
        Ok(())
    }

    /// Tells that a command has no such subcommand, or that it has other arguments.
    fn unknown_subcommand(&mut self, args: &[Bytes]) {
        let name = String::from_utf8_lossy(&args[0]).to_ascii_uppercase();
        let subcommand = String::from_utf8_lossy(&args[1][..args[1].len().min(128)]).into_owned();
        self.error(&format!(
            "ERR unknown subcommand '{subcommand}'. Try {name} HELP."
        ));
    }

    /// Tells that a subcommand has another number of arguments.
    fn wrong_arguments(&mut self, args: &[Bytes]) {
        let text = |arg: &Bytes| String::from_utf8_lossy(arg).to_ascii_lowercase();
        let why = format!(
            "ERR wrong number of arguments for '{}|{}' command",
            text(&args[0]),
            text(&args[1])
        );
        self.error(&why);
    }

    /// The lines that `HELP` shows.
    fn help(&mut self, lines: &[&str]) {
        self.out.array(lines.len());
        for line in lines {
            self.out.simple(line);
        }
    }
}

/// The subcommand among these arguments, in small letters.
fn subcommand(args: &[Bytes]) -> String {
    String::from_utf8_lossy(&args[1]).to_ascii_lowercase()
}

/// Whether an argument is this word, in capitals or not.
fn is_word(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// An argument as a number.
fn number(arg: &[u8]) -> Result<i64, &'static str> {
    parse_integer(arg).ok_or("ERR value is not an integer or out of range")
}
