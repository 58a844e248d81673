//! How an exchange on this machine is set up, and where its processes are reached.

use quorate::{Durability, Protocol};
use std::io;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use tokio::net::TcpSocket;

/// The ports among which free ones are looked for.
const FREE_PORTS: Range<u16> = 10_000..30_000;

/// How an exchange on this machine is set up.
#[derive(Clone, Debug)]
pub struct ExchangeOptions {
    /// How many replicas there are.
    pub replicas: u16,
    /// How many gateways there are.
    pub gateways: u16,
    /// How many symbols are traded.
    pub symbols: u16,
    /// How many participants are admitted.
    pub participants: u16,
    /// The time from a stamp to its release to the log, in ns.
    pub order_delay_ns: u64,
    /// How many of a million requests may come late: the leader chooses its delay by that. Where it is not told, the
    /// delay stays.
    pub late_per_million: Option<u32>,
    /// How many orders the engine takes in a second at most; 0 is as many as it can.
    pub engine_rate: u64,
    /// The time for which gateways hold market data, in ns.
    pub hold_ns: u64,
    /// The protocol by which replicas agree.
    pub protocol: Protocol,
    /// What survives a crash.
    pub durability: Durability,
    /// The folder of the data, with one folder for each replica and each gateway.
    pub folder: PathBuf,
    /// The file with the tokens of participants; without one anybody may be anyone.
    pub tokens: Option<PathBuf>,
    /// Whether the orders of a participant are cancelled when a connection of it is lost.
    pub cancels_on_disconnect: bool,
}

impl Default for ExchangeOptions {
    fn default() -> Self {
        ExchangeOptions {
            replicas: 3,
            gateways: 2,
            symbols: 8,
            participants: 16,
            order_delay_ns: 1_000_000,
            late_per_million: None,
            engine_rate: 0,
            hold_ns: 2_000_000,
            protocol: Protocol::default(),
            durability: Durability::default(),
            folder: PathBuf::from("exchange"),
            tokens: None,
            cancels_on_disconnect: false,
        }
    }
}

/// The addresses of an exchange's processes, all on this machine.
#[derive(Clone, Debug)]
pub struct Places {
    /// Where replicas reach each other.
    pub peers: Vec<String>,
    /// Where gateways reach replicas.
    pub replicas: Vec<String>,
    /// Where participants reach gateways.
    pub orders: Vec<String>,
    /// Where subscribers reach gateways.
    pub feeds: Vec<String>,
    /// Where browsers reach gateways.
    pub webs: Vec<String>,
    /// Where engines that speak FIX reach gateways.
    pub fixes: Vec<String>,
}

impl Places {
    /// Places at ports from one on: those of replicas for each other, those of replicas for gateways, and those of
    /// gateways for orders, for the feed, for browsers and for FIX.
    ///
    /// # Errors
    /// There are not so many ports.
    pub fn from_port(options: &ExchangeOptions, port: u16) -> Result<Places, String> {
        let count = port_count(options);
        let left = usize::from(u16::MAX - port) + 1;
        if count > left {
            return Err(format!(
                "{count} ports are needed, and there are {left} from {port} on"
            ));
        }
        let mut ports = port..=u16::MAX;
        Ok(Places::at(options, || ports.next().unwrap_or(u16::MAX)))
    }

    /// Places at ports that are free, below those that connections on their way out are given: one of these might take
    /// a port between now and the start of the process that is to have it.
    ///
    /// # Errors
    /// Why there are none.
    pub fn free(options: &ExchangeOptions) -> io::Result<Places> {
        let count = port_count(options);
        let free: Vec<u16> = untried_ports()
            .filter(|port| is_free(*port))
            .take(count)
            .collect();
        if free.len() < count {
            return Err(io::Error::other(format!("{count} ports are not free")));
        }
        let mut ports = free.into_iter();
        Ok(Places::at(options, || ports.next().unwrap_or(u16::MAX)))
    }

    fn at(options: &ExchangeOptions, mut port: impl FnMut() -> u16) -> Places {
        let mut addresses = |count: u16| -> Vec<String> {
            (0..count)
                .map(|_| format!("127.0.0.1:{}", port()))
                .collect()
        };
        Places {
            peers: addresses(options.replicas),
            replicas: addresses(options.replicas),
            orders: addresses(options.gateways),
            feeds: addresses(options.gateways),
            webs: addresses(options.gateways),
            fixes: addresses(options.gateways),
        }
    }
}

/// Ports that this process has not looked at yet, or all of them once more: nobody who looks at the same moment gets
/// the same, though nobody listens yet.
fn untried_ports() -> impl Iterator<Item = u16> {
    static LOOKED_AT: OnceLock<AtomicU16> = OnceLock::new();
    let next = LOOKED_AT.get_or_init(|| AtomicU16::new(fastrand::u16(..)));
    let count = FREE_PORTS.len() as u16;
    FREE_PORTS.map(move |_| FREE_PORTS.start + next.fetch_add(1, Ordering::Relaxed) % count)
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

/// How many ports an exchange takes.
fn port_count(options: &ExchangeOptions) -> usize {
    2 * usize::from(options.replicas) + 4 * usize::from(options.gateways)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ports_suffice_and_no_others_are_made_up() {
        let options = ExchangeOptions::default();
        let first = u16::MAX - (port_count(&options) as u16 - 1);
        let places = Places::from_port(&options, first).unwrap();
        assert_eq!(places.fixes.last().unwrap(), "127.0.0.1:65535");
        assert!(Places::from_port(&options, first + 1).is_err());
    }
}
