//! Who the client is, which version of the protocol it speaks, which database it uses.

use super::{is_word, number};
use crate::access::DEFAULT;
use crate::limits::{DATABASES, NAME_BYTES_MAX};
use crate::server::since_epoch;
use crate::session::{ReplyMode, Session, Step};
use bytes::Bytes;
use quorate_resp::{Resp, parse_integer};

/// The version of Redis whose commands and texts these are.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// Why nobody is logged in.
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

impl Session {
    pub(super) fn ping(&mut self, args: &[Bytes]) {
        match args {
            [_, _, _, ..] => self.error("ERR wrong number of arguments for 'ping' command"),
            args if self.is_only_subscriber() => {
                self.out.array(2);
                self.out.bulk(b"pong");
                self.out.bulk(args.get(1).map_or(b"", |text| text));
            }
            [_, text] => self.out.bulk(text),
            _ => self.out.simple("PONG"),
        }
    }

    pub(super) fn time(&mut self) {
        let now = since_epoch();
        self.out.array(2);
        self.out.bulk(now.as_secs().to_string().as_bytes());
        self.out.bulk(now.subsec_micros().to_string().as_bytes());
    }

    pub(super) fn select(&mut self, db: &[u8]) {
        match number(db).map(|db| u32::try_from(db).ok().filter(|db| *db < DATABASES)) {
            Ok(Some(db)) => {
                self.spoken.db = db;
                self.out.ok();
            }
            Ok(None) => self.error("ERR DB index is out of range"),
            Err(why) => self.error(why),
        }
    }

    pub(super) async fn auth(&mut self, args: &[Bytes]) -> Step {
        let (name, password) = match args {
            [_, _] if !self.has_password() => {
                self.error(
                    "ERR AUTH <password> called without any password configured for the default user. Are you \
                     sure your configuration is correct?",
                );
                return Ok(());
            }
            [_, password] => (DEFAULT, password),
            [_, name, password] => (&name[..], password),
            _ => {
                self.error("ERR syntax error");
                return Ok(());
            }
        };
        match self.log_in_by(name, password).await {
            Ok(true) => self.out.ok(),
            Ok(false) => self.error(WRONG_PASSWORD),
            Err(failure) => return self.failed(failure, 1),
        }
        Ok(())
    }

    pub(super) async fn hello(&mut self, args: &[Bytes]) -> Step {
        let asked = match Hello::read(args) {
            Ok(asked) => asked,
            Err(why) => {
                self.error(&why);
                return Ok(());
            }
        };
        if let Some((name, password)) = asked.user {
            match self.log_in_by(name, password).await {
                Ok(true) => {}
                Ok(false) => {
                    self.error(WRONG_PASSWORD);
                    return Ok(());
                }
                Err(failure) => return self.failed(failure, 1),
            }
        }
        match self.user.is_some() {
            true => self.say_hello(&asked),
            false => self.error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
                 AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
                 version at the same time",
            ),
        }
        Ok(())
    }

    fn say_hello(&mut self, asked: &Hello<'_>) {
        if let Some(name) = asked.name.clone() {
            self.spoken.name = name;
        }
        self.set_resp(asked.resp.unwrap_or(self.spoken.resp));
        self.out.map(7);
        let texts = [("server", "redis"), ("version", REDIS_VERSION)];
        for (name, value) in texts {
            self.out.bulk(name.as_bytes());
            self.out.bulk(value.as_bytes());
        }
        self.out.bulk(b"proto");
        self.out.integer(i64::from(self.spoken.resp.number()));
        self.out.bulk(b"id");
        self.out.integer(self.client.id as i64);
        for (name, value) in [("mode", "standalone"), ("role", "master")] {
            self.out.bulk(name.as_bytes());
            self.out.bulk(value.as_bytes());
        }
        self.out.bulk(b"modules");
        self.out.array(0);
    }

    pub(super) fn set_stale(&mut self, may_be_stale: bool) {
        self.may_be_stale = may_be_stale;
        self.out.ok();
    }

    pub(super) fn reset(&mut self) {
        self.transaction = None;
        self.watched.clear();
        self.subscriber.clear();
        self.replies = ReplyMode::On;
        self.may_be_stale = false;
        self.spoken.db = 0;
        self.spoken.name = Bytes::new();
        self.set_resp(Resp::Two);
        self.begin_anew();
        self.out.simple("RESET");
    }
}

/// What `HELLO` asks for.
#[derive(Debug, Default)]
struct Hello<'a> {
    resp: Option<Resp>,
    user: Option<(&'a [u8], &'a [u8])>,
    name: Option<Bytes>,
}

impl<'a> Hello<'a> {
    fn read(args: &'a [Bytes]) -> Result<Hello<'a>, String> {
        let mut asked = Hello::default();
        let Some(version) = args.get(1) else {
            return Ok(asked);
        };
        let version = parse_integer(version)
            .ok_or("ERR Protocol version is not an integer or out of range")?;
        asked.resp = Some(Resp::of(version).ok_or("NOPROTO unsupported protocol version")?);
        let mut rest = &args[2..];
        loop {
            rest = match rest {
                [] => return Ok(asked),
                [word, name, password, rest @ ..] if is_word(word, "auth") => {
                    asked.user = Some((name, password));
                    rest
                }
                [word, name, rest @ ..] if is_word(word, "setname") => {
                    asked.name = Some(checked_name(name)?);
                    rest
                }
                [word, ..] => {
                    let word = String::from_utf8_lossy(&word[..word.len().min(128)]);
                    return Err(format!("ERR Syntax error in HELLO option '{word}'"));
                }
            }
        }
    }
}

/// A name for a connection: Redis takes what `CLIENT LIST` can show.
pub(super) fn checked_name(name: &[u8]) -> Result<Bytes, String> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("ERR a name has at most {NAME_BYTES_MAX} bytes"));
    }
    match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(Bytes::copy_from_slice(name)),
        false => {
            let why = "ERR Client names cannot contain spaces, newlines or special characters.";
            Err(why.to_owned())
        }
    }
}
