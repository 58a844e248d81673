//! One of the two systems: performs steps and says what came of them.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{
    AlarmRequest, DefragmentRequest, HashKvRequest, HashRequest, LeaseGrantRequest,
    LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
    MemberListRequest, MoveLeaderRequest, PutRequest, RangeRequest, StatusRequest,
    WatchCreateRequest,
};
use quorate_face_etcd::client::{ClusterClient, KvClient, LeaseClient, MaintenanceClient};
use tonic::transport::{Channel, Endpoint};

use super::answer::{answered, outcome, plain, refused};
use super::leases::Leases;
use super::step::{Action, Outcome, STREAMS, Step};
use super::stream::Stream;
use super::world::World;
use crate::cluster::Cluster;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The system under test, or the one it is compared with.
#[derive(Debug)]
pub(crate) struct Side {
    channels: Vec<Channel>,
    /// The members, also where the channels above are of gateways to them.
    members: Vec<Channel>,
    streams: Vec<Stream>,
    leases: Leases,
    /// A watch that ended because of a compaction stays known until it is cancelled once more, and
    /// until then its stream tells no progress: that is etcd's way.
    keeps_compacted_watches: bool,
}

/// A channel to each of these URLs.
async fn connect(urls: &[String]) -> Result<Vec<Channel>, String> {
    let mut channels = Vec::new();
    for url in urls {
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|error| error.to_string())?;
        let channel = endpoint.connect_timeout(PATIENCE).connect().await;
        channels.push(channel.map_err(|error| format!("{url}: {error}"))?);
    }
    Ok(channels)
}

/// What came of a request for a lease.
struct Granted {
    outcome: Outcome,
    /// The number of the lease, if there is one.
    id: Option<i64>,
}

impl Side {
    /// Connects to a system's endpoints, and to its members, which may be behind them.
    pub(crate) async fn connect(system: &Cluster, is_etcd: bool) -> Result<Side, String> {
        let channels = connect(&system.endpoints).await?;
        let members = connect(&system.pages()).await?;
        let open = |index| Stream::open(&channels[index % channels.len()]);
        Ok(Side {
            streams: (0..STREAMS).map(open).collect(),
            channels,
            members,
            leases: Leases::default(),
            keeps_compacted_watches: is_etcd,
        })
    }

    /// Performs a step. Whatever happens is an outcome, to be compared with the other side's.
    pub(crate) async fn perform(&mut self, step: &Step, world: &World) -> Outcome {
        let at = step.endpoint % self.channels.len();
        let served = tokio::time::timeout(PATIENCE * 2, self.serve(at, &step.action, world)).await;
        let served = served.unwrap_or_else(|_| Err("none in time".to_owned()));
        served.unwrap_or_else(|why| Outcome {
            text: format!("no answer: {why}"),
            ..Outcome::default()
        })
    }

    async fn serve(&mut self, at: usize, action: &Action, world: &World) -> Served {
        match action {
            Action::Put(_) | Action::DeleteRange(_) | Action::Txn(_) | Action::Compact(_) => {
                self.write(at, action).await
            }
            Action::Range(request) => self.range(at, request.clone()).await,
            Action::Grant(request) => self.grant(at, *request).await,
            Action::GrantBriefly(request) => self.grant_briefly(at, *request).await,
            Action::Revoke { id } => self.revoke(at, *id).await,
            Action::KeepAlive(ids) => self.keep_alive(at, ids).await,
            Action::TimeToLive { id, keys } => self.time_to_live(at, *id, *keys).await,
            Action::Leases => self.list_leases(at).await,
            Action::Watch { stream, request } => self.watch(*stream, request, world).await,
            Action::Cancel { stream, watch_id } => self.cancel(*stream, *watch_id, world).await,
            Action::Reopen { stream } => Ok(self.reopen(*stream)),
            Action::Settle => self.settle(at, world).await,
            _ => {
                // These are answered from the member's own state.
                self.catch_up(at).await?;
                self.maintain(at, action).await
            }
        }
    }

    async fn range(&mut self, at: usize, request: RangeRequest) -> Served {
        if request.serializable {
            self.catch_up(at).await?;
        }
        let answer = self.kv(at).range(request).await;
        Ok(outcome(answer, |message| self.leases.show_range(message)))
    }

    async fn write(&mut self, at: usize, action: &Action) -> Served {
        let mut kv = self.kv(at);
        let leases = &self.leases;
        Ok(match action.clone() {
            Action::Put(mut request) => {
                request.lease = leases.real(request.lease);
                outcome(kv.put(request).await, |message| leases.show_put(message))
            }
            Action::DeleteRange(request) => outcome(kv.delete_range(request).await, |message| {
                leases.show_delete(message)
            }),
            Action::Txn(mut request) => {
                leases.translate(&mut request);
                outcome(kv.txn(request).await, |message| leases.show_txn(message))
            }
            Action::Compact(request) => outcome(kv.compact(request).await, |_| ()),
            other => return Err(format!("{other:?} is no write")),
        })
    }

    async fn grant(&mut self, at: usize, request: LeaseGrantRequest) -> Served {
        Ok(self.granted(at, request).await.outcome)
    }

    async fn grant_briefly(&mut self, at: usize, request: LeaseGrantRequest) -> Served {
        let Granted {
            outcome: mut granted,
            id,
        } = self.granted(at, request).await;
        if let Some(id) = id {
            let revoked = self.lease(at).lease_revoke(LeaseRevokeRequest { id }).await;
            granted.text.push_str(&outcome(revoked, |_| ()).text);
        }
        Ok(granted)
    }

    /// Grants a lease.
    async fn granted(&mut self, at: usize, mut request: LeaseGrantRequest) -> Granted {
        request.id = self.leases.real(request.id);
        let answer = self.lease(at).lease_grant(request).await;
        let mut id = None;
        let outcome = outcome(answer, |message| {
            id = Some(message.id);
            if request.id == 0 {
                message.id = self.leases.name(message.id);
            }
        });
        Granted { outcome, id }
    }

    async fn revoke(&mut self, at: usize, id: i64) -> Served {
        let id = self.leases.real(id);
        let answer = self.lease(at).lease_revoke(LeaseRevokeRequest { id }).await;
        Ok(outcome(answer, |_| ()))
    }

    async fn keep_alive(&mut self, at: usize, ids: &[i64]) -> Served {
        let real = ids.iter().map(|id| LeaseKeepAliveRequest {
            id: self.leases.real(*id),
        });
        let requests = tokio_stream::iter(real.collect::<Vec<_>>());
        let mut whole = Outcome::default();
        let mut answers = match self.lease(at).lease_keep_alive(requests).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return Ok(refused(&status)),
        };
        loop {
            let one = match answers.message().await {
                Ok(None) => return Ok(whole),
                Ok(Some(mut answer)) => {
                    answer.id = self.leases.shown(answer.id);
                    answered(answer)
                }
                Err(status) => refused(&status),
            };
            whole.revision = one.revision;
            whole.text.push_str(&one.text);
            if !one.succeeded {
                return Ok(whole);
            }
        }
    }

    async fn time_to_live(&mut self, at: usize, id: i64, keys: bool) -> Served {
        let id = self.leases.real(id);
        let request = LeaseTimeToLiveRequest { id, keys };
        let answer = self.lease(at).lease_time_to_live(request).await;
        let mut seconds_left = 0;
        let mut outcome = outcome(answer, |message| {
            message.id = self.leases.shown(message.id);
            seconds_left = std::mem::take(&mut message.ttl);
            // etcd keeps them in no order.
            message.keys.sort();
        });
        outcome.seconds_left = seconds_left;
        Ok(outcome)
    }

    async fn list_leases(&mut self, at: usize) -> Served {
        let answer = self.lease(at).lease_leases(LeaseLeasesRequest {}).await;
        Ok(outcome(answer, |message| {
            for lease in &mut message.leases {
                lease.id = self.leases.shown(lease.id);
            }
            // etcd lists them by the time they have left.
            message.leases.sort_by_key(|lease| lease.id);
        }))
    }

    async fn watch(
        &mut self,
        stream: usize,
        request: &WatchCreateRequest,
        world: &World,
    ) -> Served {
        self.catch_up(stream % self.channels.len()).await?;
        let open = &mut self.streams[stream];
        let response = open.create(request.clone(), &self.leases).await?;
        let (id, refused) = (response.watch_id, response.canceled);
        let mut outcome = answered(response);
        let start = request.start_revision;
        if refused {
            return Ok(outcome);
        }
        if start == 0 || start >= world.compacted {
            outcome.watch_id = Some(id);
            return Ok(outcome);
        }
        let ended = open.canceled(id, &self.leases).await?;
        outcome.text.push_str(&answered(ended).text);
        if self.keeps_compacted_watches {
            open.ask_to_cancel(id).await?;
            open.canceled(id, &self.leases).await?;
        }
        Ok(outcome)
    }

    async fn cancel(&mut self, stream: usize, watch_id: i64, world: &World) -> Served {
        self.catch_up(stream % self.channels.len()).await?;
        self.streams[stream].ask_to_cancel(watch_id).await?;
        if !world.watches[stream].contains(&watch_id) {
            // Nobody answers that.
            return Ok(Outcome::default());
        }
        let response = self.streams[stream]
            .canceled(watch_id, &self.leases)
            .await?;
        Ok(answered(response))
    }

    fn reopen(&mut self, stream: usize) -> Outcome {
        let channel = &self.channels[stream % self.channels.len()];
        self.streams[stream] = Stream::open(channel);
        Outcome::default()
    }

    /// Puts until every watch has begun, and waits until all of them have told everything.
    async fn settle(&mut self, at: usize, world: &World) -> Served {
        let mut whole = Outcome::default();
        // A new revision each time: an answer to an earlier question cannot be taken for a new one.
        while whole.revision <= world.revision || whole.revision < world.watched_from {
            let request = PutRequest {
                key: Bytes::from_static(b"tick"),
                ..PutRequest::default()
            };
            let answer = outcome(self.kv(at).put(request).await, |_| ());
            if !answer.succeeded || answer.revision <= whole.revision {
                return Ok(answer);
            }
            whole.revision = answer.revision;
        }
        for (index, watches) in world.watches.iter().enumerate() {
            let stream = &mut self.streams[index];
            if !watches.is_empty() {
                stream.progress(whole.revision, &self.leases).await?;
            }
            let told = stream.take();
            whole.events += told.events;
            for (id, told) in told.by_watch {
                let _ = write!(
                    whole.text,
                    "stream {index}, watch {id}: {}; ",
                    told.join(", ")
                );
            }
        }
        Ok(whole)
    }

    /// Makes a member know every write so far.
    async fn catch_up(&mut self, at: usize) -> Result<(), String> {
        let request = RangeRequest {
            key: Bytes::from_static(b"tick"),
            count_only: true,
            ..RangeRequest::default()
        };
        let read = self.kv(at).range(request).await;
        read.map(drop).map_err(|status| status.to_string())
    }

    async fn maintain(&mut self, at: usize, action: &Action) -> Served {
        let mut maintenance = MaintenanceClient::new(self.channels[at].clone());
        Ok(match action {
            Action::Status => outcome(maintenance.status(StatusRequest {}).await, |message| {
                // Sizes, positions in the log and the release are every system's own.
                message.version = shape(&message.version);
                message.storage_version = shape(&message.storage_version);
                (message.db_size, message.db_size_in_use) = (0, 0);
                message.db_size_quota = 0;
                message.leader = message.leader.min(1);
                (message.raft_index, message.raft_applied_index) = (0, 0);
                message.raft_term = 0;
            }),
            Action::HashKv { revision } => {
                let request = HashKvRequest {
                    revision: *revision,
                };
                outcome(maintenance.hash_kv(request).await, |message| {
                    message.hash = 0;
                })
            }
            Action::Hash => outcome(maintenance.hash(HashRequest {}).await, |message| {
                message.hash = 0;
            }),
            Action::Alarms => outcome(maintenance.alarm(AlarmRequest::default()).await, |_| ()),
            Action::Defragment => {
                outcome(maintenance.defragment(DefragmentRequest {}).await, |_| ())
            }
            Action::MoveLeader { target_id } => {
                let request = MoveLeaderRequest {
                    target_id: *target_id,
                };
                let mut leader = MaintenanceClient::new(self.leader().await?);
                outcome(leader.move_leader(request).await, |_| ())
            }
            Action::Members { linearizable } => {
                let request = MemberListRequest {
                    linearizable: *linearizable,
                };
                let mut cluster = ClusterClient::new(self.channels[at].clone());
                outcome(cluster.member_list(request).await, |message| {
                    // The clusters differ in size; what is known of a member does not.
                    message.members.truncate(1);
                    for member in &mut message.members {
                        (member.id, member.name) = (0, String::new());
                        member.peer_urls.iter_mut().for_each(String::clear);
                        member.client_urls.iter_mut().for_each(String::clear);
                    }
                })
            }
            other => return Err(format!("{} is not maintenance", plain(other))),
        })
    }

    /// The member that names itself leader: the only one that moves it.
    async fn leader(&self) -> Result<Channel, String> {
        for channel in &self.members {
            let mut maintenance = MaintenanceClient::new(channel.clone());
            let status = maintenance.status(StatusRequest {}).await;
            let status = status.map_err(|status| status.to_string())?.into_inner();
            if status.header.map(|header| header.member_id) == Some(status.leader) {
                return Ok(channel.clone());
            }
        }
        Err("no member names itself leader".to_owned())
    }

    fn kv(&self, at: usize) -> KvClient<Channel> {
        KvClient::new(self.channels[at].clone()).max_decoding_message_size(usize::MAX)
    }

    fn lease(&self, at: usize) -> LeaseClient<Channel> {
        LeaseClient::new(self.channels[at].clone())
    }
}

/// What a step gives; an error when there is no answer at all.
type Served = Result<Outcome, String>;

/// Whether a text is there, and how many parts it has.
fn shape(version: &str) -> String {
    version.chars().filter(|letter| *letter == '.').collect()
}
