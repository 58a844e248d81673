//! What the kernel counted on the sockets between replicas: `bytes_sent` of `TCP_INFO`, as `ss`
//! prints it, and `bytes_retrans`. Bytes that were sent again count again; packets' headers do not
//! count.

use std::collections::BTreeMap;
use std::process::Command;

/// What was sent on each socket, by its own address and the other one's.
pub(super) type Sockets = BTreeMap<(String, String), Sent>;

/// Bytes that were sent, and those of them that TCP sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) bytes: u64,
    pub(super) again: u64,
}

/// Reads the sockets of which either end is one of these `host:port`, in these namespaces or, if
/// there are none, in this program's.
pub(super) fn read(peers: &[String], namespaces: &[String]) -> Result<Sockets, String> {
    if namespaces.is_empty() {
        return ss(&[]).map(|text| parse(&text, peers));
    }
    let mut sockets = Sockets::new();
    for namespace in namespaces {
        sockets.extend(parse(&ss(&["-N", namespace])?, peers));
    }
    Ok(sockets)
}

fn ss(more: &[&str]) -> Result<String, String> {
    let output = Command::new("ss").arg("-tinOH").args(more).output();
    let output = output.map_err(|error| format!("cannot run ss (of iproute2): {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("ss: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// What was sent between two readings; a socket that is new began with none.
pub(super) fn sent_between(before: &Sockets, after: &Sockets) -> Sent {
    after.iter().fold(Sent::default(), |sum, (socket, sent)| {
        let earlier = before.get(socket).copied().unwrap_or_default();
        Sent {
            bytes: sum.bytes + sent.bytes.saturating_sub(earlier.bytes),
            again: sum.again + sent.again.saturating_sub(earlier.again),
        }
    })
}

fn parse(text: &str, peers: &[String]) -> Sockets {
    let socket = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(ADDRESSES_FIELD);
        let (local, remote) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        let is_between = peers.contains(&local) || peers.contains(&remote);
        let count = |name| {
            let mut fields = fields.clone();
            fields.find_map(|field| field.strip_prefix(name)?.parse().ok())
        };
        let sent = Sent {
            bytes: count("bytes_sent:")?,
            // Left out while there are none.
            again: count("bytes_retrans:").unwrap_or(0),
        };
        is_between.then_some(((local, remote), sent))
    };
    text.lines().filter_map(socket).collect()
}

/// Behind the state and the lengths of two queues.
const ADDRESSES_FIELD: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
ESTAB 0 0 127.0.0.1:5001 127.0.0.1:2380 cubic wscale:7,7 bytes_sent:100 bytes_acked:90 segs_out:3
ESTAB 0 0 127.0.0.1:2380 127.0.0.1:5001 cubic wscale:7,7 bytes_received:100
ESTAB 0 0 127.0.0.1:5002 127.0.0.1:2379 cubic wscale:7,7 bytes_sent:7 bytes_acked:7
";
    const AFTER: &str = "\
ESTAB 0 9 127.0.0.1:5001 127.0.0.1:2380 cubic wscale:7,7 bytes_sent:150 bytes_retrans:4 bytes_acked:90 segs_out:3
ESTAB 0 0 127.0.0.1:2380 127.0.0.1:5001 cubic wscale:7,7 bytes_sent:8 bytes_acked:8
ESTAB 0 0 127.0.0.1:5003 127.0.0.1:2380 cubic wscale:7,7 bytes_sent:1000
ESTAB 0 0 127.0.0.1:5002 127.0.0.1:2379 cubic wscale:7,7 bytes_sent:70000
";

    #[test]
    fn bytes_between_replicas_are_told_from_those_of_clients() {
        let peers = ["127.0.0.1:2380".to_owned()];
        let (before, after) = (parse(BEFORE, &peers), parse(AFTER, &peers));
        assert_eq!(before.len(), 1, "{before:?}");
        let sent = sent_between(&before, &after);
        assert_eq!((sent.bytes, sent.again), (50 + 8 + 1000, 4));
    }
}
