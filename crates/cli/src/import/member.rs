//! One member of a cluster whose members are imported apart, each on its own machine from a copy of the same file: what
//! `etcdutl snapshot restore` is told, and what it makes of it.

use super::state::Imported;
use crate::Failure;
use crate::etcd::roster::{self, Numbered, Roster};
use crate::face::{FaceName, RedisStore};
use crate::modes::DurabilityMode;
use crate::new_cluster::{self, NewCluster};
use crate::up::ClusterOptions;
use clap::Args;
use quorate_core::ReplicaId;
use quorate_server::Meta;
use std::collections::BTreeMap;
use std::path::Path;

/// The member and its cluster, by etcd's names.
#[derive(Args, Debug)]
pub(super) struct MemberOptions {
    /// Begin one member alone, which has this name in --initial-cluster; do so for each of them, with the same file
    #[arg(long, value_name = "NAME", requires = "initial_cluster")]
    name: Option<String>,

    /// The members of the cluster that the member belongs to, as in m1=http://host1:2380,m2=http://host2:2380
    #[arg(long, value_name = "LIST", requires = "name")]
    initial_cluster: Option<String>,

    /// What tells this cluster from all others [default: etcd-cluster]
    #[arg(long, value_name = "TOKEN", requires = "name")]
    initial_cluster_token: Option<String>,

    /// The member's own URLs for its peers, which are those of --initial-cluster
    #[arg(long, value_name = "URLS", requires = "name")]
    initial_advertise_peer_urls: Option<String>,
}

/// A member that is about to begin. Nothing of it is on the disk yet.
pub(super) struct MemberBeginning {
    number: u16,
    members: Vec<Numbered>,
    cluster: NewCluster,
}

const TOKEN: &str = "etcd-cluster";
const PROTOCOL: &str = "rabia";

impl MemberOptions {
    /// The member that is asked for, if one is.
    pub(super) fn beginning(
        &self,
        options: &ClusterOptions,
    ) -> Result<Option<MemberBeginning>, Failure> {
        let (Some(name), Some(list)) = (&self.name, &self.initial_cluster) else {
            return Ok(None);
        };
        let beginning = self.resolve(name, list, options);
        beginning.map(Some).map_err(Failure::Usage)
    }

    fn resolve(
        &self,
        name: &str,
        list: &str,
        options: &ClusterOptions,
    ) -> Result<MemberBeginning, String> {
        options.check_for_member()?;
        let roster = Roster::of(list)?;
        let Some(urls) = roster.members.get(name) else {
            return Err(format!("--name {name} is not in --initial-cluster {list}"));
        };
        if let Some(advertised) = &self.initial_advertise_peer_urls {
            let mut given = crate::etcd::urls::list("initial-advertise-peer-urls", advertised)?;
            given.sort();
            if given != *urls {
                return Err(format!(
                    "--initial-advertise-peer-urls {advertised} are not what --initial-cluster has for {name}: {}",
                    crate::etcd::urls::joined(urls)
                ));
            }
        }
        let members = roster.numbered();
        let own = members.iter().find(|member| member.name == name);
        let number = own.map_or(0, |member| member.number);
        let protocol = options.protocol().unwrap_or(PROTOCOL);
        let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
        let mut params = options.params(protocol, count)?;
        FaceName::Etcd.add_to(RedisStore::default(), &mut params);
        let addresses = members.iter();
        let cluster = NewCluster {
            token: self
                .initial_cluster_token
                .as_deref()
                .unwrap_or(TOKEN)
                .to_owned(),
            members: addresses
                .map(|member| (ReplicaId(member.number), member.url.clone()))
                .collect::<BTreeMap<_, _>>(),
            protocol: protocol.to_owned(),
            durability: options.durability().unwrap_or(DurabilityMode::Disk).into(),
            params,
        };
        new_cluster::failures_survived(&cluster.epoch(), ReplicaId(number))?;
        Ok(MemberBeginning {
            number,
            members,
            cluster,
        })
    }
}

impl MemberBeginning {
    /// Who the member is. Members that begin with different states are of different clusters, and refuse each other.
    pub(super) fn meta(&self, imported: &Imported) -> Result<Meta, Failure> {
        let status = imported.store.status();
        let hash = imported.store.hash(0);
        let hash = hash.map_err(|why| Failure::Failed(format!("cannot import: {why:?}")))?;
        let mut cluster = self.cluster.clone();
        cluster.token = format!(
            "{}\nbegun with {:08x}, {} to {}, {} leases, {} users",
            cluster.token,
            hash.hash,
            status.compacted,
            status.revision,
            imported.leases,
            imported.users
        );
        Ok(cluster.meta(ReplicaId(self.number)))
    }

    /// Keeps the members' names beside the data.
    pub(super) fn remember(&self, dir: &Path) -> Result<(), Failure> {
        roster::store(dir, &self.members).map_err(Failure::Failed)
    }

    /// The command line that starts the member, for people.
    pub(super) fn start_line(&self, dir: &Path) -> String {
        let own = self
            .members
            .iter()
            .find(|member| member.number == self.number);
        let name = own.map_or("", |member| &member.name);
        format!(
            "begun: member {name} of {}; start it with: quorate etcd --name {name} --data-dir {} and the URLs that it \
             listens at\n",
            self.members.len(),
            dir.display()
        )
    }
}
