//! The clusters that are measured, and where they are.

use std::path::Path;

use super::SizesArgs;
use super::link::Apart;
use super::theory::{REPLICAS, System};
use crate::children::Tethered;
use crate::cluster::Cluster;
use crate::{namespaces, scrape};

/// A cluster that runs for as long as this value.
#[derive(Debug)]
pub(super) struct Running {
    /// Where its replicas serve clients, in their order.
    pub(super) endpoints: Vec<String>,
    /// Where they listen to each other: `host:port`.
    pub(super) peers: Vec<String>,
    /// The network namespaces they are in; none on loopback.
    pub(super) namespaces: Vec<String>,
    /// Its processes.
    pub(super) pids: Vec<u32>,
    _keeper: Keeper,
}

/// What ends with the cluster.
#[derive(Debug)]
enum Keeper {
    Loopback { _cluster: Cluster },
    Apart { _cluster: Apart },
}

impl Running {
    /// Starts a cluster.
    pub(super) fn start(args: &SizesArgs, system: System) -> Result<Running, String> {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let binary: &Path = args.quorate.as_deref().unwrap_or(&this);
        let mut options = system.flags();
        options.extend(SERVER_FLAGS.map(|flag| format!("--server-arg={flag}")));
        options.extend_from_slice(&args.quorate_option);
        match &args.inside {
            Some(directory) => Running::apart(Apart::start(binary, Some(directory), &options)?),
            None => {
                let parent = args.data_dir.as_deref();
                Running::on_loopback(Cluster::quorate(binary, REPLICAS, parent, &options)?)
            }
        }
    }

    fn on_loopback(cluster: Cluster) -> Result<Running, String> {
        Ok(Running {
            peers: peers(&cluster.endpoints)?,
            endpoints: cluster.endpoints.clone(),
            namespaces: Vec::new(),
            pids: cluster.pids(),
            _keeper: Keeper::Loopback { _cluster: cluster },
        })
    }

    fn apart(cluster: Apart) -> Result<Running, String> {
        let endpoints = Apart::endpoints();
        Ok(Running {
            peers: peers(&endpoints)?,
            namespaces: (0..endpoints.len()).map(namespaces::name).collect(),
            endpoints,
            pids: cluster.processes.iter().map(Tethered::pid).collect(),
            _keeper: Keeper::Apart { _cluster: cluster },
        })
    }
}

/// The peers' port follows the clients'.
fn peers(client_urls: &[String]) -> Result<Vec<String>, String> {
    let peer = |url: &String| {
        let authority = scrape::authority(url)?;
        let (host, port) = authority.rsplit_once(':').ok_or("no port")?;
        let port: u16 = port.parse().map_err(|_| format!("no port: {authority}"))?;
        Ok(format!("{host}:{}", port + 1))
    };
    client_urls.iter().map(peer).collect()
}

/// The largest values take more than the defaults allow, and a slow link more time.
const SERVER_FLAGS: [&str; 2] = ["--max-request-bytes=67108864", "--request-timeout-ms=60000"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_listen_beside_clients() {
        let urls = ["http://127.0.0.1:2379".to_owned()];
        assert_eq!(peers(&urls), Ok(vec!["127.0.0.1:2380".to_owned()]));
    }
}
