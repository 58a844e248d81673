//! The addresses that a replica listens at.

use super::listen;
use crate::address::{host_ports, is_https, is_loopback, places};
use quorate_server::{ClientPorts, Port, ServerError};
use std::net::TcpListener;

/// The addresses that a replica listens at, each as `host:port` or, for clients, as `unix:PATH`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ListenAddresses {
    /// Addresses for everything that clients want and is not served elsewhere; at least one.
    pub(crate) clients: Vec<String>,
    /// Addresses for plain HTTP, which the others leave to these then; those for operators of the Redis face.
    http: Vec<String>,
    /// The flag that those came from.
    http_flag: &'static str,
    /// Addresses for metrics and health.
    observers: Vec<String>,
    /// Whether TLS is spoken at those for plain HTTP, and at those for metrics.
    secured: [bool; 2],
    /// Addresses for the other replicas; at least one.
    pub(crate) peers: Vec<String>,
}

impl ListenAddresses {
    /// Reads the lists of URLs.
    pub(super) fn resolve(
        client_urls: &str,
        peer_urls: &str,
        [(http_flag, http), (metrics_flag, metrics)]: [(&'static str, Option<&str>); 2],
    ) -> Result<ListenAddresses, String> {
        let beside = |flag: &str, urls: Option<&str>| {
            let urls = urls.filter(|urls| !urls.is_empty());
            urls.map_or(Ok(Vec::new()), |urls| places(flag, urls))
        };
        let beside_clients = [(http_flag, http), (metrics_flag, metrics)];
        let is_secured = |urls: Option<&str>| urls.is_some_and(is_https);
        for (flag, urls) in beside_clients {
            if is_secured(urls) && !is_https(client_urls) {
                return Err(format!(
                    "--{flag} says https://, and --listen-client-urls, whose certificate is used, does not"
                ));
            }
        }
        Ok(ListenAddresses {
            secured: [is_secured(http), is_secured(metrics)],
            clients: places("listen-client-urls", client_urls)?,
            http: beside(http_flag, http)?,
            http_flag,
            observers: beside(metrics_flag, metrics)?,
            peers: host_ports("listen-peer-urls", peer_urls)?,
        })
    }

    /// Whether there is an address for plain HTTP alone, or for operators.
    pub(super) fn has_http(&self) -> bool {
        !self.http.is_empty()
    }

    /// Whether others than this machine's may call there, and nothing is encrypted.
    pub(crate) fn is_http_open(&self) -> bool {
        !self.secured[0] && !self.http.iter().all(|address| is_loopback(address))
    }

    /// All addresses, each with the flag that it came from.
    pub(crate) fn all(&self) -> Vec<(&'static str, &str)> {
        let lists = [
            ("listen-client-urls", &self.clients),
            (self.http_flag, &self.http),
            ("listen-metrics-urls", &self.observers),
            ("listen-peer-urls", &self.peers),
        ];
        let each = lists
            .into_iter()
            .flat_map(|(flag, addresses)| addresses.iter().map(move |at| (flag, at.as_str())));
        each.collect()
    }

    /// Opens all ports for clients.
    pub(super) fn open_for_clients(&self) -> Result<ClientPorts, ServerError> {
        Ok(ClientPorts {
            all: open_all("clients", &self.clients)?,
            http: open_all("clients over plain HTTP", &self.http)?,
            observers: open_all("metrics", &self.observers)?,
            secured: self.secured,
        })
    }

    /// Opens the ports for the other replicas.
    pub(super) fn open_for_peers(&self) -> Result<Vec<TcpListener>, ServerError> {
        let ports = self.peers.iter().map(|address| listen("peers", address));
        ports.collect()
    }
}

fn open_all(what: &'static str, addresses: &[String]) -> Result<Vec<Port>, ServerError> {
    let ports = addresses.iter().map(|address| {
        Port::bind(address).map_err(|error| ServerError::Listen {
            what,
            address: address.clone(),
            error,
        })
    });
    ports.collect()
}
