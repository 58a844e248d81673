//! What a server holds: how it is filled, and what of it is compared.

use std::hash::{DefaultHasher, Hash, Hasher};

use quorate_resp::{Reply, encode_request};

use super::server::{Connection, Server};

/// Requests that are sent at once.
const BATCH: u64 = 1000;
/// An end that nobody sees, in milliseconds since the Unix epoch; each key has one a little later than the one before.
const END_MS: u64 = 4_102_444_800_000;
/// A library of functions, of which there is one.
const FUNCTIONS: &str = "#!lua name=moved\nredis.register_function('seven',function()return(7)end)";

/// Everything that is compared of two servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contents {
    /// Keys of all types.
    pub(super) keys: u64,
    /// Keys with a time to live.
    pub(super) ending: u64,
    /// What `DEBUG DIGEST` says.
    values: String,
    /// A digest of names, types and ends.
    types_and_ends: u64,
    /// A digest of the functions.
    functions: u64,
}

/// Fills a server with keys of so many kinds, a third of which has an end; with functions if the kinds are all.
pub(super) fn fill(server: &Server, keys: u64, kinds: u64) -> Result<(), String> {
    let mut connection = server.connect()?;
    if kinds == KINDS {
        connection.ask(&["FUNCTION", "LOAD", FUNCTIONS])?;
    }
    let mut at = 0;
    while at < keys {
        let (mut text, mut count) = (Vec::new(), 0);
        for number in at..keys.min(at + BATCH) {
            let words = words_of(number, kinds);
            encode_request(&words, &mut text);
            count += 1;
            if number % 3 == 0 {
                let end = (END_MS + number).to_string();
                encode_request(&["PEXPIREAT", &words[1], &end], &mut text);
                count += 1;
            }
        }
        connection.ask_all(&text, count)?;
        at += BATCH;
    }
    Ok(())
}

/// The request that makes a key.
fn words_of(number: u64, kinds: u64) -> Vec<String> {
    let name = name_of(number);
    let value = format!("{number:0>100}");
    let five = |each: &dyn Fn(u64) -> Vec<String>| (0..5).flat_map(each).collect::<Vec<_>>();
    let (command, rest) = match number % kinds {
        5 => ("HSET", five(&|at| vec![format!("f{at}"), value.clone()])),
        6 => ("RPUSH", five(&|at| vec![format!("{value}{at}")])),
        7 => ("SADD", five(&|at| vec![format!("{value}{at}")])),
        8 => (
            "ZADD",
            five(&|at| vec![format!("{at}.5"), format!("m{at}")]),
        ),
        9 => ("XADD", vec!["1-1".to_owned(), "f".to_owned(), value]),
        _ => ("SET", vec![value]),
    };
    [vec![command.to_owned(), name], rest].concat()
}

/// Kinds of keys, half of which are strings.
pub(super) const KINDS: u64 = 10;
/// Kinds of keys that Quorate's own store has: the last one of all is streams.
pub(super) const OWN_KINDS: u64 = KINDS - 1;

/// The name of a key.
pub(super) fn name_of(number: u64) -> String {
    format!("key:{number}")
}

impl Contents {
    /// Looks at everything.
    pub(super) fn of(server: &Server) -> Result<Contents, String> {
        let mut connection = server.connect()?;
        let Some(values) = connection.ask(&["DEBUG", "DIGEST"])?.text() else {
            return Err("DEBUG DIGEST says nothing".to_owned());
        };
        let functions = connection.ask(&["FUNCTION", "LIST", "WITHCODE"])?;
        let mut contents = Contents {
            keys: 0,
            ending: 0,
            values,
            types_and_ends: 0,
            functions: hash(&format!("{functions:?}")),
        };
        // SCAN may show a key twice.
        let found = connection.ask(&["KEYS", "*"])?;
        let Reply::Array(names) = &found else {
            return Err("KEYS says nothing".to_owned());
        };
        for names in names.chunks(BATCH as usize) {
            contents.add(&mut connection, names)?;
        }
        Ok(contents)
    }

    /// Adds keys, in whatever order they come.
    fn add(&mut self, connection: &mut Connection, names: &[Reply]) -> Result<(), String> {
        let names: Vec<String> = names.iter().filter_map(Reply::text).collect();
        let mut text = Vec::new();
        for name in &names {
            encode_request(&["TYPE", name], &mut text);
            encode_request(&["PEXPIRETIME", name], &mut text);
        }
        let replies = connection.ask_all(&text, 2 * names.len())?;
        for (name, pair) in names.iter().zip(replies.chunks(2)) {
            self.keys += 1;
            self.ending += u64::from(!matches!(pair, [_, Reply::Integer(..0)]));
            self.types_and_ends =
                (self.types_and_ends).wrapping_add(hash(&format!("{name} {pair:?}")));
        }
        Ok(())
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_of_all_types() {
        let commands: Vec<String> = (0..KINDS)
            .map(|number| words_of(number, KINDS)[0].clone())
            .collect();
        for command in ["SET", "HSET", "RPUSH", "SADD", "ZADD", "XADD"] {
            assert!(commands.iter().any(|one| one == command), "{command}");
        }
        let own = (0..100).map(|number| words_of(number, OWN_KINDS));
        assert!(own.into_iter().all(|words| words[0] != "XADD"));
        assert_eq!(words_of(7, KINDS)[1], name_of(7));
    }
}
