//! Commands of the log: calls of one connection that are carried out one behind the other.

use crate::users::Asker;
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, Wire, WireError};
use quorate_resp::Resp;

/// A key that must not have changed for a transaction to be carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watched {
    /// The database of the key.
    pub db: u32,
    /// The key that is watched.
    pub key: Bytes,
    /// The version that the key had; 0 if there was no such key.
    pub version: u64,
}

/// One call of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The command's name, in any case, and its arguments.
    pub args: Vec<Bytes>,
}

/// Calls that one command of the log carries out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The version of the protocol that the client speaks.
    pub resp: Resp,
    /// The database in which the first call is carried out.
    pub db: u32,
    /// The keys that must not have changed; none unless it is atomic.
    pub watched: Vec<Watched>,
    /// Whether the calls are a transaction with one reply, an array; otherwise each has a reply of its own.
    pub atomic: bool,
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// In whose name they are asked; `None` for the default user, and where the group has no users.
    pub asker: Option<Asker>,
}

/// The version of this encoding.
const FORMAT: u8 = 1;

const ATOMIC: u8 = 1;
const RESP_3: u8 = 2;
/// The asker is behind the calls. Programs before feature level 5 do not know it.
const ASKED: u8 = 4;

/// Bytes of a watched key, at least: its database, a length, its version.
const WATCHED_BYTES_MIN: usize = 10;
/// Bytes of a call, at least: a count, and the length of its name.
const CALL_BYTES_MIN: usize = 2;

impl Wire for Request {
    fn encode(&self, out: &mut Encoder) {
        out.u8(FORMAT);
        let resp = if self.resp == Resp::Three { RESP_3 } else { 0 };
        let asked = if self.asker.is_some() { ASKED } else { 0 };
        out.u8(resp | asked | if self.atomic { ATOMIC } else { 0 });
        out.varint(u64::from(self.db));
        out.varint(self.watched.len() as u64);
        for watched in &self.watched {
            out.varint(u64::from(watched.db));
            out.bytes(&watched.key);
            out.u64(watched.version);
        }
        out.varint(self.calls.len() as u64);
        for call in &self.calls {
            out.varint(call.args.len() as u64);
            call.args.iter().for_each(|arg| out.bytes(arg));
        }
        self.asker.iter().for_each(|asker| asker.encode(out));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            FORMAT => {}
            tag => return Err(WireError::Tag("format of a request", tag)),
        }
        let flags = input.u8()?;
        if flags & !(ATOMIC | RESP_3 | ASKED) != 0 {
            return Err(WireError::Tag("flags of a request", flags));
        }
        let resp = if flags & RESP_3 != 0 {
            Resp::Three
        } else {
            Resp::Two
        };
        let db = database(input)?;
        let watched = (0..input.count(WATCHED_BYTES_MIN)?).map(|_| {
            Ok(Watched {
                db: database(input)?,
                key: input.bytes()?,
                version: input.u64()?,
            })
        });
        let watched = watched.collect::<Result<_, WireError>>()?;
        let calls = (0..input.count(CALL_BYTES_MIN)?).map(|_| {
            let args = (0..input.count(1)?).map(|_| input.bytes());
            let args = args.collect::<Result<Vec<_>, WireError>>()?;
            match args.is_empty() {
                true => Err(WireError::Range("arguments of a call")),
                false => Ok(Call { args }),
            }
        });
        let calls = calls.collect::<Result<_, WireError>>()?;
        let is_asked = flags & ASKED != 0;
        let asker = is_asked.then(|| Asker::decode(input)).transpose()?;
        Ok(Request {
            resp,
            db,
            watched,
            atomic: flags & ATOMIC != 0,
            calls,
            asker,
        })
    }
}

fn database(input: &mut Decoder) -> Result<u32, WireError> {
    let db = u32::try_from(input.varint()?).ok();
    let db = db.filter(|db| *db < crate::keyspace::DATABASES);
    db.ok_or(WireError::Range("database"))
}

#[cfg(test)]
mod fuzz;
