//! Replies that say the same, though servers write them in orders of their own.

use bytes::Bytes;
use quorate_resp::Reply;

/// Commands whose elements come in no order that Redis promises.
const UNORDERED: [&str; 16] = [
    "keys",
    "smembers",
    "sunion",
    "sinter",
    "sdiff",
    "hgetall",
    "hkeys",
    "hvals",
    "hrandfield",
    "hscan",
    "sscan",
    "zscan",
    "srandmember",
    "zrandmember",
    "spop",
    "sort",
];

/// Whether the elements of a reply to this call come in no order that Redis promises.
pub(crate) fn is_unordered(args: &[Bytes]) -> bool {
    let name = String::from_utf8_lossy(&args[0]).to_lowercase();
    UNORDERED.contains(&&name[..])
}

/// A reply whose arrays are in an order of their own.
pub(crate) fn in_order(reply: Reply) -> Reply {
    let sorted = |replies: Vec<Reply>| {
        let mut replies: Vec<Reply> = replies.into_iter().map(in_order).collect();
        replies.sort_by_key(|reply| format!("{reply:?}"));
        replies
    };
    match reply {
        Reply::Array(replies) => Reply::Array(sorted(replies)),
        Reply::Set(replies) => Reply::Set(sorted(replies)),
        // Scans, and versions of Redis, write doubles in more ways than one.
        Reply::Bulk(text) => match std::str::from_utf8(&text).map(double) {
            Ok(Some(double)) => double,
            _ => Reply::Bulk(text),
        },
        Reply::Double(text) => double(&text).unwrap_or(Reply::Double(text)),
        Reply::Map(mut pairs) => {
            pairs.sort_by_key(|pair| format!("{pair:?}"));
            Reply::Map(pairs)
        }
        other => other,
    }
}

/// A number in words of its own.
fn double(text: &str) -> Option<Reply> {
    let number = text.parse::<f64>().ok()?;
    Some(Reply::Double(number.to_string()))
}

/// Whether a server draws the reply to this call by itself.
pub(crate) fn is_drawn(args: &[Bytes]) -> bool {
    let name = String::from_utf8_lossy(&args[0]).to_lowercase();
    match &name[..] {
        "hrandfield" | "srandmember" | "zrandmember" => {
            args.get(2).is_none_or(|count| count != "100000")
        }
        "randomkey" => true,
        _ => false,
    }
}

/// Whether a Redis 7.0 does not know such a call.
pub(crate) fn is_newer(args: &[Bytes]) -> bool {
    let mut names = ["zrank", "zrevrank"].iter();
    args.len() == 4 && names.any(|name| args[0].eq_ignore_ascii_case(name.as_bytes()))
}
