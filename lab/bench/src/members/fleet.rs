//! Replicas that are started one by one, each with `quorate serve`, and what `etcdctl member` would ask
//! them for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate_etcd_api::etcdserverpb::{MemberAddRequest, MemberListRequest, MemberRemoveRequest};
use quorate_face_etcd::client::{ClusterClient, in_words};
use quorate_protocols::Code;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

use super::MembersArgs;
use crate::serving::Serve;
use quorate_load::trial::Asker;
use quorate_tooling::children::Tether;
use quorate_tooling::cleanup::TempDir;
use quorate_tooling::launch::{Launch, Running, last_lines};
use quorate_tooling::ports::free_ports;
use quorate_tooling::scrape::{get, post};

/// All replicas there are, by number.
#[derive(Debug)]
pub(super) struct Fleet {
    binary: PathBuf,
    directory: TempDir,
    ports: u16,
    running: BTreeMap<u16, Running>,
    /// Members, and the last that was added if it is none yet.
    listed: Vec<u16>,
    /// Numbers given so far.
    last: u16,
    protocol: String,
    /// The code that rs-paxos uses.
    code: Option<Code>,
    /// Kills so far.
    kills: usize,
    /// The epoch that the last change of protocol, code or parameters began.
    epoch: u64,
}

impl Fleet {
    /// Begins a cluster; `most` replicas will be started in all.
    pub(super) fn begin(args: &MembersArgs, runtime: &Runtime, most: u16) -> Result<Fleet, String> {
        let binary = args.place.binary()?;
        let directory = TempDir::new(args.place.parent()).map_err(|error| error.to_string())?;
        let mut fleet = Fleet {
            binary,
            directory,
            ports: free_ports(2 * most)?,
            running: BTreeMap::new(),
            listed: (1..=args.replicas).collect(),
            last: args.replicas,
            protocol: args.protocol.clone(),
            code: args.code,
            kills: 0,
            epoch: 1,
        };
        let mut flags = vec![
            "--initial-cluster-state=new".to_owned(),
            format!("--protocol={}", args.protocol),
        ];
        let code = args.code.filter(|_| args.protocol == "rs-paxos");
        flags.extend(code.map(|code| format!("--param=k={}", code.k)));
        flags.extend(args.param.iter().map(|param| format!("--param={param}")));
        for id in 1..=args.replicas {
            fleet.start(id, &flags)?;
        }
        let url = fleet.client_url(1);
        let first = async {
            let mut asker = Asker::new(&url, PATIENCE)?;
            asker
                .insist_put(PATIENCE, &"begun".into(), "yes".into())
                .await
        };
        runtime.block_on(first)?;
        Ok(fleet)
    }

    /// The folder of everything.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Leaves the folder where it is, as evidence.
    pub(super) fn keep(&mut self) {
        self.directory.keep();
    }

    /// How many members there are.
    pub(super) fn count(&self) -> usize {
        self.listed.len()
    }

    /// The member of the lowest number.
    pub(super) fn lowest(&self) -> u16 {
        self.listed[0]
    }

    /// Where clients reach the replicas that run.
    pub(super) fn endpoints(&self) -> Vec<String> {
        let running = self
            .listed
            .iter()
            .filter(|id| self.running.contains_key(id));
        running.map(|id| self.client_url(*id)).collect()
    }

    /// Where clients reach the replicas that run, without one of them.
    pub(super) fn endpoints_without(&self, id: u16) -> Vec<String> {
        let mut endpoints = self.endpoints();
        endpoints.retain(|url| *url != self.client_url(id));
        endpoints
    }

    /// Kills a replica and deletes its folder.
    pub(super) fn destroy(&mut self, id: u16) -> Result<(), String> {
        // Dropped is killed and waited for.
        self.running.remove(&id);
        let folder = self.folder(id);
        fs::remove_dir_all(&folder)
            .map_err(|error| format!("cannot delete {}: {error}", folder.display()))
    }

    /// Kills a member, another one each time; says which.
    pub(super) fn kill_next(&mut self) -> u16 {
        let id = self.listed[self.kills % self.listed.len()];
        self.kills += 1;
        // Dropped is killed and waited for.
        self.running.remove(&id);
        id
    }

    /// Starts a replica that was killed.
    pub(super) fn restart(&mut self, id: u16) -> Result<(), String> {
        self.start(id, &[])
    }

    /// Has the cluster go on with another protocol.
    pub(super) fn switch(&mut self, protocol: &str) -> Result<(), String> {
        self.protocol = protocol.to_owned();
        self.go_on(BTreeMap::new())
    }

    /// Has the cluster go on with one parameter that is not as usual.
    pub(super) fn set(&mut self, name: &str, value: impl ToString) -> Result<(), String> {
        self.go_on(BTreeMap::from([(name.to_owned(), value.to_string())]))
    }

    /// Has the cluster go on with another code.
    pub(super) fn recode(&mut self, k: usize) -> Result<(), String> {
        self.code = self.code.map(|code| Code { k, ..code });
        self.go_on(BTreeMap::new())
    }

    /// Asks for an epoch with the present protocol, and the code if it has one.
    fn go_on(&mut self, mut params: BTreeMap<String, String>) -> Result<(), String> {
        let before = self.wait_settled()?;
        let protocol = &self.protocol;
        let code = self.code.filter(|_| protocol == "rs-paxos");
        if let Some(code) = code {
            code.add_to(self.listed.len(), &mut params)?;
        }
        let body = json!({ "protocol": protocol, "params": params }).to_string();
        let url = self.endpoints().first().cloned().ok_or("no member runs")?;
        match post(&url, "/cluster/protocol", &body, PATIENCE)? {
            (200, _) => {
                self.epoch = before + 1;
                Ok(())
            }
            (_, why) => Err(format!("no switch to {protocol}: {why}")),
        }
    }

    /// Waits until the last change is done, with all that has to be moved; says how many epochs there
    /// have been.
    pub(super) fn wait_settled(&self) -> Result<u64, String> {
        let url = self.endpoints().first().cloned().ok_or("no member runs")?;
        let deadline = Instant::now() + SETTLE_PATIENCE;
        loop {
            let page = get(&url, "/status").unwrap_or_default();
            let page: Value = serde_json::from_str(&page).unwrap_or_default();
            let newest = page["epochs"].as_array().and_then(|all| all.last());
            let newest = newest.and_then(|newest| newest["number"].as_u64());
            let is_done = page["is_open"] == true && page["is_settled"] == true;
            if let Some(newest) = newest.filter(|newest| is_done && *newest >= self.epoch) {
                return Ok(newest);
            }
            if Instant::now() > deadline {
                return Err(format!("the change is not done: {page}"));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Adds a replica, starts it, and waits until it is a member; says its number.
    pub(super) fn add(&mut self, runtime: &Runtime) -> Result<u16, String> {
        self.last += 1;
        let id = self.last;
        let request = MemberAddRequest {
            peer_urls: vec![self.peer_url(id)],
            is_learner: false,
        };
        let via = self.ask(runtime)?;
        let added = runtime.block_on(via.clone().member_add(in_words(request)));
        let added = added.map_err(|status| format!("replica {id} was not added: {status}"))?;
        let given = added.into_inner().member.map_or(0, |member| member.id);
        if given != u64::from(id) {
            return Err(format!("replica {id} was added as replica {given}"));
        }
        self.listed.push(id);
        self.start(id, &[])?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let list = runtime.block_on(via.clone().member_list(MemberListRequest::default()));
            let members = list.map(|list| list.into_inner().members);
            let members = members.map_err(|status| format!("the members: {status}"))?;
            let is_in = |member: &quorate_etcd_api::etcdserverpb::Member| {
                member.id == given && !member.is_learner && !member.name.is_empty()
            };
            if members.iter().any(is_in) {
                return Ok(id);
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "replica {id} did not become a member: {}",
                    self.log(id)
                ));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, runtime: &Runtime, id: u16) -> Result<(), String> {
        self.listed.retain(|one| *one != id);
        let request = MemberRemoveRequest { id: id.into() };
        let mut via = self.ask(runtime)?;
        let removed = runtime.block_on(via.member_remove(in_words(request)));
        removed
            .map(drop)
            .map_err(|status| format!("replica {id} was not removed: {status}"))
    }

    /// A removed replica has to end by itself.
    pub(super) fn expect_end(&mut self, id: u16) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while let Some(process) = self.running.get_mut(&id) {
            if process.ended().is_some() {
                self.running.remove(&id);
            } else if Instant::now() > deadline {
                return Err(format!(
                    "replica {id} was removed, and runs: {}",
                    self.log(id)
                ));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// A connection to a member that runs.
    fn ask(&self, runtime: &Runtime) -> Result<ClusterClient<Channel>, String> {
        let url = self.endpoints().first().cloned().ok_or("no member runs")?;
        let endpoint = Endpoint::from_shared(url).map_err(|error| error.to_string())?;
        let channel = runtime.block_on(endpoint.timeout(PATIENCE).connect());
        channel
            .map(ClusterClient::new)
            .map_err(|error| format!("no member answers: {error}"))
    }

    fn start(&mut self, id: u16, flags: &[String]) -> Result<(), String> {
        let members = self.listed.iter();
        let mut arguments = Serve {
            id: id.into(),
            folder: &self.folder(id),
            client_url: &self.client_url(id),
            peer_url: &self.peer_url(id),
            members: members
                .map(|id| (usize::from(*id), self.peer_url(*id)))
                .collect(),
        }
        .arguments();
        arguments.extend_from_slice(flags);
        let launch = Launch {
            tether: Tether::killing(),
            ..Launch::new(&self.binary, arguments, self.log_path(id))
        };
        self.running.insert(id, launch.start()?);
        Ok(())
    }

    fn client_url(&self, id: u16) -> String {
        format!("http://127.0.0.1:{}", self.ports + 2 * id - 2)
    }

    fn peer_url(&self, id: u16) -> String {
        format!("http://127.0.0.1:{}", self.ports + 2 * id - 1)
    }

    fn folder(&self, id: u16) -> PathBuf {
        self.directory.path().join(id.to_string())
    }

    fn log_path(&self, id: u16) -> PathBuf {
        self.directory.path().join(format!("replica-{id}.log"))
    }

    /// The last line of a replica's log.
    fn log(&self, id: u16) -> String {
        match last_lines(&self.log_path(id), 1) {
            line if line.is_empty() => "its log is empty".to_owned(),
            line => line,
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
/// All values may have to be coded anew, beside a load that does not wait.
const SETTLE_PATIENCE: Duration = Duration::from_secs(1_800);
const POLL: Duration = Duration::from_millis(10);
