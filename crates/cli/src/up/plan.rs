//! What a local cluster consists of, and the file that remembers it.

use super::begin::Beginning;
use super::import::found;
use super::own_certificates::OwnCertificates;
use super::urls::{check_gateways, check_ports};
use super::{UpOptions, say};
use crate::Failure;
use crate::face::{FaceName, RedisStore};
use crate::modes::DurabilityMode;
use clap::ValueEnum;
use quorate_core::{ClusterId, Epoch};
use quorate_server::{Layout, bootstrap, holds_data, read_meta};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// The file that says what the cluster consists of.
pub(super) const FILE: &str = "cluster.toml";
const FORMAT: u32 = 1;
const HEAD: &str =
    "# A cluster of `quorate up`, whose replicas are in the folders beside this file.\n";

/// A local cluster, new or remembered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    pub(super) dir: PathBuf,
    pub(super) cluster: ClusterId,
    pub(super) replicas: u16,
    pub(super) port: u16,
    pub(super) protocol: String,
    pub(super) durability: DurabilityMode,
    pub(super) params: BTreeMap<String, String>,
    pub(super) tls: OwnCertificates,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    cluster: String,
    replicas: u16,
    port: u16,
    protocol: String,
    durability: DurabilityMode,
    #[serde(default)]
    params: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "OwnCertificates::are_none")]
    tls: OwnCertificates,
}

/// A process of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Who {
    Replica(u16),
    /// A gateway, which has no data, and which the file does not remember.
    Gateway(u16),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Replica(id) => write!(f, "replica {id}"),
            Who::Gateway(id) => write!(f, "gateway {id}"),
        }
    }
}

impl Plan {
    /// The cluster in the folder, or a new one if the folder is empty or missing.
    pub(super) fn of(options: &UpOptions) -> Result<Plan, Failure> {
        let dir = &options.data_dir;
        let path = dir.join(FILE);
        if path.exists() {
            if let Some(import) = &options.import {
                return Err(Failure::Usage(format!(
                    "--import {}: the cluster in {} was begun already, and keeps what it has: leave the option out, \
                     or begin another cluster in an empty folder (--data-dir)",
                    import.display(),
                    dir.display()
                )));
            }
            let mut plan = Plan::read(dir, &path)?;
            plan.check(options).map_err(Failure::Usage)?;
            let asked = options.cluster.port.filter(|port| *port != plan.port);
            plan.port = asked.unwrap_or(plan.port);
            let face = plan.face().map_err(Failure::Usage)?;
            check_gateways(face, plan.port, plan.replicas, options.gateways)
                .and_then(|()| check_ports(face, plan.port, plan.replicas))
                .map_err(Failure::Usage)?;
            if asked.is_some() {
                plan.write(&path)?;
            }
            return Ok(plan);
        }
        if options.only.is_some() {
            return Err(Failure::Usage(format!(
                "--only starts a replica of an existing cluster, and {} holds none: check \
                 --data-dir, or leave --only out to begin one",
                dir.display()
            )));
        }
        let occupied = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
        if occupied {
            return Err(Failure::Failed(format!(
                "{} holds files but no {FILE}: it is no cluster of `quorate up`, or its beginning \
                 was interrupted before it held anything; choose an empty folder",
                dir.display()
            )));
        }
        Plan::begin(options)
    }

    /// The replicas to start.
    pub(super) fn which(&self, only: Option<u16>) -> Result<Vec<u16>, String> {
        match only {
            None => Ok((1..=self.replicas).collect()),
            Some(id) if (1..=self.replicas).contains(&id) => Ok(vec![id]),
            Some(id) => Err(format!(
                "--only {id}: the cluster in {} has replicas 1 to {}",
                self.dir.display(),
                self.replicas
            )),
        }
    }

    /// The epoch in the first replica's folder that can be read.
    pub(super) fn epoch(&self) -> Result<Epoch, Failure> {
        if (1..=self.replicas).all(|id| matches!(holds_data(&self.replica_dir(id)), Ok(false))) {
            return Err(Failure::Failed(format!(
                "the data of all replicas in {} is gone, and only {FILE} is left: put the folders \
                 back, or begin a new cluster in an empty folder",
                self.dir.display()
            )));
        }
        let metas = (1..=self.replicas).map(|id| read_meta(&self.replica_dir(id)));
        let mut wrong = None;
        for meta in metas {
            match meta {
                Ok(meta) => return Ok(meta.epoch),
                Err(error) => wrong = Some(error),
            }
        }
        Err(Failure::Failed(match wrong {
            Some(error) => error.to_string(),
            None => format!("{} holds no replica", self.dir.display()),
        }))
    }

    /// The command that runs a process.
    pub(super) fn command(&self, who: Who, options: &UpOptions) -> Child {
        let format = (options.log_format)
            .to_possible_value()
            .map(|value| value.get_name().to_owned());
        let common = [
            ("--listen-client-urls", self.listen_url(who)),
            ("--cluster-id", self.cluster.to_string()),
            ("--log-level", options.log_level.clone()),
            ("--log-format", format.unwrap_or_default()),
            ("--exit-with-parent", std::process::id().to_string()),
        ];
        let common = common.map(|(flag, value)| [flag.to_owned(), value]);
        let (command, own) = match who {
            Who::Replica(id) => ("serve", self.replica_flags(id, options)),
            Who::Gateway(_) => ("gateway", self.gateway_flags()),
        };
        Child {
            command,
            flags: common.into_iter().flatten().chain(own).collect(),
        }
    }

    fn replica_flags(&self, id: u16, options: &UpOptions) -> Vec<String> {
        let list = |url: fn(&Plan, u16) -> String| {
            let urls: Vec<_> = (1..=self.replicas)
                .map(|id| format!("{id}={}", url(self, id)))
                .collect();
            urls.join(",")
        };
        let flags = [
            ("--id", id.to_string()),
            ("--data-dir", self.replica_dir(id).display().to_string()),
            ("--listen-peer-urls", self.peer_url(id)),
            ("--advertise-client-urls", list(Plan::asked_url)),
            ("--initial-cluster", list(Plan::peer_url)),
            ("--layout", self.layout(options).name().to_owned()),
            ("--peer-transport", options.peer_transport.name().to_owned()),
        ];
        let flags = flags.map(|(flag, value)| [flag.to_owned(), value]);
        let polling = &options.polling;
        flags
            .into_iter()
            .flatten()
            .chain(self.tls.flags())
            .chain(self.admin_flags(id))
            .chain(options.redis_server.flags())
            .chain(options.server_arg.iter().cloned())
            .chain(polling.flags(id, self.layout(options), self.replicas.into()))
            .chain(options.snapshots.flags())
            .chain(options.recode.flags())
            .collect()
    }

    /// The face of the cluster, which this program has.
    pub(super) fn face(&self) -> Result<FaceName, String> {
        FaceName::of(&self.params)
    }

    /// What of each replica runs on which thread.
    pub(super) fn layout(&self, options: &UpOptions) -> Layout {
        options.layout.resolve(self.replicas.into())
    }

    fn gateway_flags(&self) -> Vec<String> {
        let peers: Vec<String> = (1..=self.replicas).map(|id| self.peer_url(id)).collect();
        vec!["--peers".to_owned(), peers.join(",")]
    }

    pub(super) fn log(&self, who: Who) -> PathBuf {
        match who {
            Who::Replica(id) => self.replica_dir(id).join("log.txt"),
            Who::Gateway(id) => self.dir.join(format!("gateway-{id}.log")),
        }
    }

    pub(super) fn replica_dir(&self, id: u16) -> PathBuf {
        self.dir.join(id.to_string())
    }

    /// Begins a cluster: a folder per replica, and last the file that says they are complete.
    fn begin(options: &UpOptions) -> Result<Plan, Failure> {
        let face = options.face.unwrap_or_default();
        let tls = OwnCertificates {
            clients: options.auto_tls,
            peers: options.peer_auto_tls,
        };
        let store = options.redis_server.store().map_err(Failure::Usage)?;
        if store.is_some() && face != FaceName::Redis {
            return Err(Failure::Usage(
                "--redis-server and --redis-mode are options of the Redis face (--face redis)"
                    .to_owned(),
            ));
        }
        if options.import.is_some() && face != FaceName::Redis {
            return Err(Failure::Usage(
                "--import takes files of Redis (--face redis); quorate import takes those of etcd"
                    .to_owned(),
            ));
        }
        if options.import.is_some() && store == Some(RedisStore::Commands) {
            return Err(Failure::Usage(
                "--import: a cluster in command mode begins empty; --redis-mode effects takes files"
                    .to_owned(),
            ));
        }
        if store.is_some_and(RedisStore::has_servers) {
            options.redis_server.binary().map_err(Failure::Usage)?;
        }
        let kind = (face, store.unwrap_or_default());
        let beginning = Beginning::of(&options.cluster, kind, tls, &options.data_dir)?;
        let (port, replicas) = (beginning.plan.port, beginning.plan.replicas);
        check_gateways(face, port, replicas, options.gateways).map_err(Failure::Usage)?;
        match &options.import {
            Some(path) => {
                let store = store.unwrap_or_default();
                say(found(path, &beginning, store, &options.redis_server)?);
            }
            None => {
                for (dir, meta) in beginning.replicas() {
                    bootstrap(&dir, &meta).map_err(|error| Failure::Failed(error.to_string()))?;
                }
            }
        }
        beginning.remember()?;
        Ok(beginning.plan)
    }

    fn read(dir: &Path, path: &Path) -> Result<Plan, Failure> {
        let wrong = |why: String| Failure::Failed(format!("{} is damaged: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let head: Head = toml::from_str(&text).map_err(|error| wrong(error.message().into()))?;
        if head.format > FORMAT {
            return Err(Failure::Failed(format!(
                "{} has format {} and this program reads up to {FORMAT}: run the version of \
                 quorate that wrote it, or a newer one",
                path.display(),
                head.format
            )));
        }
        let file: File = toml::from_str(&text).map_err(|error| wrong(error.message().into()))?;
        let cluster = u128::from_str_radix(&file.cluster, 16)
            .map_err(|_| wrong(format!("{:?} is no cluster id", file.cluster)))?;
        let face = FaceName::of(&file.params).map_err(Failure::Failed)?;
        check_ports(face, file.port, file.replicas).map_err(wrong)?;
        Ok(Plan {
            dir: dir.to_owned(),
            cluster: ClusterId(cluster),
            replicas: file.replicas,
            port: file.port,
            protocol: file.protocol,
            durability: file.durability,
            params: file.params,
            tls: file.tls,
        })
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let file = File {
            format: FORMAT,
            cluster: self.cluster.to_string(),
            replicas: self.replicas,
            port: self.port,
            protocol: self.protocol.clone(),
            durability: self.durability,
            params: self.params.clone(),
            tls: self.tls,
        };
        let body = toml::to_string(&file).map_err(|error| Failure::Failed(error.to_string()))?;
        let temporary = path.with_extension("tmp");
        let write = || {
            let mut out = fs::File::create(&temporary)?;
            out.write_all(format!("{HEAD}{body}").as_bytes())?;
            out.sync_all()?;
            fs::rename(&temporary, path)?;
            fs::File::open(&self.dir)?.sync_all()
        };
        write().map_err(|error: std::io::Error| {
            Failure::Failed(format!("cannot write {}: {error}", path.display()))
        })
    }

    /// Checks that what is asked for is what the folder has: none of it can change by a flag.
    fn check(&self, options: &UpOptions) -> Result<(), String> {
        let differs = |flag: &str, asked: &str, has: &str| {
            Err(format!(
                "--{flag} {asked} contradicts the cluster in {}, which was begun with {has}: leave the flag \
                 out to go on with it, or begin another cluster in an empty folder (--data-dir)",
                self.dir.display()
            ))
        };
        if let Some(asked) = options
            .cluster
            .replicas
            .filter(|asked| *asked != self.replicas)
        {
            return differs("replicas", &asked.to_string(), &self.replicas.to_string());
        }
        if let Some(asked) = options
            .cluster
            .protocol
            .as_ref()
            .filter(|asked| **asked != self.protocol)
        {
            return differs("protocol", asked, &self.protocol);
        }
        if let Some(asked) = options
            .cluster
            .durability
            .filter(|asked| *asked != self.durability)
        {
            return differs("durability", asked.name(), self.durability.name());
        }
        let face = self.face()?;
        if let Some(asked) = options.face.filter(|asked| *asked != face) {
            return differs("face", asked.name(), face.name());
        }
        let store = face.store(&self.params)?.unwrap_or_default();
        if let Some(asked) = options.redis_server.other_store(store)? {
            return differs("redis-mode", asked.name(), store.name());
        }
        let mut asked = options.cluster.params(&self.protocol, self.replicas)?;
        if !asked.is_empty() {
            face.add_to(store, &mut asked);
            if asked != self.params {
                return differs("param", &list(&asked), &list(&self.params));
            }
        }
        if options.auto_tls && !self.tls.clients {
            return differs("auto-tls", "true", "plain text for clients");
        }
        if options.peer_auto_tls && !self.tls.peers {
            return differs("peer-auto-tls", "true", "plain text between replicas");
        }
        match options
            .cluster
            .port
            .filter(|port| options.only.is_some() && *port != self.port)
        {
            Some(port) => differs("port", &port.to_string(), &self.port.to_string()),
            None => Ok(()),
        }
    }
}

/// A command of this program, and the arguments behind it.
#[derive(Clone, Debug)]
pub(super) struct Child {
    command: &'static str,
    flags: Vec<String>,
}

impl Child {
    /// This very program, as that process.
    pub(super) fn command(&self) -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(self.command).args(&self.flags);
        // Options meant for this process are not meant for the replicas.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("QUORATE_") {
                command.env_remove(name);
            }
        }
        Ok(command)
    }
}

/// Parameters as they are given.
fn list(params: &BTreeMap<String, String>) -> String {
    if params.is_empty() {
        return "none".to_owned();
    }
    let params = params.iter().map(|(name, value)| format!("{name}={value}"));
    params.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
