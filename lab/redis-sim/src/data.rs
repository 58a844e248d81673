//! What a server holds, and what its commands do to it.

use bytes::Bytes;
use quorate_core::{Decoder, Encoder, WireError};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// A value of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Value {
    Text(String),
    Set(BTreeSet<String>),
}

/// The keys of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Data {
    keys: BTreeMap<String, Value>,
    /// When keys end, in ms of the clock of whoever set them.
    ends: BTreeMap<String, u64>,
}

/// The reply to a command, and what a replica is told to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// The reply in bytes.
    pub reply: Vec<u8>,
    /// Commands for replicas; several are one transaction.
    pub effects: Vec<Vec<String>>,
}

impl Done {
    fn reply(text: &str) -> Done {
        Done {
            reply: text.as_bytes().to_vec(),
            effects: Vec::new(),
        }
    }

    fn number(number: i64) -> Done {
        Done::reply(&format!(":{number}\r\n"))
    }

    fn with(mut self, words: &[&str]) -> Done {
        self.effects
            .push(words.iter().map(|word| (*word).to_owned()).collect());
        self
    }
}

fn bulk(text: Option<&str>) -> Done {
    match text {
        Some(text) => Done::reply(&format!("${}\r\n{text}\r\n", text.len())),
        None => Done::reply("$-1\r\n"),
    }
}

fn unknown(name: &str, arguments: &[&str]) -> Done {
    let quoted: String = (arguments.iter())
        .map(|argument| format!("'{argument}' "))
        .collect();
    Done::reply(&format!(
        "-ERR unknown command '{name}', with args beginning with: {quoted}\r\n"
    ))
}

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

impl Data {
    /// A digest of everything.
    pub fn digest(&self) -> u64 {
        xxh3_64(format!("{self:?}").as_bytes())
    }

    /// Keys whose time is over are deleted, which is an effect each.
    pub fn expire(&mut self, now_ms: u64) -> Vec<Vec<String>> {
        let over: Vec<String> = self
            .ends
            .iter()
            .filter(|(_, end)| **end <= now_ms)
            .map(|(key, _)| key.clone())
            .collect();
        let mut effects = Vec::new();
        for key in over {
            self.delete(&key);
            effects.push(vec!["DEL".to_owned(), key]);
        }
        effects
    }

    fn delete(&mut self, key: &str) -> bool {
        self.ends.remove(key);
        self.keys.remove(key).is_some()
    }

    fn set_of(&mut self, key: &str) -> Option<&mut BTreeSet<String>> {
        let value = self.keys.entry(key.to_owned());
        match value.or_insert_with(|| Value::Set(BTreeSet::new())) {
            Value::Set(set) => Some(set),
            Value::Text(_) => None,
        }
    }

    /// Carries out a command as a master does; `chance` decides what Redis would leave to chance.
    pub fn execute(&mut self, words: &[&str], now_ms: u64, chance: u64) -> Done {
        let name = words[0].to_ascii_uppercase();
        match (name.as_str(), &words[1..]) {
            ("GET", [key]) => match self.keys.get(*key) {
                Some(Value::Text(text)) => bulk(Some(text)),
                Some(_) => Done::reply(WRONG),
                None => bulk(None),
            },
            ("SET", [key, value, rest @ ..]) => {
                self.delete(key);
                self.keys
                    .insert((*key).to_owned(), Value::Text((*value).to_owned()));
                let done = Done::reply("+OK\r\n");
                match rest {
                    [unit, amount] => {
                        let amount: u64 = amount.parse().unwrap_or(0);
                        let end = match unit.eq_ignore_ascii_case("PX") {
                            true => now_ms + amount,
                            false => amount,
                        };
                        self.ends.insert((*key).to_owned(), end);
                        done.with(&["SET", key, value, "PXAT", &end.to_string()])
                    }
                    _ => done.with(&["SET", key, value]),
                }
            }
            ("INCR", [key]) => self.increment(key),
            ("DEL", [key]) => match self.delete(key) {
                true => Done::number(1).with(&["DEL", key]),
                false => Done::number(0),
            },
            ("SADD", [key, member]) => match self.set_of(key) {
                None => Done::reply(WRONG),
                Some(set) => match set.insert((*member).to_owned()) {
                    true => Done::number(1).with(&["SADD", key, member]),
                    false => Done::number(0),
                },
            },
            ("SREM", [key, member]) => match self.set_of(key) {
                Some(set) => {
                    let was_there = set.remove(*member);
                    if set.is_empty() {
                        self.delete(key);
                    }
                    Done::number(i64::from(was_there))
                }
                None => Done::reply(WRONG),
            },
            ("SPOP", [key]) => self.pop(key, chance),
            // Time and chance within a script: only its effects can be repeated.
            ("EVAL", [_, _, key]) => {
                let time = format!("{now_ms}-{chance}");
                self.keys
                    .insert("script:time".to_owned(), Value::Text(time.clone()));
                let mut done = self.increment(key);
                done.effects
                    .insert(0, vec!["SET".to_owned(), "script:time".to_owned(), time]);
                done
            }
            ("PUBLISH", [channel, message]) => Done::number(0).with(&["PUBLISH", channel, message]),
            ("SELECT", _) => Done::reply("+OK\r\n"),
            ("PING", _) => Done::reply("+PONG\r\n"),
            (_, arguments) => unknown(words[0], arguments),
        }
    }

    fn increment(&mut self, key: &str) -> Done {
        let number = match self.keys.get(key) {
            None => 0,
            Some(Value::Text(text)) => match text.parse::<i64>() {
                Ok(number) => number,
                Err(_) => return Done::reply("-ERR value is not an integer or out of range\r\n"),
            },
            Some(Value::Set(_)) => return Done::reply(WRONG),
        } + 1;
        self.keys
            .insert(key.to_owned(), Value::Text(number.to_string()));
        Done::number(number).with(&["INCR", key])
    }

    fn pop(&mut self, key: &str, chance: u64) -> Done {
        let set = match self.keys.get_mut(key) {
            Some(Value::Set(set)) => set,
            Some(Value::Text(_)) => return Done::reply(WRONG),
            None => return bulk(None),
        };
        let at = (chance % set.len().max(1) as u64) as usize;
        let Some(member) = set.iter().nth(at).cloned() else {
            return bulk(None);
        };
        set.remove(&member);
        if set.is_empty() {
            self.delete(key);
        }
        bulk(Some(&member)).with(&["SREM", key, &member])
    }

    /// Everything in bytes.
    pub fn encode(&self, out: &mut Encoder) {
        out.varint(self.keys.len() as u64);
        for (key, value) in &self.keys {
            out.string(key);
            out.varint(self.ends.get(key).map_or(0, |end| end + 1));
            match value {
                Value::Text(text) => {
                    out.u8(0);
                    out.string(text);
                }
                Value::Set(set) => {
                    out.u8(1);
                    out.varint(set.len() as u64);
                    set.iter().for_each(|member| out.string(member));
                }
            }
        }
    }

    /// Reads what [`Data::encode`] wrote.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: Bytes) -> Result<Data, WireError> {
        let mut input = Decoder::new(bytes);
        let mut data = Data::default();
        for _ in 0..input.count(2)? {
            let key = input.string()?;
            if let Some(end) = input.varint()?.checked_sub(1) {
                data.ends.insert(key.clone(), end);
            }
            let value = match input.u8()? {
                0 => Value::Text(input.string()?),
                _ => {
                    let mut set = BTreeSet::new();
                    for _ in 0..input.count(1)? {
                        set.insert(input.string()?);
                    }
                    Value::Set(set)
                }
            };
            data.keys.insert(key, value);
        }
        input.finish()?;
        Ok(data)
    }
}
