//! The beginning of a cluster on this machine: what it consists of, and the identity of each replica.

use super::cluster_options::ClusterOptions;
use super::own_certificates::OwnCertificates;
use super::plan::{FILE, Plan};
use super::urls::{check_ports, first_port};
use crate::Failure;
use crate::face::{FaceName, RedisStore};
use crate::modes::DurabilityMode;
use crate::new_cluster::{self, NewCluster};
use quorate_core::{ClusterId, ReplicaId};
use quorate_server::Meta;
use rustix::rand::{GetRandomFlags, getrandom};
use std::path::{Path, PathBuf};

const REPLICAS: u16 = 3;
const PROTOCOL: &str = "rabia";

/// A cluster that is about to begin. Nothing of it is on the disk yet.
pub(crate) struct Beginning {
    pub(super) plan: Plan,
    cluster: NewCluster,
}

impl Beginning {
    /// The cluster that options ask for, in a folder.
    pub(crate) fn of(
        options: &ClusterOptions,
        (face, store): (FaceName, RedisStore),
        tls: OwnCertificates,
        dir: &Path,
    ) -> Result<Beginning, Failure> {
        let of_code = options.code.and_then(|code| u16::try_from(code.n).ok());
        let replicas = options.replicas.or(of_code).unwrap_or(REPLICAS);
        let port = options.port.unwrap_or_else(|| first_port(face));
        check_ports(face, port, replicas).map_err(Failure::Usage)?;
        let protocol = options.protocol.as_deref().unwrap_or(PROTOCOL);
        let may_measure = options.allow_measurement_protocol;
        quorate_protocols::usable(protocol, may_measure).map_err(Failure::Usage)?;
        let mut params = options.params(protocol, replicas).map_err(Failure::Usage)?;
        face.add_to(store, &mut params);
        let mut plan = Plan {
            dir: dir.to_owned(),
            cluster: ClusterId(0),
            replicas,
            port,
            durability: options.durability.unwrap_or(DurabilityMode::Disk),
            params,
            protocol: protocol.to_owned(),
            tls,
        };
        let cluster = NewCluster {
            token: random_token()?,
            members: (1..=replicas)
                .map(|id| (ReplicaId(id), plan.peer_url(id)))
                .collect(),
            protocol: plan.protocol.clone(),
            durability: plan.durability.into(),
            params: plan.params.clone(),
        };
        plan.cluster = cluster.cluster();
        new_cluster::failures_survived(&cluster.epoch(), ReplicaId(1)).map_err(Failure::Usage)?;
        Ok(Beginning { plan, cluster })
    }

    /// The folder of each replica, and who it is.
    pub(crate) fn replicas(&self) -> Vec<(PathBuf, Meta)> {
        let replica = |id| {
            let meta = self.cluster.meta(ReplicaId(id));
            (self.plan.replica_dir(id), meta)
        };
        (1..=self.plan.replicas).map(replica).collect()
    }

    /// Writes the file that says that the folders of all replicas are complete.
    pub(crate) fn remember(&self) -> Result<(), Failure> {
        self.plan.write(&self.plan.dir.join(FILE))
    }
}

fn random_token() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes[..], GetRandomFlags::empty())
        .map_err(|error| Failure::Failed(format!("no random numbers: {error}")))?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}
