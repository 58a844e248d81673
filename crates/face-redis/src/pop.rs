//! Commands that take an element, and wait for one where there is none.

use crate::rewrite::Rewrite;
use crate::table::{Kind, counted_keys};
use bytes::Bytes;
use std::time::Duration;

/// A blocking command: the elements that a client waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pop {
    /// The call of the store that takes elements, where there are any.
    pub(crate) call: Vec<Bytes>,
    /// What becomes of the call's reply.
    pub(crate) rewrite: Option<Rewrite>,
    /// The keys whose elements may be taken.
    pub(crate) keys: Vec<Bytes>,
    /// How long the client waits; `None` for ever.
    pub(crate) patience: Option<Duration>,
}

impl Pop {
    /// What a call asks for that has as many arguments as its command takes.
    pub(crate) fn read(kind: Kind, args: &[Bytes]) -> Result<Pop, &'static str> {
        let last = args.len() - 1;
        let (call, keys, timeout) = match kind {
            Kind::Blmpop | Kind::Bzmpop => {
                let name = if kind == Kind::Blmpop {
                    "LMPOP"
                } else {
                    "ZMPOP"
                };
                (call(name, &args[2..]), counted_keys(args), &args[1])
            }
            Kind::Blmove => (
                call("LMOVE", &args[1..last]),
                vec![args[1].clone()],
                &args[last],
            ),
            Kind::Brpoplpush => {
                let call = call("RPOPLPUSH", &args[1..last]);
                (call, vec![args[1].clone()], &args[last])
            }
            kind => {
                let keys = &args[1..last];
                let (name, end) = match kind {
                    Kind::Brpop => ("LMPOP", "RIGHT"),
                    Kind::Bzpopmin => ("ZMPOP", "MIN"),
                    Kind::Bzpopmax => ("ZMPOP", "MAX"),
                    _ => ("LMPOP", "LEFT"),
                };
                let mut call = call(name, &[Bytes::from(keys.len().to_string())]);
                call.extend_from_slice(keys);
                call.push(Bytes::from_static(end.as_bytes()));
                (call, keys.to_vec(), &args[last])
            }
        };
        let rewrite = match kind {
            Kind::Blpop | Kind::Brpop => Some(Rewrite::Element),
            Kind::Bzpopmin | Kind::Bzpopmax => Some(Rewrite::Member),
            _ => None,
        };
        Ok(Pop {
            call,
            rewrite,
            keys,
            patience: patience(timeout)?,
        })
    }
}

fn call(name: &'static str, args: &[Bytes]) -> Vec<Bytes> {
    let name = Bytes::from_static(name.as_bytes());
    std::iter::once(name).chain(args.iter().cloned()).collect()
}

/// How long somebody waits who says this, in seconds; `None` for ever.
fn patience(text: &[u8]) -> Result<Option<Duration>, &'static str> {
    let text = std::str::from_utf8(text).ok();
    let number = text.filter(|text| !text.starts_with(char::is_whitespace));
    let seconds: f64 = number
        .and_then(|text| text.parse().ok())
        .filter(|seconds: &f64| !seconds.is_nan())
        .ok_or("ERR timeout is not a float or out of range")?;
    match seconds {
        seconds if seconds < 0.0 => Err("ERR timeout is negative"),
        seconds if seconds * 1000.0 > i64::MAX as f64 => Err("ERR timeout is out of range"),
        0.0 => Ok(None),
        seconds => Ok(Some(
            Duration::from_millis((seconds * 1000.0).ceil() as u64),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<Bytes> {
        let words = text.split(' ');
        words
            .map(|word| Bytes::copy_from_slice(word.as_bytes()))
            .collect()
    }

    fn call_of(kind: Kind, text: &str) -> (String, usize) {
        let pop = Pop::read(kind, &args(text)).unwrap();
        let words: Vec<_> = pop
            .call
            .iter()
            .map(|arg| String::from_utf8_lossy(arg))
            .collect();
        (words.join(" "), pop.keys.len())
    }

    #[test]
    fn the_store_is_asked_without_waiting() {
        for (kind, asked, call, keys) in [
            (Kind::Blpop, "blpop a b 0", "LMPOP 2 a b LEFT", 2),
            (Kind::Brpop, "brpop a 1.5", "LMPOP 1 a RIGHT", 1),
            (
                Kind::Blmove,
                "blmove a b left right 1",
                "LMOVE a b left right",
                1,
            ),
            (Kind::Brpoplpush, "brpoplpush a b 1", "RPOPLPUSH a b", 1),
            (
                Kind::Blmpop,
                "blmpop 1 2 a b left count 3",
                "LMPOP 2 a b left count 3",
                2,
            ),
            (Kind::Bzpopmax, "bzpopmax a 2", "ZMPOP 1 a MAX", 1),
            (Kind::Bzmpop, "bzmpop 1 1 a min", "ZMPOP 1 a min", 1),
        ] {
            assert_eq!(call_of(kind, asked), (call.to_owned(), keys), "{asked}");
        }
    }

    #[test]
    fn patience_is_a_time_in_seconds() {
        assert_eq!(patience(b"0"), Ok(None));
        assert_eq!(patience(b"0.0001"), Ok(Some(Duration::from_millis(1))));
        assert_eq!(patience(b"2"), Ok(Some(Duration::from_secs(2))));
        for bad in [&b"-1"[..], b"x", b"", b"1e300", b"inf", b"nan", b" 1"] {
            assert!(patience(bad).is_err(), "{}", bad.escape_ascii());
        }
    }
}
