//! The clusters that are measured, and where they are.

use std::path::Path;

use super::link::LinkedCluster;
use super::{Shape, SystemArgs};
use crate::cluster::Cluster;
use crate::namespaces;
use quorate_tooling::launch::Running as Process;
use quorate_tooling::program::Place;
use quorate_tooling::scrape;

/// A cluster that runs for as long as this value.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where its replicas serve clients, in their order.
    pub(crate) endpoints: Vec<String>,
    /// Where they listen to each other: `host:port`.
    pub(crate) peers: Vec<String>,
    /// The network namespaces they are in; none on loopback.
    pub(crate) namespaces: Vec<String>,
    /// The ids of the cluster's processes.
    pub(crate) pids: Vec<u32>,
    _keeper: Keeper,
}

/// How a cluster is started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch<'a> {
    /// The program of Quorate, and the directory for the data.
    pub(crate) place: &'a Place,
    /// More options for `quorate up`.
    pub(crate) options: &'a [String],
    /// Where its data go if its replicas are each in a namespace.
    pub(crate) inside: Option<&'a Path>,
    /// The executable of etcd.
    pub(crate) etcd: Option<&'a Path>,
}

impl<'a> Launch<'a> {
    /// As the command line says.
    pub(crate) fn of(args: &'a SystemArgs) -> Launch<'a> {
        Launch {
            place: &args.place,
            options: &args.quorate_option,
            inside: args.inside.as_deref(),
            etcd: Some(&args.etcd),
        }
    }
}

/// What ends with the cluster.
#[derive(Debug)]
enum Keeper {
    Loopback { _cluster: Cluster },
    Linked { _cluster: LinkedCluster },
}

impl Running {
    /// Starts a cluster.
    pub(crate) fn start(launch: &Launch<'_>, shape: Shape) -> Result<Running, String> {
        if !shape.system.is_ours() {
            return Running::etcd(launch, shape.replicas);
        }
        let binary = &launch.place.binary()?;
        let mut options = shape.flags();
        options.extend(SERVER_FLAGS.map(|flag| format!("--server-arg={flag}")));
        options.extend_from_slice(launch.options);
        match launch.inside {
            Some(directory) => Running::linked(LinkedCluster::quorate(
                binary,
                shape.replicas,
                directory,
                &options,
            )?),
            None => {
                let (parent, replicas) = (launch.place.parent(), shape.replicas);
                Running::on_loopback(Cluster::quorate(binary, replicas, parent, &options)?)
            }
        }
    }

    fn etcd(launch: &Launch<'_>, replicas: u8) -> Result<Running, String> {
        let binary = launch.etcd.ok_or("no etcd to start")?;
        match launch.inside {
            Some(directory) => Running::linked(LinkedCluster::etcd(
                binary,
                replicas,
                directory,
                &ETCD_FLAGS,
            )?),
            None => {
                let parent = launch.place.parent();
                let cluster = Cluster::etcd_with(binary, replicas, parent, &ETCD_FLAGS)?;
                Running::on_loopback(cluster)
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

    fn linked(cluster: LinkedCluster) -> Result<Running, String> {
        let endpoints = cluster.endpoints();
        Ok(Running {
            peers: peers(&endpoints)?,
            namespaces: (0..endpoints.len()).map(namespaces::name).collect(),
            endpoints,
            pids: cluster.processes.iter().map(Process::pid).collect(),
            _keeper: Keeper::Linked { _cluster: cluster },
        })
    }
}

/// The number of the member of etcd that says it leads.
pub(crate) fn etcd_leader(endpoints: &[String]) -> Option<usize> {
    let leads = |url: &String| {
        let page = scrape::get(url, "/metrics");
        page.is_ok_and(|page| scrape::value(&page, "etcd_server_is_leader") > 0.0)
    };
    endpoints.iter().position(leads)
}

/// Where replicas listen to each other: the port behind that for clients.
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
const SERVER_FLAGS: [&str; 2] = ["--max-request-bytes=68157440", "--request-timeout-ms=60000"];

/// Flags for etcd: the largest values, and as large a database as its makers advise at most.
const ETCD_FLAGS: [&str; 2] = [
    "--max-request-bytes=68157440",
    "--quota-backend-bytes=8589934592",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_listen_beside_clients() {
        let urls = ["http://127.0.0.1:2379".to_owned()];
        assert_eq!(peers(&urls), Ok(vec!["127.0.0.1:2380".to_owned()]));
    }
}
