//! Where the processes of a local cluster listen: ports in a row behind the first.

use super::plan::{Plan, Who};
use crate::face::FaceName;

/// The first port of a cluster, by its face: the one that clients look for.
pub(super) fn first_port(face: FaceName) -> u16 {
    match face {
        FaceName::Etcd | FaceName::Plain => 2379,
        FaceName::Redis => 6379,
    }
}

/// How many ports a replica of such a face has.
fn ports_of_each(face: FaceName) -> u32 {
    match face {
        FaceName::Etcd | FaceName::Plain => 2,
        // Operators are served at a port of their own.
        FaceName::Redis => 3,
    }
}

/// Refuses a first port that leaves no room for those behind it.
pub(super) fn check_ports(face: FaceName, port: u16, replicas: u16) -> Result<(), String> {
    if replicas == 0 {
        return Err("--replicas 0: a cluster needs at least one".to_owned());
    }
    let last = u32::from(port) + ports_of_each(face) * u32::from(replicas) - 1;
    if port == 0 || last > u32::from(u16::MAX) {
        return Err(format!(
            "--port {port} leaves no room for the ports of {replicas} replicas, up to {last}"
        ));
    }
    Ok(())
}

/// Refuses gateways for whose ports there is no room. The replicas' ports were checked.
pub(super) fn check_gateways(
    face: FaceName,
    port: u16,
    replicas: u16,
    gateways: u16,
) -> Result<(), String> {
    if gateways > 0 && face == FaceName::Redis {
        return Err(
            "--gateways: the Redis face has none, and every replica takes all requests".to_owned(),
        );
    }
    let last = u32::from(port) + 2 * u32::from(replicas) + u32::from(gateways);
    if gateways > 0 && last > u32::from(u16::MAX) {
        return Err(format!(
            "--gateways {gateways} leaves no room for their ports behind the replicas', up to {last}"
        ));
    }
    Ok(())
}

impl Plan {
    fn is_redis(&self) -> bool {
        matches!(self.face(), Ok(FaceName::Redis))
    }

    /// The port for clients. Gateways have the ports behind those of the replicas.
    fn client_port(&self, who: Who) -> u16 {
        match who {
            Who::Replica(id) => self.port + 2 * (id - 1),
            Who::Gateway(id) => self.port + 2 * self.replicas + (id - 1),
        }
    }

    /// The URL that a process is told to serve clients at.
    pub(super) fn listen_url(&self, who: Who) -> String {
        let scheme = if self.secures(who) { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.client_port(who))
    }

    /// Whether clients speak TLS to a process.
    fn secures(&self, who: Who) -> bool {
        matches!(who, Who::Replica(_)) && self.tls.clients
    }

    /// The URL at which clients reach a process, as they write it.
    pub(super) fn client_url(&self, who: Who) -> String {
        match (self.is_redis(), self.secures(who)) {
            (false, _) => self.listen_url(who),
            (true, false) => format!("redis://127.0.0.1:{}", self.client_port(who)),
            (true, true) => format!("rediss://127.0.0.1:{}", self.client_port(who)),
        }
    }

    /// The URL at which a replica is asked how it is.
    pub(super) fn asked_url(&self, id: u16) -> String {
        let who = Who::Replica(id);
        if !self.is_redis() {
            return self.client_url(who);
        }
        let scheme = if self.secures(who) { "https" } else { "http" };
        let port = self.port + 2 * self.replicas + (id - 1);
        format!("{scheme}://127.0.0.1:{port}")
    }

    /// The options about a port for operators, where the face has one.
    pub(super) fn admin_flags(&self, id: u16) -> Vec<String> {
        match self.is_redis() {
            true => vec![format!("--listen-admin-urls={}", self.asked_url(id))],
            false => Vec::new(),
        }
    }

    /// The line that tells where these serve clients.
    pub(super) fn endpoints(&self, which: &[Who]) -> String {
        let urls: Vec<_> = which.iter().map(|who| self.client_url(*who)).collect();
        format!("endpoints: {}", urls.join(","))
    }

    /// The line that tells where these replicas serve operators, if that is somewhere else.
    pub(super) fn admin_endpoints(&self, which: &[Who]) -> Option<String> {
        let url = |who: &Who| match who {
            Who::Replica(id) => Some(self.asked_url(*id)),
            Who::Gateway(_) => None,
        };
        let urls: Vec<_> = which.iter().filter_map(url).collect();
        self.is_redis()
            .then(|| format!("admin endpoints: {}", urls.join(",")))
    }

    /// The URL at which the other replicas reach a replica.
    pub(super) fn peer_url(&self, id: u16) -> String {
        let scheme = if self.tls.peers { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port + 2 * (id - 1) + 1)
    }
}
