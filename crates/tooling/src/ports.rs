//! Ports of this machine that nobody listens on.

use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use tokio::net::TcpSocket;

/// The first of `count` consecutive ports that are free now, below those the kernel hands out. No port is given twice
/// by one process, before all were.
///
/// # Errors
/// There are no such ports.
pub fn free_ports(count: u16) -> Result<u16, String> {
    for _ in 0..ATTEMPTS {
        let base = next_ports(count);
        if (base..base + count).all(is_free) {
            return Ok(base);
        }
    }
    Err(format!(
        "no {count} free ports in a row between {} and {}",
        PORTS.start, PORTS.end
    ))
}

const PORTS: std::ops::Range<u16> = 12_000..32_000;
const ATTEMPTS: u32 = 100;

/// Ports that this process has not tried yet: two threads that look at the same moment get different ones, though
/// neither listens yet.
fn next_ports(count: u16) -> u16 {
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU16::new(fastrand::u16(PORTS)));
    let first_of = |next: u16| match next <= PORTS.end - count {
        true => next,
        false => PORTS.start,
    };
    let behind = |next| Some(first_of(next) + count);
    match next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, behind) {
        Ok(before) | Err(before) => first_of(before),
    }
}

/// Whether nobody listens at a port. It is bound for that and not listened at: whoever connects to it at this moment,
/// in wait for the process that is to be there, must not reach this one.
fn is_free(port: u16) -> bool {
    let bound = TcpSocket::new_v4().and_then(|socket| {
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, port).into())
    });
    bound.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_somebody_listens_at_is_not_free_and_nothing_is_given_twice() {
        let first = free_ports(3).unwrap();
        let second = free_ports(3).unwrap();
        assert!(first.abs_diff(second) >= 3, "{first} and {second}");
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        assert!(!is_free(first));
        drop(taken);
        assert!(is_free(first));
    }

    #[test]
    fn nobody_is_accepted_where_ports_are_looked_for() {
        let port = free_ports(1).unwrap();
        let looking = std::thread::spawn(move || (0..2_000).all(|_| is_free(port)));
        while !looking.is_finished() {
            assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
        }
        assert!(looking.join().unwrap());
    }
}
