//! A network between the replicas of `quorate up`, which all live on loopback.
//!
//! A replica listens where nobody looks for it (`127.0.99.to`). Others find it at `127.0.from.to`, and
//! gateways, which learn of members from each other, where the cluster says it is: at 127.0.0.1. The port is
//! always the same.

use std::time::Duration;

use tokio::runtime::Runtime;

use super::{Network, Weather};

/// What is between replicas on loopback, and between them and gateways.
#[derive(Debug)]
pub struct Local {
    network: Network,
    ports: Vec<u16>,
    _runtime: Runtime,
}

impl Local {
    /// Takes the way of all that is said to replicas that say of themselves to have these ports for peers.
    pub fn start(ports: Vec<u16>) -> Result<Local, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the runtime: {error}"))?;
        let gateways = ports.len();
        let proxy = |from, to| {
            let port = ports.get(to)?;
            Some(match from == gateways {
                true => format!("127.0.0.1:{port}"),
                false => format!("127.0.{}.{}:{port}", from + 1, to + 1),
            })
        };
        let target = |to: usize| {
            let port = ports.get(to).copied().unwrap_or_default();
            format!("127.0.{LISTENING}.{}:{port}", to + 1)
        };
        Ok(Local {
            network: Network::start(&runtime, ports.len() + 1, proxy, target)?,
            ports,
            _runtime: runtime,
        })
    }

    /// The options of `quorate serve` that make a replica listen and speak by way of this network.
    pub fn options(&self, replica: usize) -> [String; 2] {
        let number = replica + 1;
        let member =
            |(to, port): (usize, &u16)| format!("{0}=http://127.0.{number}.{0}:{port}", to + 1);
        let members: Vec<String> = self.ports.iter().enumerate().map(member).collect();
        [
            format!(
                "--listen-peer-urls=http://127.0.{LISTENING}.{number}:{}",
                self.ports[replica]
            ),
            format!("--initial-cluster={}", members.join(",")),
        ]
    }

    /// From now on what anybody says takes from `delay` to `jitter` longer than that.
    pub fn set(&self, delay: Duration, jitter: Duration) {
        for from in 0..=self.ports.len() {
            self.network.around(from, true, false, |weather| {
                *weather = Weather {
                    delay,
                    jitter,
                    ..*weather
                };
            });
        }
    }

    /// From now on what one says to the other takes so long, and back.
    pub fn set_between(&self, one: usize, other: usize, delay: Duration) {
        self.network
            .change(one, other, |weather| weather.delay = delay);
        self.network
            .change(other, one, |weather| weather.delay = delay);
    }

    /// From now on nothing passes between a replica and all others, or everything does.
    pub fn cut_off(&self, replica: usize, is_cut: bool) {
        self.network
            .around(replica, true, true, |weather| weather.cut = is_cut);
    }

    /// From now on what gateways say to a replica takes so long, and back.
    pub fn set_from_gateways(&self, replica: usize, delay: Duration) {
        self.set_between(self.ports.len(), replica, delay);
    }
}

/// In the addresses at which replicas listen.
const LISTENING: u8 = 99;
