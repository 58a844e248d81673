//! A network between the replicas of `quorate up`, which all live on loopback: replica `from` reaches
//! replica `to` at `127.0.from.to`, at the port that `to` has at 127.0.0.1.

use std::time::Duration;

use tokio::runtime::Runtime;

use super::{Network, Weather};
use crate::replicas::REPLICA;

/// What is between replicas on loopback.
#[derive(Debug)]
pub(crate) struct Local {
    network: Network,
    replicas: usize,
    _runtime: Runtime,
}

impl Local {
    /// Takes the way of all that is said to these ports of replicas at 127.0.0.1.
    pub(crate) fn start(ports: &[u16]) -> Result<Local, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start the runtime: {error}"))?;
        let proxy = |from, to| format!("127.0.{}.{}:{}", from + 1, to + 1, ports[to]);
        let target = |to: usize| format!("127.0.0.1:{}", ports[to]);
        Ok(Local {
            network: Network::start(&runtime, ports.len(), proxy, target)?,
            replicas: ports.len(),
            _runtime: runtime,
        })
    }

    /// The members, as a replica is told of them whose number is put in the place of [`REPLICA`].
    pub(crate) fn members(ports: &[u16]) -> String {
        let member =
            |(to, port): (usize, &u16)| format!("{0}=http://127.0.{REPLICA}.{0}:{port}", to + 1);
        let members: Vec<String> = ports.iter().enumerate().map(member).collect();
        members.join(",")
    }

    /// From now on what replicas say to each other takes from `delay` to `jitter` longer than that.
    pub(crate) fn set(&self, delay: Duration, jitter: Duration) {
        for replica in 0..self.replicas {
            self.network.around(replica, true, false, |weather| {
                *weather = Weather {
                    delay,
                    jitter,
                    ..*weather
                };
            });
        }
    }
}
