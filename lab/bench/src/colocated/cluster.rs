//! Replicas of this process.

use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;

use quorate_core::{ClusterId, Durability, Epoch, Incarnation, Member, ReplicaId, Slot};
use quorate_plain_store::Store;
use quorate_server::{
    Embeddable, Embedded, Expected, Folder, Handle, Layout, Meta, PeerLinks, Rings, ServerConfig,
    ServerError, bind, bind_datagrams, bootstrap, embed,
};

use super::Way;
use super::null::Null;
use quorate_tooling::cleanup::TempDir;

/// An application that a replica in this process can have.
pub(super) trait Fit: Embeddable + Default {}

impl Fit for Store {}

impl Fit for Null {}

/// Replicas that live in memory, but for the folder that says who each is.
pub(super) struct Cluster<A: Fit> {
    replicas: Vec<Embedded<A>>,
    _folders: TempDir,
}

impl<A: Fit> Cluster<A> {
    pub(super) async fn start(
        protocol: &str,
        replicas: u16,
        layout: Layout,
        way: Way,
    ) -> Result<Cluster<A>, String> {
        let folders = TempDir::new(None).map_err(|error| error.to_string())?;
        let ids: Vec<ReplicaId> = (1..=replicas).map(ReplicaId).collect();
        let sockets = ids.iter().map(|_| Sockets::bind(way));
        let sockets = sockets.collect::<Result<Vec<_>, _>>();
        let sockets = sockets.map_err(|error| error.to_string())?;
        let addresses = sockets.iter().map(|sockets| sockets.address.clone());
        let addresses: Vec<(ReplicaId, String)> = ids.iter().copied().zip(addresses).collect();
        let rings = Rings::default();
        let mut started = Vec::new();
        for (&me, sockets) in ids.iter().zip(sockets) {
            let peers = match way {
                Way::Rings => PeerLinks::Rings(rings.clone()),
                Way::Tcp | Way::Udp => PeerLinks::Sockets {
                    ports: vec![sockets.port],
                    datagrams: sockets.datagrams,
                },
            };
            let dir = folders.path().join(me.to_string());
            let folder =
                folder(&dir, meta(protocol, &ids, me)).map_err(|error| error.to_string())?;
            let others = addresses.iter().filter(|(id, _)| *id != me);
            let others = others.cloned().collect();
            let config = ServerConfig {
                layout,
                ..ServerConfig::embedded(folder, peers, others)
            };
            let replica = embed(config, A::default()).await;
            started.push(replica.map_err(|error| error.to_string())?);
        }
        Ok(Cluster {
            replicas: started,
            _folders: folders,
        })
    }

    /// Of the replica that a client asks.
    pub(super) fn handle(&self, client: u16) -> Handle<A> {
        let at = usize::from(client) % self.replicas.len();
        self.replicas[at].handle.clone()
    }

    pub(super) async fn stop(self) -> Result<(), String> {
        for replica in self.replicas {
            let stopped: Result<(), ServerError> = replica.stop().await;
            stopped.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// A replica's ports; with rings nobody calls there.
struct Sockets {
    port: TcpListener,
    datagrams: Option<UdpSocket>,
    address: String,
}

impl Sockets {
    fn bind(way: Way) -> std::io::Result<Sockets> {
        let port = bind("127.0.0.1:0")?;
        let datagrams = (way == Way::Udp).then(|| bind_datagrams(&port));
        Ok(Sockets {
            address: port.local_addr()?.to_string(),
            datagrams: datagrams.transpose()?,
            port,
        })
    }
}

fn folder(dir: &Path, meta: Meta) -> Result<Folder, quorate_server::FolderError> {
    bootstrap(dir, &meta)?;
    Folder::open(dir, &Expected::any(meta.replica))
}

/// What a replica begins with.
fn meta(protocol: &str, ids: &[ReplicaId], me: ReplicaId) -> Meta {
    let member = |id: &ReplicaId| Member {
        id: *id,
        incarnation: Incarnation(id.0.into()),
    };
    let epoch = Epoch {
        number: 1,
        first_slot: Slot(0),
        members: ids.iter().map(member).collect(),
        protocol: protocol.to_owned(),
        durability: Durability::Memory,
        seed: 1,
        params: BTreeMap::new(),
    };
    Meta::bootstrapped(ClusterId(1), member(&me), epoch)
}
